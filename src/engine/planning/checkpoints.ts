// Checkpoints, for models whose KV cannot be truncated: a sliding window holds only the last
// tokens, and a recurrent state cannot be divided. Shortly before the end of each longer prompt,
// the engine copies that memory, so that the conversation can be rolled back to this point. The
// next turn often differs from there on: templates leave out the reasoning, the user regenerates an
// answer or edits a message. Pure; used by prefix.ts.

export interface Checkpoint {
  /** The native context's id. */
  id: number;
  /** Tokens that the sequence had evaluated. */
  length: number;
  sizeBytes: number;
}

/**
 * A prompt's last tokens open the answer (<|assistant|><think> …). Templates write them differently
 * once the answer is history, so the checkpoint is this far before the end.
 */
const answerBegin = 16;
/** Evaluating fewer tokens again costs little, compared with the step that a checkpoint takes. */
const leastApart = 128;
/** Per conversation. */
const mostKept = 8;

/** The length at which to take the prompt's next checkpoint; 0: nowhere. */
export function nextCheckpoint(promptLength: number, evaluated: number, taken: readonly Checkpoint[]): number {
  const at = promptLength - answerBegin;
  return at > evaluated && at - (taken.at(-1)?.length ?? 0) >= leastApart ? at : 0;
}

/** The longest checkpoint with at most `tokens`. */
export function lastWithin(checkpoints: readonly Checkpoint[], tokens: number): Checkpoint | undefined {
  return checkpoints.findLast(({ length }) => length <= tokens);
}

/** If there are too many: the one to drop, whose neighbors are nearest to each other. */
export function superfluous(checkpoints: readonly Checkpoint[]): Checkpoint | undefined {
  if (checkpoints.length <= mostKept) return undefined;
  const span = (i: number): number => checkpoints[i + 1]!.length - (checkpoints[i - 1]?.length ?? 0);
  let least = 0;
  for (let i = 1; i < checkpoints.length - 1; i++) if (span(i) < span(least)) least = i;
  return checkpoints[least];
}

/** A slot or a stash. */
export interface Holder {
  checkpoints?: readonly Checkpoint[];
}

/** The checkpoint to drop if all together exceed the limit; `holders` are in order of use. */
export function beyond(holders: readonly Holder[], limitBytes: number): Checkpoint | undefined {
  const held = holders.flatMap(({ checkpoints = [] }) => checkpoints);
  return held.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0) > limitBytes ? held[0] : undefined;
}

/** The checkpoint at `reused`, unless all that is held is reused and no rollback is needed. */
export function goingBack(checkpoints: readonly Checkpoint[], reused: number, held: number): { checkpoint?: Checkpoint } {
  const checkpoint = reused === held ? undefined : checkpoints.find(({ length }) => length === reused);
  return checkpoint ? { checkpoint } : {};
}
