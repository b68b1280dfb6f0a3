// How much an API key may ask for: requests in a minute, requests at once, tokens in a day. Past a
// limit a request is refused before its body is read. Express middleware, mounted by app before
// each route that is asked for work.
import type { NextFunction, Request, RequestHandler, Response } from 'express';
import { RecuaError } from '../../errors.js';
import type { ApiKey } from './api-keys.js';
import { keyOf } from './guard.js';
import { dayMs, type TokenUsage } from './token-usage.js';

const minuteMs = 60_000;

/** A request in the minute's even steps, and as many at once as a minute holds. */
interface Bucket {
  left: number;
  atMs: number;
}

/** What a request of the server's own counts for: who asked for it was counted already. */
export type Counted = 'all' | 'tokens';

export class Limits {
  readonly #usage: TokenUsage;
  readonly #nowMs: () => number;
  readonly #buckets = new Map<string, Bucket>();
  readonly #running = new Map<string, number>();

  constructor(usage: TokenUsage, nowMs: () => number = Date.now) {
    this.#usage = usage;
    this.#nowMs = nowMs;
  }

  /**
   * `tokensOf` is asked when the response has closed, `counted` before the request is worked on.
   */
  guard(tokensOf: (res: Response) => number, counted: (req: Request) => Counted): RequestHandler {
    return async (req: Request, res: Response, next: NextFunction) => {
      const key = keyOf(res);
      if (!key || req.method !== 'POST') return next();
      if (key.tokensPerDay !== undefined) await this.#usage.ready();
      if (res.closed) return;
      if (counted(req) === 'all') this.#admit(key, res);
      this.#running.set(key.name, this.#runningOf(key) + 1);
      res.once('close', () => {
        const running = this.#runningOf(key) - 1;
        if (running > 0) this.#running.set(key.name, running);
        else this.#running.delete(key.name);
        if (key.tokensPerDay !== undefined) this.#usage.add(key.name, tokensOf(res));
      });
      next();
    };
  }

  #admit(key: ApiKey, res: Response): void {
    const { name, concurrency = Infinity, tokensPerDay, requestsPerMinute } = key;
    const bucket = requestsPerMinute === undefined ? undefined : this.#bucketOf(name, requestsPerMinute);
    const tokensLeft = tokensPerDay === undefined ? Infinity : Math.max(0, tokensPerDay - this.#usage.usedBy(name));
    const isBusy = this.#runningOf(key) >= concurrency;
    const passes = !isBusy && tokensLeft > 0 && (bucket?.left ?? 1) >= 1;
    if (bucket && passes) bucket.left--;
    if (bucket) tell(res, 'requests', requestsPerMinute!, Math.floor(bucket.left), (requestsPerMinute! - bucket.left) * minuteMs / requestsPerMinute!);
    if (tokensPerDay !== undefined) tell(res, 'tokens', tokensPerDay, tokensLeft, this.#usage.leftSeconds * 1_000);
    if (passes) return;
    if (tokensLeft <= 0) {
      // A client that waits for tomorrow had better be told to stop.
      res.set({ 'Retry-After': String(this.#usage.leftSeconds), 'x-should-retry': 'false' });
      throw new RecuaError('rate_limit_exceeded', `The API key ${name} has used its ${tokensPerDay} tokens of today; the day ends at midnight in UTC.`);
    }
    if (isBusy) {
      res.set('Retry-After', '1');
      throw new RecuaError('rate_limit_exceeded', `The API key ${name} may have ${concurrency} ${concurrency === 1 ? 'request' : 'requests'} at once, and has as many; wait until one has ended.`);
    }
    res.set('Retry-After', String(Math.ceil((1 - bucket!.left) * minuteMs / requestsPerMinute! / 1_000)));
    throw new RecuaError('rate_limit_exceeded', `The API key ${name} may send ${requestsPerMinute} ${requestsPerMinute === 1 ? 'request' : 'requests'} in a minute, and has sent as many.`);
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

/** As OpenAI tells its clients. */
function tell(res: Response, what: 'requests' | 'tokens', limit: number, remaining: number, resetMs: number): void {
  res.set({ [`x-ratelimit-limit-${what}`]: String(limit), [`x-ratelimit-remaining-${what}`]: String(remaining), [`x-ratelimit-reset-${what}`]: durationText(resetMs) });
}

/** Such as 1s, 6m0s or 3h0m12s. */
function durationText(ms: number): string {
  const seconds = Math.min(Math.ceil(ms / 1_000), dayMs / 1_000);
  const [hours, minutes] = [Math.floor(seconds / 3_600), Math.floor(seconds / 60) % 60];
  return `${hours > 0 ? `${hours}h` : ''}${hours > 0 || minutes > 0 ? `${minutes}m` : ''}${seconds % 60}s`;
}
