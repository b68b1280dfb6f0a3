// A kind of hostile input: how its cases are drawn, and what is done with one. Cases are drawn in
// one process and tried in another, which they may take down.
import type fc from 'fast-check';

/** What became of a case. Anything else that happens to it is a failure. */
export type Outcome = 'accepted' | 'refused';

/** What cases are tried on. Lives in the process that may break. */
export interface Subject<Case> {
  /** Throws where the promise is broken. */
  take(one: Case): Promise<Outcome> | Outcome;
  /** After the last case: throws where what is left does not work. */
  close(): Promise<void> | void;
  /** Resident bytes of processes beside this one; at most so far. */
  othersPeakBytes?(): number;
}

export interface Kind<Case = unknown> {
  /** Drawn by fast-check, which makes a failing one smaller. Has to cross to another process. */
  cases: fc.Arbitrary<Case>;
  open(): Promise<Subject<Case>>;
  /** Cases of the short form, which is a part of `npm test`. */
  few: number;
  /** A case that takes longer hangs. */
  mostMs: number;
  /**
   * Resident memory that all cases together may take, beyond what there was before the first: of
   * the process that tries them, and of those that it started.
   */
  mostMib: number;
  /** Of JavaScript's objects alone, so that garbage is collected before it counts. */
  heapMib?: number;
}

export const kind = <Case>(one: Kind<Case>): Kind => one as unknown as Kind;

/**
 * What a test module says of itself: `accepted` and `refused` by whether it threw its own error.
 */
export function outcomeOf(thrown: unknown, isRefusal: (code: string) => boolean): Outcome {
  const { code } = (thrown ?? {}) as { code?: unknown };
  if (typeof code === 'string' && isRefusal(code)) return 'refused';
  throw thrown;
}
