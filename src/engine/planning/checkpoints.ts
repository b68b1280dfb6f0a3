// Places to which a conversation can go back whose KV cannot be cut: sliding windows hold what came
// last, recurrent states hold the whole in one. Before the end of each longer prompt what cannot be
// cut is copied. The next turn often differs from there on: templates leave out what was thought,
// an answer is asked for again, a message is edited. Pure; used by prefix.ts.

export interface Checkpoint {
  /** The native context's number. */
  id: number;
  /** Tokens that the sequence had evaluated. */
  length: number;
  sizeBytes: number;
}

/**
 * A prompt's last tokens begin the answer (<|assistant|><think> …), and are written otherwise once
 * it is history.
 */
const answerBegin = 16;
/** Evaluating fewer tokens once more costs little beside the step that a checkpoint takes. */
const leastApart = 128;
/** Of one conversation. */
const mostKept = 8;

/** Where the next is taken in a prompt of which so much is evaluated; 0 is nowhere. */
export function nextCheckpoint(promptLength: number, evaluated: number, taken: readonly Checkpoint[]): number {
  const at = promptLength - answerBegin;
  return at > evaluated && at - (taken.at(-1)?.length ?? 0) >= leastApart ? at : 0;
}

/** The last that has at most so many tokens. */
export function lastWithin(checkpoints: readonly Checkpoint[], tokens: number): Checkpoint | undefined {
  return checkpoints.findLast(({ length }) => length <= tokens);
}

/** Of too many the one that is missed least: its neighbors are nearest to each other. */
export function superfluous(checkpoints: readonly Checkpoint[]): Checkpoint | undefined {
  if (checkpoints.length <= mostKept) return undefined;
  const span = (i: number): number => checkpoints[i + 1]!.length - (checkpoints[i - 1]?.length ?? 0);
  let least = 0;
  for (let i = 1; i < checkpoints.length - 1; i++) if (span(i) < span(least)) least = i;
  return checkpoints[least];
}

/** What has checkpoints. */
export interface Holder {
  checkpoints?: readonly Checkpoint[];
}

/** The one that goes first where all together take more; `holders` are in the order of use. */
export function beyond(holders: readonly Holder[], limitBytes: number): Checkpoint | undefined {
  const held = holders.flatMap(({ checkpoints = [] }) => checkpoints);
  return held.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0) > limitBytes ? held[0] : undefined;
}

/** The checkpoint that is where something held is gone on with, unless that is its end. */
export function goingBack(checkpoints: readonly Checkpoint[], reused: number, held: number): { checkpoint?: Checkpoint } {
  const checkpoint = reused === held ? undefined : checkpoints.find(({ length }) => length === reused);
  return checkpoint ? { checkpoint } : {};
}
