// The limits of API keys: requests per minute, concurrent requests, tokens per day. A request past
// a limit is refused before its body is read. Express middleware, mounted by app before each route
// that does work.
import type { NextFunction, Request, RequestHandler, Response } from 'express';
import { RecuaError } from '../../errors.js';
import type { ApiKey } from './api-keys.js';
import { keyOf } from './guard.js';
import { dayMs, type TokenUsage } from './token-usage.js';
import { notesOf } from '../notes/notes.js';

const minuteMs = 60_000;

/** A token bucket that refills evenly and holds the requests of one minute. */
interface Bucket {
  left: number;
  atMs: number;
}

/**
 * What a request counts against. `tokens`: a background response, which was counted as a request
 * when the client made it. `idle`: a line of a batch, which runs while nobody else asks, and so
 * only has to find tokens left for today.
 */
export type Counted = 'all' | 'tokens' | 'idle';

export class Limits {
  readonly #usage: TokenUsage;
  readonly #nowMs: () => number;
  readonly #buckets = new Map<string, Bucket>();
  readonly #running = new Map<string, number>();

  constructor(usage: TokenUsage, nowMs = (): number => performance.now()) {
    this.#usage = usage;
    this.#nowMs = nowMs;
  }

  /**
   * `tokensOf` is called when the response has closed, `counted` before the request does any work.
   */
  guard(tokensOf: (res: Response) => number, counted: (req: Request) => Counted): RequestHandler {
    return async (req: Request, res: Response, next: NextFunction) => {
      const key = keyOf(res);
      if (!key || req.method !== 'POST') return next();
      if (key.tokensPerDay !== undefined) await this.#usage.ready();
      if (res.closed) return;
      const against = counted(req);
      if (against === 'all') this.#admit(key, res);
      else if (against === 'idle' && this.#tokensLeftOf(key) <= 0) throw this.#outOfTokens(key, res);
      if (key.tokensPerDay !== undefined) res.once('close', () => this.#usage.add(key.name, tokensOf(res)));
      if (against !== 'idle') this.#run(key, res);
      next();
    };
  }

  /** Counts a running request until its response closes, or another request counts instead. */
  #run(key: ApiKey, res: Response): void {
    let isCounted = true;
    this.#running.set(key.name, this.#runningOf(key) + 1);
    const leave = (): void => {
      if (!isCounted) return;
      isCounted = false;
      const running = this.#runningOf(key) - 1;
      if (running > 0) this.#running.set(key.name, running);
      else this.#running.delete(key.name);
    };
    notesOf(res)['leaveRunning'] = leave;
    res.once('close', leave);
  }

  #tokensLeftOf({ name, tokensPerDay }: ApiKey): number {
    return tokensPerDay === undefined ? Infinity : Math.max(0, tokensPerDay - this.#usage.usedBy(name));
  }

  #outOfTokens({ name, tokensPerDay }: ApiKey, res: Response): RecuaError {
    // Tells clients not to retry, since they would wait until tomorrow.
    res.set({ 'Retry-After': String(this.#usage.leftSeconds), 'x-should-retry': 'false' });
    return new RecuaError('rate_limit_exceeded', `The API key ${name} has used its ${tokensPerDay} tokens for today; the limit resets at midnight UTC.`);
  }

  #admit(key: ApiKey, res: Response): void {
    const { name, concurrency = Infinity, tokensPerDay, requestsPerMinute } = key;
    const bucket = requestsPerMinute === undefined ? undefined : this.#bucketOf(name, requestsPerMinute);
    const tokensLeft = this.#tokensLeftOf(key);
    const isBusy = this.#runningOf(key) >= concurrency;
    const passes = !isBusy && tokensLeft > 0 && (bucket?.left ?? 1) >= 1;
    if (bucket && passes) bucket.left--;
    if (bucket) tell(res, 'requests', requestsPerMinute!, Math.floor(bucket.left), (requestsPerMinute! - bucket.left) * minuteMs / requestsPerMinute!);
    if (tokensPerDay !== undefined) tell(res, 'tokens', tokensPerDay, tokensLeft, this.#usage.leftSeconds * 1_000);
    if (passes) return;
    if (tokensLeft <= 0) throw this.#outOfTokens(key, res);
    if (isBusy) {
      res.set('Retry-After', '1');
      throw new RecuaError('rate_limit_exceeded', `The API key ${name} may have ${concurrency} ${concurrency === 1 ? 'request' : 'requests'} at once, and has that many; wait until one has ended.`);
    }
    const seconds = Math.ceil((1 - bucket!.left) * minuteMs / requestsPerMinute! / 1_000);
    res.set('Retry-After', String(seconds));
    throw new RecuaError('rate_limit_exceeded', `The API key ${name} may send ${requestsPerMinute} ${requestsPerMinute === 1 ? 'request' : 'requests'} per minute, and has sent that many; try again in ${seconds} s.`);
  }

  #runningOf({ name }: ApiKey): number {
    return this.#running.get(name) ?? 0;
  }

  #bucketOf(name: string, perMinute: number): Bucket {
    const nowMs = this.#nowMs();
    let bucket = this.#buckets.get(name);
    if (!bucket) this.#buckets.set(name, bucket = { left: perMinute, atMs: nowMs });
    bucket.left = Math.min(perMinute, bucket.left + Math.max(0, nowMs - bucket.atMs) * perMinute / minuteMs);
    bucket.atMs = nowMs;
    return bucket;
  }
}

/** From now on this request does not count as running. */
export function leaveRunning(res: Response): void {
  (notesOf(res)['leaveRunning'] as (() => void) | undefined)?.();
}

/** In OpenAI's headers. */
function tell(res: Response, what: 'requests' | 'tokens', limit: number, remaining: number, resetMs: number): void {
  res.set({ [`x-ratelimit-limit-${what}`]: String(limit), [`x-ratelimit-remaining-${what}`]: String(remaining), [`x-ratelimit-reset-${what}`]: durationText(resetMs) });
}

/** Such as 1s, 6m0s or 3h0m12s. */
function durationText(ms: number): string {
  const seconds = Math.min(Math.ceil(ms / 1_000), dayMs / 1_000);
  const [hours, minutes] = [Math.floor(seconds / 3_600), Math.floor(seconds / 60) % 60];
  return `${hours > 0 ? `${hours}h` : ''}${hours > 0 || minutes > 0 ? `${minutes}m` : ''}${seconds % 60}s`;
}
