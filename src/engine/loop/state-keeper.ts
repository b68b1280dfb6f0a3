// Saves the KV of idle sequences to a file, restores it, or drops it. Calls that touch the context
// run between two steps; files are written from stashes and read into them while steps run.
import type { NativeContext } from '../../addon/addon.js';
import { RecuaError } from '../../errors.js';
import type { LoadedModel } from './loaded.js';
import type { PrefixCache } from '../planning/prefix.js';
import type { SavedState } from '../protocol.js';
import { fingerprintOf, type Fingerprint } from './fingerprint.js';
import { readState, writeState, type ReadState } from './saved-state.js';
import { discard } from './sleep-files.js';
import { stashSlot } from './admission.js';
import { sameTokens } from '../planning/stash-pool.js';

const nothing: SavedState = { tokens: 0, sizeBytes: 0 };
const allRun: SavedState = { ...nothing, reason: 'All sequences are busy.', isBusy: true };

/** Runs a job when nothing else touches the context. */
export type BetweenSteps = <T>(job: () => Promise<T>) => Promise<T>;

export class StateKeeper {
  readonly #loaded: LoadedModel;
  readonly #cache: PrefixCache;
  #fingerprint: Promise<Fingerprint> | undefined;
  readonly #checkOpen: () => void;
  /** Each takes as much memory as its state, so one is saved or restored at a time. */
  #last: Promise<unknown> = Promise.resolve();

  /** `checkOpen` throws once the engine closes: then no other one begins. */
  constructor(loaded: LoadedModel, cache: PrefixCache, checkOpen: () => void) {
    this.#loaded = loaded;
    this.#cache = cache;
    this.#checkOpen = checkOpen;
  }

  /** Saves the most recently used sequence. */
  save(context: NativeContext, betweenSteps: BetweenSteps, path: string): Promise<SavedState> {
    return this.#inTurn(() => this.#save(context, betweenSteps, path));
  }

  restore(context: NativeContext, betweenSteps: BetweenSteps, path: string): Promise<SavedState> {
    return this.#inTurn(() => this.#restore(context, betweenSteps, path));
  }

  #inTurn(work: () => Promise<SavedState>): Promise<SavedState> {
    const result = this.#last.then(() => {
      this.#checkOpen();
      return work();
    });
    this.#last = result.catch(() => undefined);
    return result;
  }

  async #save(context: NativeContext, betweenSteps: BetweenSteps, path: string): Promise<SavedState> {
    const taken = await betweenSteps(async () => {
      const slot = this.#cache.latestFree();
      return slot < 0 ? undefined : { tokens: this.#cache.tokensOf(slot), stash: await context.stashSequence(slot) };
    });
    if (!taken || taken.stash.id === 0) return nothing;
    const { tokens, stash: { id, sizeBytes } } = taken;
    try {
      const fingerprint = await this.identify();
      const read = (offset: number, into: Uint8Array): void => context.readStash(id, offset, into);
      const chat = this.#loaded.model.remembers(tokens);
      const written = writeState(path, fingerprint, tokens, { sizeBytes, chat, read }).catch((thrown: unknown) => {
        throw unwritten(path, thrown);
      });
      return { tokens: tokens.length, sizeBytes: await written };
    } finally {
      await context.dropStash(id);
    }
  }

  async #restore(context: NativeContext, betweenSteps: BetweenSteps, path: string): Promise<SavedState> {
    if (await betweenSteps(() => Promise.resolve(this.#cache.freeSlots)) === 0) return allRun;
    let stash = 0;
    try {
      const read = await readState(path, await this.identify(), ({ tokens, stateBytes }) => {
        if (tokens > context.contextSize) return `${path} holds ${tokens} tokens, more than the context of ${context.contextSize}`;
        stash = context.createStash(stateBytes);
        if (stash === 0) throw new RecuaError('file_unreadable', `The saved state ${path} cannot be read: there is no memory for its ${stateBytes} bytes.`);
        return (offset, from) => context.writeStash(stash, offset, from);
      });
      if (typeof read === 'string') return { ...nothing, reason: `${read}.` };
      return await betweenSteps(() => this.#bringBack(context, path, stash, read));
    } finally {
      if (stash > 0) await context.dropStash(stash);
    }
  }

  async #bringBack(context: NativeContext, path: string, stash: number, { tokens, sizeBytes, chat }: ReadState): Promise<SavedState> {
    if (this.#cache.freeSlots === 0) return allRun;
    const same = this.#cache.freeByUse().find((one) => sameTokens(this.#cache.tokensOf(one), tokens));
    const slot = same ?? this.#cache.cheapestFree();
    const left = same === undefined ? this.#cache.displace(slot) : undefined;
    if (left) await stashSlot(context, this.#cache, slot, left.tokens, left.checkpoints);
    await this.#empty(context, slot);
    if (!(await context.unstashSequence(stash, slot, tokens.length))) {
      await context.removeSequence(slot, 0, -1);
      return { ...nothing, reason: `${path} was written with another kind of context.` };
    }
    this.#cache.adopt(slot, tokens);
    if (chat) this.#loaded.model.remember(tokens);
    return { tokens: tokens.length, sizeBytes };
  }

  async forget(context: NativeContext, betweenSteps: BetweenSteps): Promise<SavedState> {
    return await betweenSteps(async () => {
      for (const slot of this.#cache.freeWithTokens()) await this.#empty(context, slot);
      await discard(context, this.#cache.pool.drop());
      this.#loaded.model.forget();
      return nothing;
    });
  }

  async #empty(context: NativeContext, slot: number): Promise<void> {
    await context.removeSequence(slot, 0, -1);
    this.#cache.adopt(slot, new Int32Array(0));
  }

  /** The loaded model's fingerprint. If its file cannot be read now, the next call tries again. */
  identify(): Promise<Fingerprint> {
    return (this.#fingerprint ??= fingerprintOf(this.#loaded).catch((thrown: unknown) => {
      this.#fingerprint = undefined;
      throw thrown;
    }));
  }
}

function unwritten(path: string, cause: unknown): RecuaError {
  const { code, message } = RecuaError.from(cause);
  if (code === 'disk_full') return new RecuaError(code, `There is no room left on the disk for ${path}. Free some space and try again.`, { cause });
  return new RecuaError('store_unwritable', `The saved state ${path} cannot be written: ${message}`, { cause });
}
