// A gateway that starts an engine, keeps it busy and prints its pid; client.test ends it, by a
// signal or by closing its stdin.
import { startEngine } from '#recua/engine/gateway/client.js';
import { completion, options, sampling } from './requests.js';

const engine = startEngine({ ...options, contextSize: 100_000 }, { entry: new URL('./fake-main.js', import.meta.url) });
await engine.ready();
void engine.complete(completion('~', { maxTokens: 90_000, sampling })).finished.catch(() => {});
process.stdin.on('end', () => process.exit()).resume();
process.stdout.write(`${engine.pid}\n`);
