// Limits the memory of replies that clients have not read yet: Node holds what the kernel does not
// take, and a client may ask for many large replies and read none of them. Made by app, whose
// middleware charges every reply. Gateway process.
import type { NextFunction, Request, RequestHandler, Response } from 'express';
import { RecuaError } from '../../errors.js';

/** Replies up to this size are not charged: the kernel takes most of them at once. */
const smallBytes = 64 * 1024;
/** When memory is full, a reply that has been held for longer than this gives way to a new one. */
const heldMs = 10_000;
/** Part of the memory that one client may have, so that others find room. */
const shareOfClient = 0.5;

interface Held {
  bytes: number;
  client: string;
  sinceMs: number;
}

export class ReplyMemory {
  readonly #sizeBytes: number;
  readonly #patienceMs: number;
  readonly #held = new Map<Response, Held>();

  constructor(sizeBytes: number, patienceMs = heldMs) {
    this.#sizeBytes = sizeBytes;
    this.#patienceMs = patienceMs;
  }

  get usedBytes(): number {
    return [...this.#held.values()].reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /**
   * From now on the response holds that many bytes, until it closes. A reply that is larger than
   * all the memory is held if it is the only one.
   * @throws RecuaError `body_memory_full`
   */
  hold(res: Response, client: string, bytes: number): void {
    const before = this.#held.get(res);
    if (bytes > (before?.bytes ?? smallBytes)) {
      this.#makeRoom(res, bytes, this.#sizeBytes * shareOfClient, (other) => other.client === client);
      this.#makeRoom(res, bytes, this.#sizeBytes, () => true);
    } else if (!before) return;
    if (before) before.bytes = bytes;
    else {
      this.#held.set(res, { bytes, client, sinceMs: performance.now() });
      res.once('close', () => this.#held.delete(res));
    }
  }

  /**
   * Makes room for the bytes of `res`: of the other responses that count, those held for long are
   * closed, the largest first.
   */
  #makeRoom(res: Response, bytes: number, mostBytes: number, counts: (other: Held) => boolean): void {
    const others = [...this.#held].filter(([other, held]) => other !== res && counts(held));
    let used = others.reduce((sum, [, held]) => sum + held.bytes, 0);
    const nowMs = performance.now();
    const old = others.filter(([, { sinceMs }]) => nowMs - sinceMs >= this.#patienceMs).sort(([, a], [, b]) => b.bytes - a.bytes);
    for (const [other, held] of old) {
      if (used + bytes <= mostBytes) return;
      this.#held.delete(other);
      other.destroy();
      used -= held.bytes;
    }
    if (used > 0 && used + bytes > mostBytes) {
      throw new RecuaError('body_memory_full', 'Replies that their clients have not read yet use up all the memory for replies; read them, or try again in a moment.');
    }
  }
}

/**
 * Express middleware: charges what each response holds. Without room, a reply becomes an error, and
 * a stream ends.
 */
export function holdReplies(memory: ReplyMemory, clientOf: (res: Response) => string): RequestHandler {
  return (_req: Request, res: Response, next: NextFunction) => {
    const passes = (chunk: unknown): boolean => {
      // Node drops what is written from here on.
      if (res.destroyed) return true;
      try {
        memory.hold(res, clientOf(res), res.writableLength + sizeOf(chunk));
        return true;
      } catch (thrown) {
        if (res.headersSent) {
          res.destroy();
          return false;
        }
        // They describe the reply that cannot be sent.
        for (const name of ['Content-Type', 'Content-Encoding', 'ETag']) res.removeHeader(name);
        throw thrown;
      }
    };
    const write = res.write.bind(res) as (...given: unknown[]) => boolean;
    const end = res.end.bind(res) as (...given: unknown[]) => Response;
    res.write = (...given: unknown[]) => passes(given[0]) && write(...given);
    res.end = (...given: unknown[]) => (passes(given[0]) ? end(...given) : res);
    next();
  };
}

function sizeOf(chunk: unknown): number {
  return typeof chunk === 'string' ? Buffer.byteLength(chunk) : chunk instanceof Uint8Array ? chunk.byteLength : 0;
}
