// Forks engine processes, and keeps a spare one that is forked before its model is known. A process
// takes a while to start and to open the addon, and a command takes as long to find its model: this
// way both happen at the same time. Used by engine/gateway/child, and by the command line, which
// knows early that it will need an engine.
import { spawn, type ChildProcess } from 'node:child_process';
import type { Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import { channelDescriptor } from '../channel.js';
import { confine, needsOf, type Launch } from '../confinement/launch.js';
import { suffices, type Needs } from '../confinement/rules.js';
import type { EngineOptions } from '../protocol.js';
import { refusedEnvironment } from '../../addon/refused.js';
import { knownRefused } from '../proof/prove.js';
import { createFolderSync } from '../../system/create-folder.js';
import { poolSize } from '../../system/thread-pool.js';
import { spinCount } from '../../system/open-mp.js';
import { nodePath } from '../../system/programs.js';

/** The default entry; tests pass another. */
export const engineEntry = fileURLToPath(new URL('../process/main.js', import.meta.url));

/**
 * An engine allocates only a few KiB of young objects per step. V8's default would let them grow to
 * 32 MiB before it collects; this makes it 8.
 */
const engineFlags = ['--max-semi-space-size=4'];

/**
 * When llama.cpp aborts, ggml would run gdb on the process: its hundred lines hide the reason, and
 * the restart has to wait for it. A core file has the same information.
 */
const withoutStack = { GGML_NO_BACKTRACE: '1' };

/** What a process needs in its sandbox; undefined: no sandbox. `hasTo`: do not start it without. */
export type Wanted = (Needs & { hasTo: boolean }) | undefined;

interface Confinement {
  /** A test's own entry runs in no sandbox. */
  entry?: string | URL;
  autoSandbox?: boolean;
  stateFolder?: string | undefined;
}

export function wantedOf(options: EngineOptions, { entry, autoSandbox, stateFolder }: Confinement): Wanted {
  const hasTo = options.sandbox === 'on';
  const needs = entry === undefined && (hasTo || autoSandbox !== false) ? needsOf(options, stateFolder) : undefined;
  return needs && { ...needs, hasTo };
}

export function entryPath(entry: string | URL): string {
  return typeof entry === 'string' ? entry : fileURLToPath(entry);
}

/** `told`: the refused CPU libraries, as passed to the process. */
let spare: { process: ChildProcess; launch: Launch | undefined; told: string } | undefined;

function forkEntry(entry: string, launch: Launch | undefined, refused = refusedEnvironment({})): ChildProcess {
  const [program, before] = launch ? [launch.program, launch.arguments] : [nodePath(), []];
  // Electron's own program is a browser unless it is told to be Node.
  const asNode = process.versions['electron'] === undefined ? {} : { ELECTRON_RUN_AS_NODE: '1' };
  const env = { ...(launch?.environment ?? process.env), ...asNode, ...withoutStack, ...spinCount(), ...poolSize(), ...refused };
  // stdout is piped, since the gateway's own stdout carries data. 'overlapped': on Windows, both
  // processes read and write the channel at the same time.
  return spawn(program, [...before, ...engineFlags, entry], { env, stdio: ['ignore', 'pipe', 'pipe', 'overlapped'] });
}

/** The gateway's end of a process's channel; undefined if the process could not start. */
export function channelSocket(process: ChildProcess): Socket | undefined {
  return process.stdio?.[channelDescriptor] as Socket | undefined;
}

/**
 * Forks a process for the next `forkEngine`. `needs` are a guess; undefined: no sandbox. The caller
 * must call `dropSpare` in the end. Returns the process id if it could be started.
 */
export function forkSpare(needs: Needs | undefined): number | undefined {
  if (spare) return spare.process.pid;
  const launch = needs && confine(needs, false);
  const refused = refusedEnvironment(knownRefused());
  spare = { process: forkEntry(engineEntry, launch, refused), launch, told: JSON.stringify(refused) };
  // It may end unused; if it fails, the process forked instead reports the error.
  spare.process.on('error', () => {});
  return spare.process.pid;
}

/** Ends the spare process if it was not used. */
export function dropSpare(): void {
  spare?.process.kill('SIGKILL');
  spare = undefined;
}

/**
 * Returns a fresh engine process, the spare one if it fits.
 * @throws RecuaError `sandbox_unavailable`
 */
export function forkEngine(entry: string, wanted: Wanted): ChildProcess {
  const refused = refusedEnvironment(entry === engineEntry ? knownRefused() : {});
  if (entry === engineEntry && spare) {
    if (spare.told === JSON.stringify(refused) && fits(spare, wanted)) {
      const { process } = spare;
      spare = undefined;
      return process;
    }
    // The guess was wrong, and there will be no other.
    dropSpare();
  }
  wanted?.writes.forEach(make);
  return forkEntry(entry, wanted && confine(wanted, wanted.hasTo), refused);
}

/** Creates a folder, since a sandbox can only allow existing ones. */
function make(folder: string): void {
  try {
    createFolderSync(folder, 0o700);
  } catch {
    // E.g. a read-only disk. The process that cannot write there reports it.
  }
}

/** Whether the spare process is alive, and its sandbox is right for what is wanted. */
function fits({ process, launch }: NonNullable<typeof spare>, wanted: Wanted): boolean {
  const { pid, exitCode, signalCode } = process;
  if (pid === undefined || exitCode !== null || signalCode !== null || !channelSocket(process)?.writable) return false;
  if (!wanted) return launch === undefined;
  return launch !== undefined && !wanted.hasTo && suffices(launch.rules, wanted);
}
