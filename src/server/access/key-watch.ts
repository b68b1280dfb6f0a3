// Ends what would go on although its API key was removed or has expired: work that the server does
// in the background, streams that may stay open for ever, and WebSockets. Other answers that have
// begun are completed. Made by app and responses/conversation.
import { RecuaError } from '../../errors.js';

/** How soon a removal counts. The key file is read as often. */
const checkMs = 1_000;

interface Watched {
  isValid: () => boolean;
  /** Called each time that the key is found invalid, until the connection has closed. */
  end: () => void;
}

/** A response or a WebSocket. */
interface Connection {
  readonly destroyed?: boolean;
  readonly closed?: boolean;
  once(event: 'close', listener: () => void): unknown;
}

export class KeyWatch {
  readonly #watched = new Set<Watched>();
  #timer: NodeJS.Timeout | undefined;

  /** Watches the key of a connection until it closes. */
  add(connection: Connection, one: Watched): void {
    if (connection.destroyed || connection.closed) return;
    this.#watched.add(one);
    this.#timer ??= setInterval(() => this.#check(), checkMs).unref();
    connection.once('close', () => {
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
