// How much memory the bodies of all requests may take together: a small compressed request may hold
// 32 MiB of text, and a hundred of them are more than a process has. Made by app; json-body charges
// what arrives, engine/gateway/requests says when the text is gone.
import { totalmem } from 'node:os';
import { getHeapStatistics } from 'node:v8';
import { RecuaError } from '../../errors.js';

/**
 * What a byte of JSON takes while its request is held: text of 16 bits a character, once parsed and
 * once on its way to the engine.
 */
export const bytesPerByte = 4;
/** What an object or array takes, and what a field of an object may, beyond its text. */
export const bytesPerContainer = 64;
export const bytesPerField = 96;

/** Where memory is full, a body that has been arriving for so long gives way to one that comes. */
const arrivalMs = 10_000;

/**
 * A quarter of what V8 may use for objects, at most an eighth of the machine's memory (or of what
 * this process may use).
 */
export function defaultBodyMemory(): number {
  const limit = process.constrainedMemory?.() ?? 0;
  const total = totalmem();
  return Math.floor(Math.min(getHeapStatistics().heap_size_limit / 4, (limit > 0 && limit < total ? limit : total) / 8));
}

export class BodyMemory {
  readonly sizeBytes: number;
  readonly #arrivalMs: number;
  /** Oldest first. */
  readonly #arriving = new Set<BodyShare>();
  #usedBytes = 0;

  constructor(sizeBytes: number, patienceMs = arrivalMs) {
    this.sizeBytes = sizeBytes;
    this.#arrivalMs = patienceMs;
  }

  /** The most bytes that a body may have to fit alone. */
  get largestBody(): number {
    return Math.floor(this.sizeBytes / bytesPerByte);
  }

  get usedBytes(): number {
    return this.#usedBytes;
  }

  /** The share of a body that begins to arrive. */
  open(): BodyShare {
    const share = new BodyShare(this);
    this.#arriving.add(share);
    return share;
  }

  /** For BodyShare alone, as are the next two. */
  take(share: BodyShare, bytes: number): void {
    if (share.bytes + bytes > this.sizeBytes) {
      const message = `The request body takes more memory than there is for all bodies together, which is ${this.sizeBytes} bytes.`;
      throw new RecuaError('body_too_large', message);
    }
    // Those that trickle must not hold the memory for ever.
    const nowMs = performance.now();
    for (const other of this.#arriving) {
      if (this.#usedBytes + bytes <= this.sizeBytes || nowMs - other.startMs < this.#arrivalMs) break;
      if (other !== share) other.giveWay();
    }
    if (this.#usedBytes + bytes > this.sizeBytes) {
      throw new RecuaError('body_memory_full', 'The bodies of other requests take all the memory there is for them; try again in a moment.');
    }
    this.#usedBytes += bytes;
  }

  arrived(share: BodyShare): void {
    this.#arriving.delete(share);
  }

  giveBack({ bytes }: BodyShare): void {
    this.#usedBytes -= bytes;
  }
}

/** What one body holds. */
export class BodyShare {
  readonly startMs = performance.now();
  readonly #memory: BodyMemory;
  /** Called if the body must end for others while it arrives. */
  onGiveWay: (error: RecuaError) => void = () => undefined;
  #bytes = 0;
  #lent = false;
  #over = false;

  constructor(memory: BodyMemory) {
    this.#memory = memory;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /**
   * @throws RecuaError `body_memory_full` where there is no room for so much more, `body_too_large`
   * where there never is
   */
  add(bytes: number): void {
    if (this.#over) return;
    this.#memory.take(this, bytes);
    this.#bytes += bytes;
  }

  /** All of it is here. */
  arrived(): void {
    this.#memory.arrived(this);
  }

  /**
   * The engine takes the text over. It calls the result once the text is gone from this process.
   */
  lend(): () => void {
    this.#lent = true;
    return () => this.#end();
  }

  /** The response is over: what the engine does not have is gone. */
  release(): void {
    if (!this.#lent) this.#end();
  }

  giveWay(): void {
    this.#end();
    this.onGiveWay(new RecuaError('request_timeout', 'The body arrived slowly, and others needed the memory that it held; send it again.'));
  }

  #end(): void {
    if (this.#over) return;
    this.#over = true;
    this.#memory.arrived(this);
    this.#memory.giveBack(this);
  }
}
