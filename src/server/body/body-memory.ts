// Limits the memory that the bodies of all requests take together: a small compressed request may
// hold 32 MiB of text, and a hundred of them exceed the memory of a process. Made by app; json-body
// charges the bytes that arrive, engine/gateway/requests says when the text is gone.
import { getHeapStatistics } from 'node:v8';
import { RecuaError } from '../../errors.js';
import { machineMemory } from '../../system/machine-memory.js';

/**
 * Memory for a byte of JSON while its request is held: text of 16 bits a character, once parsed and
 * once on its way to the engine.
 */
export const bytesPerByte = 4;
/**
 * When memory is full, a body that has been arriving for longer than this gives way to a new one.
 */
const arrivalMs = 10_000;
/**
 * Part of the memory that one client may have besides its largest body, so that others find room.
 */
const shareOfClient = 0.5;

/**
 * A quarter of V8's heap limit, but at most an eighth of the machine's memory (or of the memory
 * that this process may use).
 */
export function defaultBodyMemory(): number {
  return Math.floor(Math.min(getHeapStatistics().heap_size_limit / 4, machineMemory().totalBytes / 8));
}

export class BodyMemory {
  readonly sizeBytes: number;
  readonly #arrivalMs: number;
  /** Oldest first. */
  readonly #arriving = new Set<BodyShare>();
  readonly #ofClient = new Map<string, { shares: Set<BodyShare>; bytes: number }>();
  #usedBytes = 0;

  constructor(sizeBytes: number, patienceMs = arrivalMs) {
    this.sizeBytes = sizeBytes;
    this.#arrivalMs = patienceMs;
  }

  /** Bytes of the largest body that fits at all. */
  get largestBody(): number {
    return Math.floor(this.sizeBytes / bytesPerByte);
  }

  get usedBytes(): number {
    return this.#usedBytes;
  }

  /** Opens the share of a body that begins to arrive. `client`: its key's name, or its address. */
  open(client: string): BodyShare {
    const share = new BodyShare(this, client);
    this.#arriving.add(share);
    const own = this.#ofClient.get(client) ?? { shares: new Set(), bytes: 0 };
    own.shares.add(share);
    this.#ofClient.set(client, own);
    return share;
  }

  /** Only BodyShare calls this and the next two. */
  take(share: BodyShare, bytes: number): void {
    if (share.bytes + bytes > this.sizeBytes) {
      const message = `The request body takes more memory than there is for all bodies together, which is ${this.sizeBytes} bytes.`;
      throw new RecuaError('body_too_large', message);
    }
    const isOver = (): boolean => this.#isMuch(share, bytes);
    this.#endSlow(share, isOver, ({ client }) => client === share.client);
    if (isOver()) {
      throw new RecuaError('body_memory_full', 'The bodies of other requests with the same API key or from the same address use up half of the memory for bodies; try again in a moment.');
    }
    const isFull = (): boolean => this.#usedBytes + bytes > this.sizeBytes;
    this.#endSlow(share, isFull, () => true);
    if (isFull()) {
      throw new RecuaError('body_memory_full', 'The bodies of other requests use up all the memory for bodies; try again in a moment.');
    }
    this.#count(share, bytes);
  }

  #count({ client }: BodyShare, bytes: number): void {
    this.#usedBytes += bytes;
    this.#ofClient.get(client)!.bytes += bytes;
  }

  /** Slow bodies must not hold the memory forever. */
  #endSlow(share: BodyShare, lacksRoom: () => boolean, counts: (other: BodyShare) => boolean): void {
    const nowMs = performance.now();
    for (const other of this.#arriving) {
      if (nowMs - other.startMs < this.#arrivalMs) break;
      if (other === share || !counts(other)) continue;
      if (!lacksRoom()) break;
      other.refuse(tooSlow());
    }
  }

  /** Whether these bytes more would be too much for the client of `share`. */
  #isMuch(share: BodyShare, bytes: number): boolean {
    const { shares, bytes: before } = this.#ofClient.get(share.client)!;
    const over = before + bytes - this.sizeBytes * shareOfClient;
    if (over <= 0 || share.bytes + bytes >= over) return false;
    for (const one of shares) if (one.bytes >= over) return false;
    return true;
  }

  arrived(share: BodyShare): void {
    this.#arriving.delete(share);
  }

  /** All bodies that are still arriving end with this error. */
  refuseArriving(error: RecuaError): void {
    for (const share of this.#arriving) share.refuse(error);
  }

  giveBack(share: BodyShare): void {
    this.#count(share, -share.bytes);
    const { shares } = this.#ofClient.get(share.client)!;
    shares.delete(share);
    if (shares.size === 0) this.#ofClient.delete(share.client);
  }
}

/** The memory of one body. */
export class BodyShare {
  readonly startMs = performance.now();
  readonly client: string;
  readonly #memory: BodyMemory;
  /** Called if the body is refused while it arrives. */
  onRefusal: (error: RecuaError) => void = () => undefined;
  #bytes = 0;
  #lent = false;
  #over = false;

  constructor(memory: BodyMemory, client: string) {
    this.#memory = memory;
    this.client = client;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Fewer than 0 bytes are given back.
   * @throws RecuaError `body_memory_full` if there is no room now, `body_too_large` if there can
   * never be
   */
  add(bytes: number): void {
    if (this.#over) return;
    this.#memory.take(this, bytes);
    this.#bytes += bytes;
  }

  /** The body is complete. */
  arrived(): void {
    this.#memory.arrived(this);
  }

  /**
   * Hands the text to the engine, which calls the result once the text is gone from this process.
   */
  lend(): () => void {
    this.#lent = true;
    return () => this.#end();
  }

  /** The request is answered, or over. Frees the memory unless the engine has the text. */
  release(): void {
    if (!this.#lent) this.#end();
  }

  /** While it arrives. */
  refuse(error: RecuaError): void {
    this.#end();
    this.onRefusal(error);
  }

  #end(): void {
    if (this.#over) return;
    this.#over = true;
    this.#memory.arrived(this);
    this.#memory.giveBack(this);
  }
}

function tooSlow(): RecuaError {
  return new RecuaError('request_timeout', 'The body arrived too slowly and had to free its memory for other requests; send it again.');
}
