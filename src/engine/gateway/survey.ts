// What native code there is on this machine and what it can do, as a process of its own finds it:
// whatever breaks, breaks there. Called by the command line for `--list-devices` and `doctor`, and
// before a pool of models;
// survey-main.ts is the process.
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Device, NativeBackend } from '../../addon/addon.js';
import { RecuaError } from '../../errors.js';
import { refusedEnvironment } from '../../addon/refused.js';
import { wantsGpu } from '../offload.js';
import { knownRefused } from '../proof/prove.js';
import type { PlainError } from '../../errors.js';
import type { BackendReport } from '../../addon/backends.js';
import type { Attempt } from '../../addon/load.js';
import type { MachineFacts } from '../../system/machine-text.js';
import type { NativePackage } from '../../addon/places.js';

export interface Survey {
  machine: MachineFacts;
  /** Undefined where none could be loaded: `failure` says why. */
  addon: { source: string; path: string; linked: boolean; llamaCpp: string } | undefined;
  failure: PlainError | undefined;
  /** Places that were tried in vain. */
  attempts: Attempt[];
  packages: NativePackage[];
  /** Those registered, and of the CPU's variants those that this machine cannot run. */
  backends: NativeBackend[];
  /** The backends for GPUs that are installed, loaded or not. */
  optional: BackendReport[];
  devices: Device[];
}

/**
 * The GPUs that models may compute on; none where nobody wants one. What is wrong with them is told
 * by the load that needs one.
 */
export async function findGpus(wishes: readonly Parameters<typeof wantsGpu>[0][]): Promise<Device[]> {
  if (!wishes.some(wantsGpu)) return [];
  const { devices } = await takeSurvey().catch(() => ({ devices: [] }));
  return devices.filter(({ kind }) => kind !== 'cpu');
}

const entry = fileURLToPath(new URL('../../addon/survey-main.js', import.meta.url));
/** Beyond the time that each probe has. */
const limitMs = 60_000;

export function takeSurvey(): Promise<Survey> {
  return new Promise((resolve, reject) => {
    const env = { ...process.env, ...refusedEnvironment(knownRefused()) };
    const child = fork(entry, [], { env, execArgv: [], serialization: 'advanced', stdio: ['ignore', 'ignore', 'pipe', 'ipc'] });
    let survey: Survey | undefined;
    let output = '';
    const timer = setTimeout(() => child.kill('SIGKILL'), limitMs);
    child.stderr?.setEncoding('utf8').on('data', (text: string) => (output = (output + text).slice(-4096)));
    child.on('message', (message) => {
      survey = message as Survey;
      // Nothing is to be tidied up; a driver may take its time for that.
      child.kill('SIGKILL');
    });
    const end = (how: string): void => {
      clearTimeout(timer);
      if (survey) return resolve(survey);
      const said = output.trim() === '' ? '' : ` Its last words: ${output.trim().split('\n').slice(-3).join(' | ')}`;
      reject(new RecuaError('addon_missing', `The process that looks for devices ended by itself (${how}).${said}`));
    };
    child.on('error', (error) => end(error.message));
    child.on('close', (code, signal) => end(signal === null ? `exit code ${code}` : `signal ${signal}`));
  });
}
