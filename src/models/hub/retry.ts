// How long and how often to retry the network. Used by all code that talks to the hub.
import { setTimeout as wait } from 'node:timers/promises';

export interface RetryPolicy {
  /** Without a byte for this long, the connection counts as dead. */
  stallMs: number;
  /** Failures in a row, without progress, before giving up. */
  attempts: number;
  /** Delay before the second attempt; doubles from there. */
  firstDelayMs: number;
  longestDelayMs: number;
  /** The longest pause that a server may ask for; beyond it, the client gives up. */
  longestRetryAfterMs: number;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** RECUA_TEST_STALL_MS and RECUA_TEST_DELAY_MS are for tests: they shorten all waits. */
export function retryPolicy(environment: Environment = process.env): RetryPolicy {
  const firstDelayMs = Number(environment['RECUA_TEST_DELAY_MS'] || 500);
  return {
    stallMs: Number(environment['RECUA_TEST_STALL_MS'] || 30_000),
    attempts: 10,
    firstDelayMs,
    longestDelayMs: firstDelayMs * 60,
    longestRetryAfterMs: 5 * 60_000,
  };
}

/**
 * Delay before the next attempt after `failures` in a row: doubles each time, with jitter so that
 * many clients do not retry together.
 */
export function delayMs({ firstDelayMs, longestDelayMs }: RetryPolicy, failures: number): number {
  return Math.min(longestDelayMs, firstDelayMs * 2 ** (failures - 1)) * (0.75 + Math.random() / 2);
}

/** Waits; an abort rejects with the signal's reason. */
export async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  try {
    await wait(ms, undefined, signal ? { signal } : undefined);
  } catch (thrown) {
    signal?.throwIfAborted();
    throw thrown;
  }
}

/**
 * Parses a Retry-After header, seconds or a date, into milliseconds; undefined if it is missing or
 * invalid.
 */
export function readRetryAfter(header: string | null, now = Date.now()): number | undefined {
  if (header === null) return undefined;
  const ms = /^\s*\d+\s*$/.test(header) ? Number(header) * 1000 : Date.parse(header) - now;
  return Number.isFinite(ms) ? Math.max(0, ms) : undefined;
}

/** For the user, before such a wait. */
export function setbackWords(what: string, waitMs: number): string {
  return `${what}; trying again in ${Math.max(1, Math.round(waitMs / 1000))} s`;
}
