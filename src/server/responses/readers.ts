// Requests that read stored responses are served one by one: parsing a long one keeps the process
// busy, and its memory counts nowhere until the request has charged it. Clients take turns. Limits
// the requests that wait. Made by store.
import { setImmediate } from 'node:timers/promises';
import type { Response } from 'express';
import { RecuaError } from '../../errors.js';

/** Most plain reads that may wait. */
const mostWaiting = 256;
/** Part of these that one client may have. */
const shareOfClient = 0.25;

export interface Reader {
  client: string;
  res: Response;
  /**
   * The request has more to do than to read, and its body counts in the memory for bodies: it waits
   * however many others do.
   */
  hasBody?: boolean;
}

interface Waiting extends Reader {
  begin: () => void;
}

export class Readers {
  /** By client; the one whose turn is next comes first. None is empty. */
  readonly #waiting = new Map<string, Waiting[]>();
  #isBusy = false;

  /**
   * Runs `read` when it is its turn. The turn lasts until `read` is done, which by then must have
   * charged or dropped what it read.
   * @throws RecuaError `body_memory_full` if too many wait, `cancelled` if the client has left
   */
  async inTurn<Result>(reader: Reader, read: () => Promise<Result>): Promise<Result> {
    if (this.#isBusy) await this.#wait(reader);
    this.#isBusy = true;
    try {
      await setImmediate();
      if (reader.res.destroyed) throw gone();
      return await read();
    } finally {
      this.#pass();
    }
  }

  async #wait(reader: Reader): Promise<void> {
    const { client, res } = reader;
    if (!reader.hasBody) this.#checkRoom(client);
    await new Promise<void>((resolve, reject) => {
      const leave = (): void => {
        const left = this.#waiting.get(client)!.filter((other) => other !== waiting);
        if (left.length > 0) this.#waiting.set(client, left);
        else this.#waiting.delete(client);
        reject(gone());
      };
      const waiting: Waiting = { ...reader, begin: () => void (res.off('close', leave), resolve()) };
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
    throw new RecuaError('body_memory_full', 'Too many requests wait to read stored responses; try again in a moment.');
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
