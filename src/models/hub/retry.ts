// How long and how often the network is tried before it counts as broken. Used by everything that
// talks to the hub.
import { setTimeout as wait } from 'node:timers/promises';

export interface RetryPolicy {
  /** No byte for so long: the connection is dead. */
  stallMs: number;
  /** Failures in a row, without a byte of progress, before giving up. */
  attempts: number;
  /** Before the second attempt; doubles from there. */
  firstDelayMs: number;
  longestDelayMs: number;
  /** A server that asks for a longer pause than this is not waited for. */
  longestRetryAfterMs: number;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** RECUA_TEST_STALL_MS and RECUA_TEST_DELAY_MS are for tests: they make all waits short. */
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
 * Time before the next attempt after `failures` in a row: doubling, and spread so that many clients
 * do not come back together.
 */
export function delayMs({ firstDelayMs, longestDelayMs }: RetryPolicy, failures: number): number {
  return Math.min(longestDelayMs, firstDelayMs * 2 ** (failures - 1)) * (0.75 + Math.random() / 2);
}

/** Waits; an abort rejects with its reason. */
export async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  try {
    await wait(ms, undefined, signal ? { signal } : undefined);
  } catch (thrown) {
    signal?.throwIfAborted();
    throw thrown;
  }
}

/**
 * A Retry-After header, seconds or a date, in milliseconds; undefined where there is none that
 * makes sense.
 */
export function readRetryAfter(header: string | null, now = Date.now()): number | undefined {
  if (header === null) return undefined;
  const ms = /^\s*\d+\s*$/.test(header) ? Number(header) * 1000 : Date.parse(header) - now;
  return Number.isFinite(ms) ? Math.max(0, ms) : undefined;
}
