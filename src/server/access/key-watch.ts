// Ends what would go on although its API key was removed or has expired: work that the server does
// in the background, and streams that may stay open for ever. Other answers that have begun are
// completed. Made by app.
import type { Response } from 'express';
import { RecuaError } from '../../errors.js';

/** How soon a removal counts. The key file is read as often. */
const checkMs = 1_000;

interface Watched {
  isValid: () => boolean;
  /** Called each time that the key is found invalid, until the response has closed. */
  end: () => void;
}

export class KeyWatch {
  readonly #watched = new Set<Watched>();
  #timer: NodeJS.Timeout | undefined;

  /** Watches the key of a request until its response closes. */
  add(res: Response, one: Watched): void {
    if (res.destroyed || res.closed) return;
    this.#watched.add(one);
    this.#timer ??= setInterval(() => this.#check(), checkMs).unref();
    res.once('close', () => {
      this.#watched.delete(one);
      if (this.#watched.size > 0) return;
      clearInterval(this.#timer);
      this.#timer = undefined;
    });
  }

  #check(): void {
    for (const { isValid, end } of this.#watched) if (!isValid()) end();
  }
}

/** The error of work that the server does for a key that is not valid any more. */
export function keyGone(name: string): RecuaError {
  return new RecuaError('invalid_api_key', `The API key ${name}, with which this request was started, has expired or was removed.`);
}
