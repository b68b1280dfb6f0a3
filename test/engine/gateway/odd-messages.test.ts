// An engine process that sends what no engine sends.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { startEngine } from '#recua/engine/gateway/client.js';
import { completion, options, say } from '../requests.js';

const messages = ['no message', 'no events', 'no event', 'fewer than no tokens', 'tokens in no list', 'an error without a code', 'no model'];

for (const message of messages) {
  t.test(`${message}: the process is ended, and the request goes on in the next one`, async (t) => {
    process.env.ODD = message;
    writeFileSync(process.env.ODD_ONCE = join(t.testdir({}), 'once'), '');
    const log: string[] = [];
    const entry = new URL('../odd-main.js', import.meta.url);
    const engine = startEngine(options, { entry, log: (_, text) => log.push(text), restart: { delayMs: 1 } });
    t.teardown(() => engine.close(0));
    await engine.ready();
    let content = '';
    for await (const delta of engine.complete(completion('x', { constraint: say('one two three') }))) content += delta.content ?? '';
    t.equal(content, 'one two three');
    t.equal(engine.crashes, 1);
    t.ok(log.some((line) => /died \(signal SIGKILL\).*could not be used: \w*Error: /.test(line)), log.join('\n'));
  });
}
