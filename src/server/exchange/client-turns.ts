// Requests that are served one by one, such as those that read stored responses. Clients take
// turns. Limits the requests that wait.
import { setImmediate } from 'node:timers/promises';
import type { Response } from 'express';
import { RecuaError } from '../../errors.js';

/** Most plain requests that may wait. */
const mostWaiting = 256;
/** Part of these that one client may have. */
const shareOfClient = 0.25;

export interface Waiter {
  client: string;
  res: Response;
  /** Its body counts in the memory for bodies: it waits however many others do. */
  hasBody?: boolean;
}

interface Waiting extends Waiter {
  begin: () => void;
}

export class ClientTurns {
  /** By client; the one whose turn is next comes first. None is empty. */
  readonly #waiting = new Map<string, Waiting[]>();
  readonly #tooMany: () => RecuaError;
  #isBusy = false;

  constructor(tooMany: () => RecuaError) {
    this.#tooMany = tooMany;
  }

  /**
   * Does the work when it is its turn, which lasts until the work is done.
   * @throws RecuaError `tooMany()` if too many wait, `cancelled` if the client has left
   */
  async inTurn<Result>(waiter: Waiter, work: () => Promise<Result>): Promise<Result> {
    if (this.#isBusy) await this.#wait(waiter);
    this.#isBusy = true;
    try {
      await setImmediate();
      if (waiter.res.destroyed) throw gone();
      return await work();
    } finally {
      this.#pass();
    }
  }

  async #wait(waiter: Waiter): Promise<void> {
    const { client, res } = waiter;
    if (!waiter.hasBody) this.#checkRoom(client);
    await new Promise<void>((resolve, reject) => {
      const leave = (): void => {
        const left = this.#waiting.get(client)!.filter((other) => other !== waiting);
        if (left.length > 0) this.#waiting.set(client, left);
        else this.#waiting.delete(client);
        reject(gone());
      };
      const waiting: Waiting = { ...waiter, begin: () => void (res.off('close', leave), resolve()) };
      if (res.destroyed) return reject(gone());
      const own = this.#waiting.get(client);
      if (own) own.push(waiting);
      else this.#waiting.set(client, [waiting]);
      res.once('close', leave);
    });
  }

  #checkRoom(client: string): void {
    const plainOf = (waiting: readonly Waiting[] = []): number => waiting.filter(({ hasBody }) => !hasBody).length;
    const all = [...this.#waiting.values()].reduce((sum, waiting) => sum + plainOf(waiting), 0);
    if (all < mostWaiting && plainOf(this.#waiting.get(client)) < mostWaiting * shareOfClient) return;
    throw this.#tooMany();
  }

  /** The next one begins before any that comes now. */
  #pass(): void {
    const [turn] = this.#waiting;
    this.#isBusy = turn !== undefined;
    if (!turn) return;
    const [client, [next, ...others]] = turn;
    this.#waiting.delete(client);
    if (others.length > 0) this.#waiting.set(client, others);
    next!.begin();
  }
}

function gone(): RecuaError {
  return new RecuaError('cancelled', 'The client has left.');
}
