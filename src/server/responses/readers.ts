// Requests that read stored responses take turns: parsing a long one keeps the process busy, and
// its memory counts nowhere until the request has charged it. Limits those that wait. Made by
// store.
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
  readonly #waiting: Waiting[] = [];
  #isBusy = false;
  /** The client that was last. */
  #last = '';

  /**
   * Runs `read` when it is its turn. The turn lasts until `read` is done, which by then must have
   * charged or dropped what it read.
   * @throws RecuaError `body_memory_full` if too many wait, `cancelled` if the client has left
   */
  async inTurn<Result>(reader: Reader, read: () => Promise<Result>): Promise<Result> {
    if (this.#isBusy) await this.#wait(reader);
    this.#isBusy = true;
    this.#last = reader.client;
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
        this.#waiting.splice(this.#waiting.indexOf(waiting), 1);
        reject(gone());
      };
      const waiting: Waiting = { ...reader, begin: () => void (res.off('close', leave), resolve()) };
      if (res.destroyed) return reject(gone());
      this.#waiting.push(waiting);
      res.once('close', leave);
    });
  }

  #checkRoom(client: string): void {
    const plain = this.#waiting.filter(({ hasBody }) => !hasBody);
    const own = plain.filter((other) => other.client === client);
    if (plain.length < mostWaiting && own.length < mostWaiting * shareOfClient) return;
    throw new RecuaError('body_memory_full', 'Too many requests wait to read stored responses; try again in a moment.');
  }

  /** The next one is of another client, if one waits. It begins before any that comes now. */
  #pass(): void {
    const other = this.#waiting.findIndex(({ client }) => client !== this.#last);
    const [next] = this.#waiting.splice(Math.max(other, 0), 1);
    if (next) next.begin();
    else this.#isBusy = false;
  }
}

function gone(): RecuaError {
  return new RecuaError('cancelled', 'The client has left.');
}
