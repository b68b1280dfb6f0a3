// A survey of this machine's native code, backends and devices, made in a separate process, so that
// a crash stays there. Called by the command line for `--list-devices` and `doctor`, and before a
// pool of models starts; addon/survey-main.ts is the process.
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
  /** Undefined if no addon could be loaded: `failure` says why. */
  addon: { source: string; path: string; linked: boolean; llamaCpp: string } | undefined;
  failure: PlainError | undefined;
  /** Places that were tried without success. */
  attempts: Attempt[];
  packages: NativePackage[];
  /** Registered backends, and CPU variants that this machine cannot run. */
  backends: NativeBackend[];
  /** Installed GPU backends, loaded or not. */
  optional: BackendReport[];
  devices: Device[];
}

/**
 * The GPUs that models may use; none if no model wants one. Problems with a GPU are reported by the
 * load that needs it.
 */
export async function findGpus(wishes: readonly Parameters<typeof wantsGpu>[0][]): Promise<Device[]> {
  if (!wishes.some(wantsGpu)) return [];
  const { devices } = await takeSurvey().catch(() => ({ devices: [] }));
  return devices.filter(({ kind }) => kind !== 'cpu');
}

const entry = fileURLToPath(new URL('../../addon/survey-main.js', import.meta.url));
/** Longer than the limit of each probe. */
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
      // Skip the cleanup: a driver may take long for it, and nothing needs it.
      child.kill('SIGKILL');
    });
    const end = (how: string): void => {
      clearTimeout(timer);
      if (survey) return resolve(survey);
      const said = output.trim() === '' ? '' : ` Its last output: ${output.trim().split('\n').slice(-3).join(' | ')}`;
      reject(new RecuaError('addon_missing', `The process that looks for devices ended without a result (${how}).${said}`));
    };
    child.on('error', (error) => end(error.message));
    child.on('close', (code, signal) => end(signal === null ? `exit code ${code}` : `signal ${signal}`));
  });
}
