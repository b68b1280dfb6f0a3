// Sees to it that a CPU library has proved the kernels that a model needs before an engine uses it:
// one that computes wrongly, or ends its process, gives way to the next best. Used by the gateway,
// by an engine in this process, by `recua doctor` and by set-up.
import { basename } from 'node:path';
import { refusedKernel, type Refused } from '../../addon/refused.js';
import { RecuaError } from '../../errors.js';
import { isClone, ownInstallation } from '../../system/installation.js';
import type { Log } from '../api.js';
import { forget, remember, remembered } from './remembered.js';
import { tryLibrary, type Chosen, type TrialResult, type TrialSettings } from './trial.js';

export interface ProveSettings extends TrialSettings {
  log: Log;
  /** Whether what is known counts; else all of it is found out again. */
  anew?: boolean;
  /** The result is kept with the build, for all who use it. */
  beside?: boolean;
}

export interface Outcome {
  refused: Refused;
  /** What proved itself now; undefined where all was known, or nothing could be tried. */
  chosen: Chosen | undefined;
  /** What broke for good: there is no other library to go on with. */
  broken?: Broken;
}

export type Broken = Extract<TrialResult, { kind: 'broken' }>;

/** `RECUA_CPU_CHECK=off`, for who debugs a library. */
export function isProofOff(): boolean {
  return process.env['RECUA_CPU_CHECK'] === 'off';
}

/** Not to be used, as far as is known. */
export function knownRefused(): Refused {
  return isProofOff() ? {} : remembered()?.refused ?? {};
}

/** Whether nothing of these is left to prove. */
export function isProved(families: readonly string[]): boolean {
  return isProofOff() || lacking(families).length === 0;
}

/** The same by what lies with a clone's build, which set-up writes. */
export function isProvedBeside(families: readonly string[]): boolean {
  return isProofOff() || lacking(families, true).length === 0;
}

function lacking(families: readonly string[], beside = false): string[] {
  const known = remembered(beside);
  return known ? families.filter((family) => !known.proved.includes(family)) : [];
}

let last: Promise<unknown> = Promise.resolve();

/**
 * One after the other, so that two models which load at once need one process. @throws RecuaError
 * `backend_unusable` where no library that is left computes what it should; `sandbox_unavailable`
 */
export async function prove(families: readonly string[], settings: ProveSettings): Promise<Outcome> {
  const turn = last.then(() => proveNow(families, settings));
  last = turn.catch(() => {});
  const outcome = await turn;
  if (outcome.broken) throw new RecuaError('backend_unusable', unusable(outcome.broken));
  return outcome;
}

/** As `prove`, and tells what is broken instead of throwing. */
export async function proveNow(families: readonly string[], settings: ProveSettings): Promise<Outcome> {
  const { log, anew = false, beside = false, signal } = settings;
  const known = remembered();
  if (isProofOff() || !known) return { refused: {}, chosen: undefined };
  let refused: Record<string, string> = anew ? {} : { ...known.refused };
  let proved: readonly string[] = anew ? [] : known.proved;
  let wasLate = false;
  for (;;) {
    const wanted = families.filter((family) => !proved.includes(family));
    if (wanted.length === 0) return { refused, chosen: undefined };
    const startMs = performance.now();
    const result = await tryLibrary(wanted, refused, settings);
    if (signal?.aborted) return { refused, chosen: undefined };
    if (result.kind === 'untried') {
      if (result.code === 'backend_unusable' && Object.keys(refused).length > 0) return { refused, chosen: undefined, broken: { kind: 'broken', chosen: undefined, blamed: {}, family: 'loading', reason: result.reason, late: false } };
      log('warn', `the CPU library could not be checked: ${result.reason}`);
      return { refused, chosen: undefined };
    }
    if (result.kind === 'proved') {
      if (!remember({ key: known.key, proved: [...proved, ...wanted], refused }, beside)) log('debug', 'the check of the CPU library could not be noted, and is done again by the next process');
      log('debug', `${basename(result.chosen.library)} computes what it should: ${wanted.length} families of kernels, ${Math.round(performance.now() - startMs)} ms`);
      return { refused, chosen: result.chosen };
    }
    // On a machine that hardly computes, once is chance.
    if (result.late && !wasLate) {
      wasLate = true;
      continue;
    }
    wasLate = false;
    const name = result.blamed.kernel !== undefined ? refusedKernel(result.blamed.kernel) : result.blamed.library;
    const isOnly = result.blamed.kernel === undefined && result.chosen?.linked === true;
    if (name === undefined || isOnly || name in refused) {
      forget();
      return { refused, chosen: result.chosen, broken: result };
    }
    refused = { ...refused, [name]: result.reason };
    // Another library has proved nothing yet.
    if (result.blamed.kernel === undefined) proved = [];
    remember({ key: known.key, proved, refused }, beside);
  }
}

/** Those that are not used, each with its reason, for logs. */
export function refusedTexts(refused: Refused): string[] {
  return Object.entries(refused).map(([name, reason]) => `${basename(name)} is not used, since it does not compute what it should here: ${reason}`);
}

export function unusable({ blamed, chosen, reason }: Broken, environment: Readonly<Record<string, string | undefined>> = process.env): string {
  const library = blamed.library ?? chosen?.library;
  const found = library === undefined ? 'found none' : `but ${basename(library)} does not`;
  const mend = environment['RECUA_ADDON'] ? 'RECUA_ADDON names the addon; correct it or unset it.'
    : isClone(ownInstallation()) ? 'Run `npm run setup`, which rebuilds it without what breaks.'
      : 'Install Recua again; if that does not help, build it in a clone of the repository: `npm run setup`.';
  return `Expected a CPU library that computes what it should on this processor, ${found}: ${reason}. ${mend} RECUA_CPU_CHECK=off uses it all the same.`;
}
