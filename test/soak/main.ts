// `npm run test:soak`: minutes of all kinds of traffic on one server, with figures. See
// CONTRIBUTING.md.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { availableParallelism, cpus } from 'node:os';
import { parseArgs } from 'node:util';
import { soak, type Sample } from './soak.js';

const command = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));

function read(): { minutes: number; clients: number; kills: number; model: string; flags: string[] } {
  const { values, positionals } = parseArgs({ options: { minutes: { type: 'string', default: '30' }, clients: { type: 'string', default: '12' }, kills: { type: 'string', default: '4' }, model: { type: 'string', default: 'builtin' } }, allowPositionals: true });
  const number = (name: 'minutes' | 'clients' | 'kills', least: number): number => {
    const value = Number(values[name]);
    if (!(value >= least)) throw new Error(`Expected a number of at least ${least} after --${name}, got ${values[name]}.`);
    return value;
  };
  return { minutes: number('minutes', 0.1), clients: number('clients', 1), kills: number('kills', 0), model: values.model, flags: positionals };
}

const headings = ['minute', 'requests', 'wrong', 'gateway MiB', 'engine MiB', 'sockets', 'median ms', 'longest ms'];
const row = (texts: readonly string[]): string => texts.map((text) => text.padStart(11)).join(' ');
const cells = ({ seconds, requests, wrong, gatewayMib, enginesMib, sockets, medianMs, longestMs }: Sample): string[] => [
  (seconds / 60).toFixed(1),
  String(requests),
  String(wrong),
  gatewayMib.toFixed(1),
  enginesMib.toFixed(1),
  String(sockets),
  medianMs.toFixed(0),
  longestMs.toFixed(0),
];

try {
  if (process.platform !== 'linux') throw new Error('test:soak looks into /proc, so it needs Linux.');
  const { minutes, clients, kills, model, flags } = read();
  const server = spawn(process.execPath, [command, 'api', model, '--port', '0', '--parallel', '4', '--context-size', '1024', '--queue-size', '1000', '--cache-ram', '64', ...flags], { stdio: ['ignore', 'inherit', 'pipe'] });
  let url = '';
  for await (const line of createInterface(server.stderr)) {
    url = /listens on (http:\S+)/.exec(line)?.[1] ?? '';
    if (url) break;
    process.stderr.write(`${line}\n`);
  }
  if (!url) throw new Error('The server did not start.');
  server.stderr.resume();
  process.stdout.write(`${clients} clients for ${minutes} minutes, ${kills} engines killed in the last tenth; ${cpus()[0]?.model.trim() ?? 'unknown processor'}, ${availableParallelism()} cores, Node ${process.version}\n`);
  process.stdout.write(`${row(headings)}  (the last two: /health and /metrics)\n`);
  const { requests, kills: killed, broken, growth } = await soak({
    url, pid: server.pid!, seconds: minutes * 60, clients, kills, reportSeconds: Math.min(60, minutes * 6), report: (sample) => void process.stdout.write(`${row(cells(sample))}\n`),
  });
  process.stdout.write(`${requests} requests, ${killed} engines killed; memory after the first third: × ${growth.toFixed(3)}\n`);
  for (const line of broken) process.stdout.write(`BROKEN ${line}\n`);
  const ended = once(server, 'exit');
  server.kill('SIGTERM');
  const [code] = await ended as [number | null];
  if (code !== 0) process.stdout.write(`BROKEN the server ended with ${code}\n`);
  process.exitCode = broken.length > 0 || code !== 0 ? 1 : 0;
} catch (thrown) {
  process.stderr.write(`${(thrown as Error).message}\n`);
  process.exitCode = 2;
}
