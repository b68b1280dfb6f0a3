// Runs a number of cases of a kind. If one fails, it finds the smallest that does. Used by the
// command and by the short form in `npm test`.
import fc from 'fast-check';
import type { Kind } from './kind.js';
import { Trying, type Reply } from './trying.js';

export interface Figures {
  kind: string;
  seed: number;
  cases: number;
  seconds: number;
  refused: number;
  accepted: number;
  /** Processes that a case crashed, or that hung on it. */
  crashes: number;
  longestMs: number;
  /** Peak resident memory, and its growth since before the first case. */
  peakMib: number;
  grownMib: number;
}

export interface Failure {
  /** The smallest failing case that was found. */
  smallest: unknown;
  why: string;
  /** How many cases ran before the first failure: the same number repeats it. */
  after: number;
}

export interface Report {
  figures: Figures;
  failure?: Failure;
}

export interface Asked {
  name: string;
  /** URL of the module that exports the kind as its default. */
  module: string;
  count: number;
  seed: number;
}

/** How many smaller cases are tried: each may cost a process, or its whole time limit. */
const mostSmaller = { count: 2_000, ms: 90_000 };
/** Milliseconds after which a smaller case counts as hanging. */
const smallerMs = 3_000;

export async function fuzz(kind: Kind, { name, module, count, seed }: Asked): Promise<Report> {
  const start = performance.now();
  const trying = new Trying(module, kind);
  const figures: Figures = {
    kind: name,
    seed,
    cases: 0,
    seconds: 0,
    refused: 0,
    accepted: 0,
    crashes: 0,
    longestMs: 0,
    peakMib: 0,
    grownMib: 0,
  };
  let failed: Failure | undefined;
  let smaller = 0;
  let failedMs = 0;
  let slow = false;

  const faultOf = ({ why, peakBytes }: Reply): string | undefined => {
    if (why !== undefined) return why;
    figures.peakMib = Math.max(figures.peakMib, peakBytes / 2 ** 20);
    const grownMib = (peakBytes - trying.beginBytes) / 2 ** 20;
    figures.grownMib = Math.max(figures.grownMib, grownMib);
    return grownMib > kind.mostMib ? `Cases have taken ${Math.round(grownMib)} MiB of memory, ${kind.mostMib} are allowed.` : undefined;
  };
  const one = async (value: unknown): Promise<void> => {
    if (failed && (smaller++ >= mostSmaller.count || performance.now() - failedMs > mostSmaller.ms)) return;
    const reply = await trying.take(value, failed && slow ? Math.min(smallerMs, kind.mostMs) : kind.mostMs);
    const why = faultOf(reply);
    if (!failed) {
      figures.cases++;
      figures.longestMs = Math.max(figures.longestMs, reply.ms);
      if (reply.outcome) figures[reply.outcome]++;
    }
    if (why === undefined) return;
    if (!failed) {
      failedMs = performance.now();
      figures.crashes = 1;
      slow = reply.ms >= kind.mostMs;
    }
    failed = { smallest: value, why, after: failed?.after ?? figures.cases };
    // A process that hangs or has grown does not run the next case.
    if (reply.why === undefined) trying.end();
    throw new Error(why);
  };

  await fc.check(fc.asyncProperty(kind.cases, one), { seed, numRuns: count });
  if (!failed) {
    const why = faultOf(await trying.close());
    if (why !== undefined) failed = { smallest: undefined, why: `After the last case: ${why}`, after: figures.cases };
  }
  trying.end();
  figures.seconds = (performance.now() - start) / 1_000;
  return failed ? { figures, failure: failed } : { figures };
}
