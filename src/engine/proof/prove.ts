// Ensures that a CPU library has proved the kernels that a model needs before an engine uses it. A
// library that computes wrongly, or crashes its process, is replaced by the next best. Used by the
// gateway, by an engine in this process, by `recua doctor` and by set-up.
import { basename } from 'node:path';
import type { Refused } from '../../addon/refused.js';
import { RecuaError } from '../../errors.js';
import { isClone, ownInstallation } from '../../system/installation.js';
import type { Log } from '../api.js';
import { forget, remember, remembered } from './remembered.js';
import { tryLibrary, type Chosen, type TrialResult, type TrialSettings } from './trial.js';

export interface ProveSettings extends TrialSettings {
  log: Log;
  /** True: ignore remembered results and test everything again. */
  anew?: boolean;
  /** True: keep the result with the build, for all its users. */
  beside?: boolean;
}

export interface Outcome {
  refused: Refused;
  /** The library that proved itself now; undefined if all was known, or no trial was possible. */
  chosen: Chosen | undefined;
  /** The final failure: there is no other library to try. */
  broken?: Broken;
}

export type Broken = Extract<TrialResult, { kind: 'broken' }>;

/** `RECUA_CPU_CHECK=off`, for debugging a library. */
export function isProofOff(): boolean {
  return process.env['RECUA_CPU_CHECK'] === 'off';
}

/** CPU libraries and kernels not to use, as far as known. */
export function knownRefused(): Refused {
  return isProofOff() ? {} : remembered()?.refused ?? {};
}

/** Whether all these families are proved. */
export function isProved(families: readonly string[]): boolean {
  return isProofOff() || lacking(families).length === 0;
}

/** The same, but only by the results that set-up keeps with a clone's build. */
export function isProvedBeside(families: readonly string[]): boolean {
  return isProofOff() || lacking(families, true).length === 0;
}

function lacking(families: readonly string[], beside = false): string[] {
  const known = remembered(beside);
  return known ? families.filter((family) => !known.proved.includes(family)) : [];
}

/** A library that was too slow for its test gets another after this time. */
const lateMs = 24 * 3_600_000;

let last: Promise<unknown> = Promise.resolve();

/**
 * Runs one trial at a time, so that two models which load at once share the results.
 * @throws RecuaError `backend_unusable` if no remaining library computes correctly;
 *   `sandbox_unavailable`
 */
export async function prove(families: readonly string[], settings: ProveSettings): Promise<Outcome> {
  const turn = last.then(() => proveNow(families, settings));
  last = turn.catch(() => {});
  const outcome = await turn;
  if (outcome.broken) throw new RecuaError('backend_unusable', unusable(outcome.broken));
  return outcome;
}

/** Like `prove`, but returns `broken` instead of throwing. */
export async function proveNow(families: readonly string[], settings: ProveSettings): Promise<Outcome> {
  const { log, anew = false, beside = false, signal } = settings;
  const known = remembered();
  if (isProofOff() || !known) return { refused: {}, chosen: undefined };
  let refused: Record<string, string> = anew ? {} : { ...known.refused };
  let proved: readonly string[] = anew ? [] : known.proved;
  let untilMs = anew ? undefined : known.untilMs;
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
      if (!remember({ key: known.key, proved: [...proved, ...wanted], refused, untilMs }, beside)) log('debug', 'the check of the CPU library could not be noted; the next load repeats it');
      log('debug', `${basename(result.chosen.library)} passed its test: ${wanted.length} families of kernels, ${Math.round(performance.now() - startMs)} ms`);
      return { refused, chosen: result.chosen };
    }
    // On an overloaded machine, one timeout may be chance.
    if (result.late && !wasLate) {
      wasLate = true;
      continue;
    }
    wasLate = false;
    const name = result.blamed.kernel ?? result.blamed.library;
    const isOnly = result.blamed.kernel === undefined && result.chosen?.linked === true;
    if (name === undefined || isOnly || name in refused) {
      forget();
      return { refused, chosen: result.chosen, broken: result };
    }
    refused = { ...refused, [name]: result.reason };
    if (result.late) untilMs = Date.now() + lateMs;
    // The next library has not proved anything yet.
    if (result.blamed.kernel === undefined) proved = [];
    remember({ key: known.key, proved, refused, untilMs }, beside);
  }
}

/** Log texts for the refused libraries and kernels, with the reasons. */
export function refusedTexts(refused: Refused): string[] {
  return Object.entries(refused).map(([name, reason]) => `${basename(name)} failed its test on this processor and is not used: ${reason}`);
}

export function unusable(
  { blamed, chosen, reason }: Broken,
  environment: Readonly<Record<string, string | undefined>> = process.env,
): string {
  const library = blamed.library ?? chosen?.library;
  const found = library === undefined ? 'found none' : `but ${basename(library)} does not`;
  const mend = environment['RECUA_ADDON']
    ? 'RECUA_ADDON names the addon; correct it or unset it.'
    : isClone(ownInstallation())
      ? 'Run `npm run setup`, which rebuilds it without what breaks.'
      : 'Install Recua again; if that does not help, build it in a clone of the repository: `npm run setup`.';
  return `Expected a CPU library that computes correctly on this processor, ${found}: ${reason}. ${mend} RECUA_CPU_CHECK=off uses it all the same.`;
}
