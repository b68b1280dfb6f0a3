// Which request kills engine processes. After a death all requests go on in the next process; of
// those that were worked on at two deaths in a row, and were brought no further in between, each
// is tried alone. One that dies again with a process that had nothing else fails, and is refused
// for a while when it is asked again. The client of an engine process uses it.
import { createHash } from 'node:crypto';
import { serialize } from 'node:v8';
import { RecuaError } from '../../errors.js';
import type { PendingRequest } from './requests.js';
import type { Part } from './watch.js';

/**
 * Tokens beyond those at the last death that clear a request: more than a process may have
 * generated and not told.
 */
const clearingTokens = 64;
/** One that killed two processes is refused for so long. */
const refusedMs = 10 * 60_000;
const mostRefused = 100;

export class Suspects {
  #waiting: PendingRequest[] = [];
  /** The one that the process has alone. */
  onTrial: PendingRequest | undefined;
  /** Until when, by what was asked. */
  readonly #refused = new Map<string, number>();

  /**
   * The process died that had these requests, of which those that cannot go on are gone already;
   * or a part of it was `stuck`, which is no accident. Returns those that are to blame.
   */
  judge(requests: Iterable<PendingRequest>, stuck?: Part): PendingRequest[] {
    const all = [...requests];
    let worked = 0;
    for (const call of all) {
      // One that waits in the queue for its first step does nothing.
      const works = call.sent && ((call.begun && stuck !== 'pool') || (!call.accepted && stuck !== 'compute'));
      if (works) {
        worked++;
        call.deaths += stuck ? 2 : 1;
        call.lengthAtDeath = call.soFar?.length ?? 0;
      }
      call.sent = call.accepted = call.begun = false;
      call.resume();
    }
    const tried = this.onTrial && all.includes(this.onTrial) ? this.onTrial : undefined;
    this.onTrial = undefined;
    this.#waiting = all.filter((call) => call.deaths >= 2);
    if (tried) return this.#blame(tried);
    const [suspect] = this.#waiting;
    return suspect && worked === 1 ? this.#blame(suspect) : [];
  }

  #blame(call: PendingRequest): PendingRequest[] {
    this.#waiting = this.#waiting.filter((other) => other !== call);
    if (this.#refused.size >= mostRefused) this.#refused.delete(this.#refused.keys().next().value!);
    this.#refused.set(fingerprint(call), Date.now() + refusedMs);
    return [call];
  }

  /** The next to be tried, of those that are still wanted; undefined where none is left. */
  next(isWanted: (call: PendingRequest) => boolean): PendingRequest | undefined {
    if (this.onTrial && isWanted(this.onTrial) && this.onTrial.deaths > 0) return this.onTrial;
    this.#waiting = this.#waiting.filter(isWanted);
    return (this.onTrial = this.#waiting.shift());
  }

  /** Its answer has more tokens: whether that ends its trial. */
  isCleared(call: PendingRequest): boolean {
    if (call.deaths === 0 || (call.soFar?.length ?? 0) < call.lengthAtDeath + clearingTokens) return false;
    call.deaths = 0;
    return call === this.onTrial;
  }

  /** Why a request is not sent: it has killed processes before. */
  refusal(call: PendingRequest): RecuaError | undefined {
    if (this.#refused.size === 0) return undefined;
    const until = this.#refused.get(fingerprint(call));
    if (until === undefined || until < Date.now()) return undefined;
    return new RecuaError('request_set_aside', 'The engine process died twice while it worked on a request like this one, so this one is not tried again for some minutes.');
  }
}

function fingerprint({ type, asked }: PendingRequest): string {
  return createHash('sha256').update(serialize([type, asked])).digest('base64');
}
