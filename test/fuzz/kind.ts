// A kind of hostile input: how its cases are drawn, and what is done with each. One process draws
// the cases; another one runs them, and may crash.
import type fc from 'fast-check';

/** The outcome of a case. Any other outcome is a failure. */
export type Outcome = 'accepted' | 'refused';

/** The subject that cases run on. Lives in the process that may break. */
export interface Subject<Case> {
  /** Throws if a promise is broken. */
  take(one: Case): Promise<Outcome> | Outcome;
  /** Runs after the last case. Throws if the subject no longer works. */
  close(): Promise<void> | void;
  /** Peak resident bytes so far of other processes of the subject. */
  othersPeakBytes?(): number;
}

export interface Kind<Case = unknown> {
  /** Drawn by fast-check, which shrinks a failing case. Must be serializable. */
  cases: fc.Arbitrary<Case>;
  open(): Promise<Subject<Case>>;
  /** Number of cases in the short form, a part of `npm test`. */
  few: number;
  /** A case that takes longer counts as hanging. */
  mostMs: number;
  /**
   * Growth of resident memory that all cases together may cause, beyond what there was before the
   * first: of the process that runs them, and of the processes it started.
   */
  mostMib: number;
  /** Counts JavaScript objects only, after a garbage collection. */
  heapMib?: number;
}

export const kind = <Case>(one: Kind<Case>): Kind => one as unknown as Kind;

/** `refused` if the code of the error is a refusal. Throws any other error again. */
export function outcomeOf(thrown: unknown, isRefusal: (code: string) => boolean): Outcome {
  const { code } = (thrown ?? {}) as { code?: unknown };
  if (typeof code === 'string' && isRefusal(code)) return 'refused';
  throw thrown;
}
