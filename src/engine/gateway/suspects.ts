// Finds the request that kills engine processes. After a crash, all requests continue in the next
// process. A request that was being worked on at two crashes in a row, without progress in between,
// is a suspect, and each suspect is tried alone. If the process crashes again, that request fails,
// and equal requests are refused for a while. A long request cannot continue, as its text is gone:
// it fails at the first crash, and the next equal one is a suspect at the second. Used by
// engine/gateway/client.
import { RecuaError } from '../../errors.js';
import { CrashRecord } from './crash-record.js';
import type { PendingRequest } from './pending-request.js';
import type { Part } from './watch.js';

/**
 * A request with this many tokens more than at the last crash is cleared: more than a process may
 * have generated without reporting them.
 */
const clearingTokens = 64;
/** Requests equal to a guilty one are refused for this long. */
const refusedMs = 10 * 60_000;
const mostRefused = 100;

export class Suspects {
  #waiting: PendingRequest[] = [];
  /** The suspect that the process works on alone. */
  onTrial: PendingRequest | undefined;
  readonly #record: CrashRecord;

  constructor(record = new CrashRecord()) {
    this.#record = record;
  }

  /**
   * Called after the process with these requests died, before those that cannot continue fail.
   * `stuck`: the part that made no progress, if that was why the process was ended; such an end is
   * no coincidence, and makes a suspect at once. `clean`: it ended by itself, and nobody is to
   * blame. Returns the guilty requests.
   */
  judge(requests: Iterable<PendingRequest>, clean: boolean, stuck?: Part): PendingRequest[] {
    const all = [...requests];
    const tried = this.onTrial?.sent && all.includes(this.onTrial) ? this.onTrial : undefined;
    const worked: PendingRequest[] = [];
    for (const call of all) {
      // Requests that wait for their first step are innocent.
      const works = !clean && call.sent && (call === tried || (call.begun && stuck !== 'pool') || (!call.accepted && stuck !== 'compute'));
      if (works) {
        worked.push(call);
        if (!call.survives) remember(this.#record.doubted, call);
        call.deaths++;
        call.wasStuck ||= stuck !== undefined;
        call.lengthAtDeath = call.soFar?.length ?? 0;
      }
      call.sent = call.accepted = call.begun = false;
      call.resume();
    }
    this.onTrial = undefined;
    this.#waiting = all.filter((call) => isSuspect(call) && call.survives);
    if (clean) return [];
    if (tried) return this.#blame(tried);
    const [only, ...others] = worked;
    return only && others.length === 0 && isSuspect(only) ? this.#blame(only) : [];
  }

  #blame(call: PendingRequest): PendingRequest[] {
    this.#waiting = this.#waiting.filter((other) => other !== call);
    remember(this.#record.refused, call);
    return [call];
  }

  /** The next suspect to try, among requests still wanted; undefined if none is left. */
  next(isWanted: (call: PendingRequest) => boolean): PendingRequest | undefined {
    if (this.onTrial && isWanted(this.onTrial) && this.onTrial.deaths > 0) return this.onTrial;
    this.#waiting = this.#waiting.filter(isWanted);
    return (this.onTrial = this.#waiting.shift());
  }

  /** The process has another file of the model, which may not kill it. */
  startOver(requests: Iterable<PendingRequest>): void {
    this.#record.forget();
    this.#waiting = [];
    this.onTrial = undefined;
    for (const call of requests) call.startOver();
  }

  /** Called when an answer has more tokens; returns whether they clear it, just now. */
  isCleared(call: PendingRequest): boolean {
    if (call.deaths === 0 || (call.soFar?.length ?? 0) < call.lengthAtDeath + clearingTokens) return false;
    this.acquit(call);
    call.deaths = 0;
    call.wasStuck = false;
    return true;
  }

  /** The process has done all of this request. */
  acquit(call: PendingRequest): void {
    if (call.deaths > 0) this.#record.doubted.delete(call.fingerprint);
  }

  /** The error for a new request, if an equal one has killed processes before. */
  refusal(call: PendingRequest): RecuaError | undefined {
    const { refused, doubted } = this.#record;
    for (const all of [refused, doubted]) forget(all);
    // A fingerprint is expensive for a long request.
    if (refused.size + doubted.size === 0) return undefined;
    const key = call.fingerprint;
    if (doubted.has(key)) call.deaths = 1;
    if (!refused.has(key)) return undefined;
    return new RecuaError('request_set_aside', 'The engine process died or got stuck while it worked on a request like this one, so such requests are refused for ten minutes.');
  }
}

function isSuspect({ deaths, wasStuck }: PendingRequest): boolean {
  return deaths >= 2 || wasStuck;
}

/** The oldest come first. */
function remember(all: Map<string, number>, { fingerprint }: PendingRequest): void {
  all.delete(fingerprint);
  if (all.size >= mostRefused) all.delete(all.keys().next().value!);
  all.set(fingerprint, performance.now() + refusedMs);
}

function forget(all: Map<string, number>): void {
  const nowMs = performance.now();
  for (const [key, untilMs] of all) {
    if (untilMs >= nowMs) return;
    all.delete(key);
  }
}
