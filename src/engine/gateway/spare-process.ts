// Forks engine processes, and keeps a spare one: forked before it is known what it is to load. A
// process takes a while to start and to open the addon, and a command as long to find its model; by
// this the two happen at once. Used by engine/gateway/child, and by the command line, which alone
// knows so soon that an engine will be needed.
import { fork, type ChildProcess } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { confine, type Launch } from '../confinement/launch.js';
import { suffices, type Needs } from '../confinement/rules.js';
import { refusedEnvironment } from '../../addon/refused.js';
import { knownRefused } from '../proof/prove.js';
import { spinCount } from '../../system/open-mp.js';

/** What is forked unless a test gives something else. */
export const engineEntry = fileURLToPath(new URL('../process/main.js', import.meta.url));

/**
 * Young objects of an engine are few KiB a step. V8 would let them take 32 MiB before it looks at
 * what is still used; so 8 do.
 */
const engineFlags = ['--max-semi-space-size=4'];

/**
 * Where llama.cpp gives up, ggml would start gdb on the process and print a hundred lines, behind
 * which the reason is lost, and who waits for the next process waits for that. A core file has it.
 */
const withoutStack = { GGML_NO_BACKTRACE: '1' };

/** What a process is confined to; undefined where it is free. `hasTo`: else it is not started. */
export type Wanted = (Needs & { hasTo: boolean }) | undefined;

/** `told`: of CPU libraries that it is not to use. */
let spare: { process: ChildProcess; launch: Launch | undefined; told: string } | undefined;

function forkEntry(entry: string, launch: Launch | undefined, refused = refusedEnvironment({})): ChildProcess {
  // execArgv: the gateway's own (--inspect, loaders) are not the engine's. stdout is data: nothing
  // of the child goes there.
  const how = launch ? { execPath: launch.program, execArgv: [...launch.arguments, ...engineFlags] } : { execArgv: engineFlags };
  return fork(entry, [], { ...how, serialization: 'advanced', env: { ...process.env, ...withoutStack, ...spinCount(), ...refused }, stdio: ['ignore', 'pipe', 'pipe', 'ipc'] });
}

/**
 * Forks the process that the next `forkEngine` gives. `needs` are guessed; undefined is one that is
 * not confined. Whoever calls this calls `dropSpare` in the end. Returns its id if it could be
 * started.
 */
export function forkSpare(needs: Needs | undefined): number | undefined {
  if (spare) return spare.process.pid;
  const launch = needs && confine(needs, false);
  const refused = refusedEnvironment(knownRefused());
  spare = { process: forkEntry(engineEntry, launch, refused), launch, told: JSON.stringify(refused) };
  // It may end unused, and what is wrong with it is told by the one that is forked instead.
  spare.process.on('error', () => {});
  return spare.process.pid;
}

/** Ends the spare process, if nobody took it. */
export function dropSpare(): void {
  spare?.process.kill('SIGKILL');
  spare = undefined;
}

/** An engine process that nobody has sent anything yet. @throws RecuaError `sandbox_unavailable` */
export function forkEngine(entry: string, wanted: Wanted): ChildProcess {
  const refused = refusedEnvironment(entry === engineEntry ? knownRefused() : {});
  if (entry === engineEntry && spare) {
    if (spare.told === JSON.stringify(refused) && fits(spare, wanted)) {
      const { process } = spare;
      spare = undefined;
      return process;
    }
    // Another guess than this one there will not be.
    dropSpare();
  }
  wanted?.writes.forEach(make);
  return forkEntry(entry, wanted && confine(wanted, wanted.hasTo), refused);
}

/** Only what is there can be allowed. Who then cannot write to it says why. */
function make(folder: string): void {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  } catch {
    // A disk that nobody may write to.
  }
}

/** Whether the spare process lives, and was started so that it does for what is wanted. */
function fits({ process, launch }: NonNullable<typeof spare>, wanted: Wanted): boolean {
  const { pid, exitCode, signalCode, connected } = process;
  if (pid === undefined || exitCode !== null || signalCode !== null || !connected) return false;
  if (!wanted) return launch === undefined;
  return launch !== undefined && !wanted.hasTo && suffices(launch.rules, wanted);
}
