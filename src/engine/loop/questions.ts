// Questions to the model itself, e.g. to tokenize a text. Those that take long wait for their turn
// on the pool, and one that nobody waits for any more is not asked. Used by the engine's loop.
import type { CancelFlag, NativeModel } from '../../addon/addon.js';
import { RecuaError } from '../../errors.js';
import { newCancelFlag } from '../prompts/cancel-flag.js';
import type { PoolShare } from '../prompts/pool-share.js';
import type { EngineOptions } from '../protocol.js';
import type { LoadedModel } from './loaded.js';

export type Question = (model: NativeModel, cancelled: CancelFlag, options: EngineOptions) => Promise<unknown>;

export interface Asked {
  /** Whether it waits for its turn on the pool. */
  takesLong: boolean;
  /** Who takes turns; clients that are not known are one. */
  client?: string | undefined;
}

interface Waiting {
  cancelled: CancelFlag;
  stop?: () => void;
  answered: Promise<unknown>;
}

export const shuttingDown = (): RecuaError => new RecuaError('shutting_down', 'The engine is stopping and takes no new work.');

export class Questions {
  readonly #loaded: LoadedModel;
  readonly #poolShare: PoolShare;
  readonly #asked = new Map<number, Waiting>();
  #isClosed = false;

  constructor(loaded: LoadedModel, poolShare: PoolShare) {
    this.#loaded = loaded;
    this.#poolShare = poolShare;
  }

  /** From now on none is asked. Resolves when those that were are answered. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.allSettled([...this.#asked.values()].map(({ answered }) => answered));
  }

  ask(id: number, asked: Asked, question: Question): Promise<unknown> {
    const waiting: Waiting = { cancelled: newCancelFlag(), answered: Promise.resolve() };
    this.#asked.set(id, waiting);
    waiting.answered = this.#ask(waiting, asked, question).finally(() => this.#asked.delete(id));
    return waiting.answered;
  }

  async #ask(asked: Waiting, { takesLong, client }: Asked, question: Question): Promise<unknown> {
    const { cancelled } = asked;
    const leave = takesLong ? await this.#poolShare.enter(client, (stop) => { asked.stop = stop; }) : undefined;
    try {
      if (this.#isClosed) throw shuttingDown();
      if (cancelled[0] !== 0) throw new RecuaError('cancelled', 'The request was cancelled.');
      return await question(this.#loaded.model, cancelled, this.#loaded.options);
    } finally {
      leave?.();
    }
  }

  cancel(id: number): void {
    const asked = this.#asked.get(id);
    asked?.cancelled.fill(1);
    asked?.stop?.();
  }
}
