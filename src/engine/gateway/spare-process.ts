// Forks engine processes, and keeps a spare one: forked before it is known what it is to load. A
// process takes a while to start and to open the addon, and a command as long to find its model; by
// this the two happen at once. Used by engine/gateway/child, and by the command line, which alone
// knows so soon that an engine will be needed.
import { fork, type ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { spinCount } from '../../system/open-mp.js';

/** What is forked unless a test gives something else. */
export const engineEntry = fileURLToPath(new URL('../process/main.js', import.meta.url));

/**
 * Young objects of an engine are few KiB a step. V8 would let them take 32 MiB before it looks at
 * what is still used; so 8 do.
 */
const engineFlags = ['--max-semi-space-size=4'];

let spare: ChildProcess | undefined;

function forkEntry(entry: string): ChildProcess {
  // execArgv: the gateway's own (--inspect, loaders) are not the engine's. stdout is data: nothing
  // of the child goes there.
  return fork(entry, [], { serialization: 'advanced', execArgv: engineFlags, env: { ...process.env, ...spinCount() }, stdio: ['ignore', 'pipe', 'pipe', 'ipc'] });
}

/**
 * Forks the process that the next `forkEngine` gives. Whoever calls this calls `dropEarly` in the
 * end. Returns its id if it could be started.
 */
export function forkSpare(): number | undefined {
  if (spare) return spare.pid;
  spare = forkEntry(engineEntry);
  // It may end unused, and what is wrong with it is told by the one that is forked instead.
  spare.on('error', () => {});
  return spare.pid;
}

/** Ends the spare process, if nobody took it. */
export function dropSpare(): void {
  spare?.kill('SIGKILL');
  spare = undefined;
}

/** An engine process that nobody has sent anything yet. */
export function forkEngine(entry: string): ChildProcess {
  const waiting = entry === engineEntry ? spare : undefined;
  if (waiting === undefined) return forkEntry(entry);
  spare = undefined;
  const alive = waiting.pid !== undefined && waiting.exitCode === null && waiting.signalCode === null && waiting.connected;
  return alive ? waiting : forkEntry(entry);
}
