// Limits the memory of replies that clients have not read yet: Node holds what the kernel does not
// take, and a client may ask for many large replies and read none of them. Made by app, whose
// middleware charges every reply; http/upgrades charges messages of WebSockets. Gateway process.
import type { NextFunction, Request, RequestHandler, Response } from 'express';
import { RecuaError } from '../../errors.js';
import { notesOf } from '../notes/notes.js';

/** Replies up to this size are not charged: the kernel takes most of them at once. */
const smallBytes = 64 * 1024;
/** When memory is full, a reply that has been held for longer than this gives way to a new one. */
const heldMs = 10_000;
/** Part of the memory that one client may have, so that others find room. */
const shareOfClient = 0.5;

/** A response, or the connection of a WebSocket. */
interface Holder {
  once(event: 'close', listener: () => void): unknown;
  destroy(): unknown;
}

interface Held {
  bytes: number;
  client: string;
  of: object;
  sinceMs: number;
}

export class ReplyMemory {
  readonly #sizeBytes: number;
  readonly #patienceMs: number;
  readonly #held = new Map<Holder, Held>();

  constructor(sizeBytes: number, patienceMs = heldMs) {
    this.#sizeBytes = sizeBytes;
    this.#patienceMs = patienceMs;
  }

  get usedBytes(): number {
    return [...this.#held.values()].reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /**
   * From now on the holder holds that many bytes, until it closes. A reply that is larger than all
   * the memory is held if it is the only one: holders with the same `of` are one reply.
   * @throws RecuaError `body_memory_full`
   */
  hold(holder: Holder, client: string, bytes: number, of: object = holder): void {
    const before = this.#held.get(holder);
    if (bytes > Math.max(before?.bytes ?? 0, smallBytes)) {
      for (const closes of [false, true]) {
        this.#makeRoom(holder, of, bytes, this.#sizeBytes * shareOfClient, (other) => other.client === client, closes);
        this.#makeRoom(holder, of, bytes, this.#sizeBytes, () => true, closes);
      }
    } else if (!before) return;
    const sinceMs = before && before.bytes > 0 ? before.sinceMs : performance.now();
    this.#held.set(holder, { bytes: charged(bytes), client, of, sinceMs });
    if (!before) holder.once('close', () => this.#held.delete(holder));
  }

  /** The client has taken all that was written; `bytes` still wait to be written. */
  recount(holder: Holder, bytes: number): void {
    const held = this.#held.get(holder);
    if (held) held.bytes = charged(bytes);
  }

  /**
   * Makes room for the bytes of `holder`: of the others that count, those held for long are closed,
   * the largest first; but with `closes` false it only sees whether that would be enough.
   */
  #makeRoom(holder: Holder, of: object, bytes: number, mostBytes: number, counts: (other: Held) => boolean, closes: boolean): void {
    const counted = [...this.#held].filter(([other, held]) => other !== holder && counts(held));
    const others = counted.filter(([, held]) => held.of !== of);
    const sum = (all: typeof counted): number => all.reduce((total, [, held]) => total + held.bytes, 0);
    let used = sum(others);
    const ownBytes = sum(counted) - used + bytes;
    const nowMs = performance.now();
    const old = others.filter(([, held]) => held.bytes > 0 && nowMs - held.sinceMs >= this.#patienceMs)
      .sort(([, a], [, b]) => b.bytes - a.bytes);
    const least = used - sum(old);
    if (least > 0 && least + ownBytes > mostBytes) {
      throw new RecuaError('body_memory_full', 'Replies that their clients have not read yet use up all the memory for replies; read them, or try again in a moment.');
    }
    for (const [other, held] of closes ? old : []) {
      if (used + ownBytes <= mostBytes) return;
      this.#held.delete(other);
      other.destroy();
      used -= held.bytes;
    }
  }
}

function charged(bytes: number): number {
  return bytes > smallBytes ? bytes : 0;
}

/** Charges bytes that wait to be written, besides those that the response holds. */
export function holdMore(res: Response, bytes: number): void {
  (notesOf(res)['holdMore'] as ((bytes: number) => void) | undefined)?.(bytes);
}

/**
 * Express middleware: charges what each response holds. Without room, a reply becomes an error, and
 * a stream ends. `partOf`: the larger reply that it belongs to.
 */
export function holdReplies(
  memory: ReplyMemory,
  clientOf: (res: Response) => string,
  partOf: (req: Request) => object | undefined,
): RequestHandler {
  return (req: Request, res: Response, next: NextFunction) => {
    const passes = (bytes: number): boolean => {
      // Node drops what is written from here on.
      if (res.destroyed) return true;
      try {
        memory.hold(res, clientOf(res), res.writableLength + bytes, partOf(req));
        return true;
      } catch (thrown) {
        if (res.headersSent) {
          // The server itself reads a part, and passes the error on.
          res.destroy(partOf(req) ? RecuaError.from(thrown) : undefined);
          return false;
        }
        // They describe the reply that cannot be sent.
        for (const name of ['Content-Type', 'Content-Encoding', 'ETag']) res.removeHeader(name);
        throw thrown;
      }
    };
    let more = 0;
    res.on('drain', () => memory.recount(res, res.writableLength + more));
    notesOf(res)['holdMore'] = (bytes: number): void => {
      more = bytes;
      passes(bytes);
    };
    const write = res.write.bind(res) as (...given: unknown[]) => boolean;
    const end = res.end.bind(res) as (...given: unknown[]) => Response;
    res.write = (...given: unknown[]) => passes(sizeOf(given[0])) && write(...given);
    res.end = (...given: unknown[]) => (passes(sizeOf(given[0])) ? end(...given) : res);
    next();
  };
}

function sizeOf(chunk: unknown): number {
  return typeof chunk === 'string' ? Buffer.byteLength(chunk) : chunk instanceof Uint8Array ? chunk.byteLength : 0;
}
