// What can be done with the KV of sequences that no request uses: save to a file, restore from one, forget. The engine's loop
// calls these between two steps, so that nothing else touches the context meanwhile.
import type { NativeContext } from '../addon.js';
import type { Loaded } from './load.js';
import type { PrefixCache } from './prefix.js';
import type { SavedState } from './protocol.js';
import { fingerprintOf, readState, writeState, type Fingerprint } from './saved-state.js';

const nothing: SavedState = { tokens: 0, sizeBytes: 0 };

export class StateKeeper {
  readonly #loaded: Loaded;
  readonly #cache: PrefixCache;
  #fingerprint: Promise<Fingerprint> | undefined;

  constructor(loaded: Loaded, cache: PrefixCache) {
    this.#loaded = loaded;
    this.#cache = cache;
  }

  /** Of the sequence used last. */
  async save(context: NativeContext, path: string): Promise<SavedState> {
    const slot = this.#cache.latestFree();
    if (slot < 0) return nothing;
    const tokens = this.#cache.tokensOf(slot);
    const state = await context.saveSequence(slot);
    return { tokens: tokens.length, sizeBytes: await writeState(path, await this.#identify(), tokens, state) };
  }

  async restore(context: NativeContext, path: string): Promise<SavedState> {
    const read = await readState(path, await this.#identify());
    if (typeof read === 'string') return { ...nothing, reason: `${read}.` };
    const { tokens, state, sizeBytes } = read;
    if (tokens.length > context.contextSize) {
      return { ...nothing, reason: `${path} holds ${tokens.length} tokens, more than the context of ${context.contextSize}.` };
    }
    if (this.#cache.freeSlots === 0) return { ...nothing, reason: 'All sequences are busy.' };
    const slot = this.#cache.cheapestFree();
    await this.#empty(context, slot);
    if (!(await context.loadSequence(slot, state))) {
      await context.removeSequence(slot, 0, -1);
      return { ...nothing, reason: `${path} is damaged, or was written with another kind of context.` };
    }
    this.#cache.adopt(slot, tokens);
    return { tokens: tokens.length, sizeBytes };
  }

  async forget(context: NativeContext): Promise<SavedState> {
    for (const slot of this.#cache.freeWithTokens()) await this.#empty(context, slot);
    for (const stash of this.#cache.pool.drop()) await context.dropStash(stash);
    return nothing;
  }

  async #empty(context: NativeContext, slot: number): Promise<void> {
    await context.removeSequence(slot, 0, -1);
    this.#cache.adopt(slot, new Int32Array(0));
  }

  #identify(): Promise<Fingerprint> {
    return (this.#fingerprint ??= fingerprintOf(this.#loaded));
  }
}
