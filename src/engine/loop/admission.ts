// Moves sequences into their slots, with the KV they share: makes the context calls for the prefix
// cache's decisions. Called by the engine's loop between two steps, while the native thread is
// idle.
import type { NativeContext } from '../../addon/addon.js';
import type { Checkpoint } from '../planning/checkpoints.js';
import type { Placement, SlotMove } from '../planning/placement.js';
import type { PrefixCache } from '../planning/prefix.js';
import { joinFromQueue } from '../planning/scheduler.js';
import type { Sequence } from '../planning/sequence.js';
import type { StepCosts } from '../planning/step-costs.js';
import { discard } from './sleep-files.js';
import type { WaitingQueue } from './waiting-queue.js';

/** A move must pay off within this many steps, since more may never come. */
const foreseen = 16;

export class Admission {
  readonly #context: NativeContext;
  readonly #cache: PrefixCache;
  readonly #log: (text: string) => void;
  readonly #costs: StepCosts;

  constructor(context: NativeContext, cache: PrefixCache, costs: StepCosts, log: (text: string) => void) {
    this.#context = context;
    this.#cache = cache;
    this.#costs = costs;
    this.#log = log;
  }

  /** Gives free slots to waiting sequences. */
  async join(waiting: WaitingQueue, running: Sequence[]): Promise<void> {
    // Only sequences that still wait want their files.
    this.#cache.pool.wanted.clear();
    for (const { sequence, placement } of joinFromQueue(waiting.sequences, this.#cache, () => waiting.sort())) {
      running.push(sequence);
      if (placement.held === 0 && placement.source < 0 && placement.stash === 0) continue;
      if (await this.#takeOver(placement)) continue;
      await this.#context.removeSequence(placement.slot, 0, -1);
      sequence.rewind();
    }
    waiting.looked(this.#cache.freeSlots === 0);
    await this.#discardCheckpoints();
  }

  /** Takes checkpoints of sequences that have been read up to their `checkpointAt`. */
  async takeCheckpoints(running: readonly Sequence[]): Promise<void> {
    for (const sequence of running) {
      if (sequence.checkpointAt === 0 || sequence.evaluated < sequence.checkpointAt) continue;
      const isThere = sequence.state === 'prefill' && sequence.evaluated === sequence.checkpointAt;
      sequence.checkpointAt = 0;
      // Without room for it there is no checkpoint, which costs only time.
      const { id, sizeBytes } = isThere
        ? await this.#context.checkpointSequence(sequence.slot, this.#cache.checkpointBytes).catch(() => ({ id: 0, sizeBytes: 0 }))
        : { id: 0, sizeBytes: 0 };
      if (id > 0) this.#cache.addCheckpoint(sequence, id, sizeBytes);
      await this.#discardCheckpoints();
    }
  }

  async #discardCheckpoints(): Promise<void> {
    for (const { id } of this.#cache.dropped.splice(0)) await this.#context.dropStash(id);
  }

  /** Closes one gap among the running sequences, if that costs less than steps with more passes. */
  async straighten(running: readonly Sequence[]): Promise<void> {
    const move = this.#cache.straighten();
    if (!move) return;
    const { sequence, to } = move;
    const stepMs = (slot: number): number =>
      this.#costs.stepMs(running.map((one) => ({ slot: one === sequence ? slot : one.slot, depth: one.evaluated, rows: 1 })));
    const steps = Math.min(foreseen, sequence.limit - sequence.length);
    if (steps * (stepMs(sequence.slot) - stepMs(to)) > this.#costs.copies.ms(sequence.evaluated)) await this.#move(move);
  }

  async #move(move: SlotMove): Promise<void> {
    const { sequence, to, held, keep } = move;
    const from = sequence.slot;
    const length = sequence.evaluated;
    if (keep) await this.#stash(to, keep);
    if (held > 0) await this.#context.removeSequence(to, 0, -1);
    if (length > 0 && !(await this.#context.copySequence(from, to, length))) {
      this.#cache.adopt(to, new Int32Array(0));
      await this.#context.removeSequence(to, 0, -1);
      return this.#cannot('copy between sequences', 'copies');
    }
    this.#costs.copies.measured(length, this.#context.copyMs());
    await this.#context.removeSequence(from, 0, -1);
    this.#cache.moved(move);
  }

  /**
   * Makes the slot hold exactly the placement's prefix. False if that turns out to be impossible;
   * the caller then empties the slot.
   */
  async #takeOver({ slot, source, stash, reused, held, keep, leaving, checkpoint }: Placement): Promise<boolean> {
    if (keep) await this.#stash(slot, keep, leaving);
    if (source === slot && checkpoint) return await this.#context.rollBackSequence(checkpoint.id, slot, reused);
    if (source === slot) {
      if (held === reused || (await this.#context.removeSequence(slot, reused, -1))) return true;
      this.#cannot('remove a part of a sequence', 'partial');
      return false;
    }
    if (held > 0) await this.#context.removeSequence(slot, 0, -1);
    if (stash > 0) {
      const whole = this.#cache.pool.entries.find(({ id }) => id === stash)?.tokens.length;
      // The stash was dropped for the one added just now.
      if (whole === undefined) return false;
      const back = await this.#context.unstashSequence(stash, slot, checkpoint ? whole : reused);
      if (back) this.#costs.stashes.measured(checkpoint ? whole : reused, this.#context.copyMs());
      if (back && (!checkpoint || await this.#context.rollBackSequence(checkpoint.id, slot, reused))) {
        if (this.#cache.pool.leaveToFile(stash)) await this.#context.dropStash(stash);
        return true;
      }
      this.#log('a conversation could not be restored from memory; it is evaluated again');
      await discard(this.#context, this.#cache.pool.drop(stash));
      return false;
    }
    if (source < 0) return true;
    // The source may have been rewound since it was chosen.
    const length = this.#cache.held(source);
    if (length < reused) return false;
    if (await this.#context.copySequence(source, slot, reused)) {
      this.#costs.copies.measured(length, this.#context.copyMs());
      return true;
    }
    this.#cannot('copy between sequences', 'copies');
    return false;
  }

  async #stash(slot: number, tokens: Int32Array, checkpoints: readonly Checkpoint[] = []): Promise<void> {
    if (await stashSlot(this.#context, this.#cache, slot, tokens, checkpoints))
      this.#costs.stashes.measured(tokens.length, this.#context.copyMs());
  }

  #cannot(what: string, ability: 'partial' | 'copies'): void {
    this.#cache.memory[ability] = false;
    this.#log(`this model's memory cannot ${what}; prompts are shared less from here on`);
  }
}

/** Copies the KV of these tokens into a stash. False if it does not fit, which costs only time. */
export async function stashSlot(
  context: NativeContext, cache: PrefixCache, slot: number, tokens: Int32Array, checkpoints: readonly Checkpoint[] = [],
): Promise<boolean> {
  const { pool } = cache;
  const copy = (mostBytes: number) => context.stashSequence(slot, mostBytes).catch(() => undefined);
  let made = await copy(pool.freeBytes);
  if (made?.id === 0 && made.sizeBytes > pool.budgetBytes) pool.refuse(tokens.length);
  else if (made?.id === 0) {
    await discard(context, pool.makeRoom(tokens, made.sizeBytes));
    made = await copy(pool.budgetBytes);
  }
  if (!made || made.id === 0) cache.dropped.push(...checkpoints);
  else await discard(context, pool.add({ ...made, tokens, checkpoints }));
  return made !== undefined && made.id !== 0;
}

/** Removes what steps evaluated beyond its end; all of it, if the model's memory cannot be cut. */
export async function cutBack(context: NativeContext, sequence: Sequence): Promise<void> {
  if (await context.removeSequence(sequence.slot, sequence.evaluated, -1)) return;
  await context.removeSequence(sequence.slot, 0, -1);
  sequence.evaluated = 0;
}
