// Reads little-endian values forward through a file, local or on the hub, through a window of
// bounded size. Checks every length against the file first, so no file can make it allocate more
// than the window.
import { RecuaError } from '../../errors.js';
import type { ByteSource } from './byte-source.js';

const windowBytes = 256 * 1024;
/**
 * Far above any real header: the largest vocabularies take about 30 MiB. Bounds the work that a
 * hostile (sparse) file can cause.
 */
const longestHeaderBytes = 256 * 1024 * 1024;

export class Cursor {
  readonly #source: ByteSource;
  readonly sizeBytes: number;
  #window = Buffer.allocUnsafeSlow(windowBytes);
  /** File offset of the window's first byte, bytes in the window, and bytes of them consumed. */
  #windowOffset = 0;
  #windowLength = 0;
  #at = 0;

  constructor(source: ByteSource) {
    this.#source = source;
    this.sizeBytes = source.sizeBytes;
  }

  get offset(): number {
    return this.#windowOffset + this.#at;
  }

  get remaining(): number {
    return this.sizeBytes - this.offset;
  }

  /** Bytes that can be read without waiting. */
  get ready(): number {
    return this.#windowLength - this.#at;
  }

  /** The error for an invalid file; `offset` is the place. */
  invalid(what: string, offset = this.offset): RecuaError {
    return new RecuaError('invalid_gguf', `${this.#source.name} is not a sound GGUF file: ${what} (at byte ${offset}).`);
  }

  /** The file has too few bytes for what its header says. */
  cutOff(what: string): RecuaError {
    return new RecuaError('invalid_gguf', `${this.#source.name} is cut off or damaged: it has ${this.sizeBytes} bytes, but ${what}. Download it again.`);
  }

  truncated(what: string, neededBytes: number): RecuaError {
    return new RecuaError('invalid_gguf',
      `${this.#source.name} is cut off: it ends at byte ${this.sizeBytes} inside ${what}, which needs ${countText(neededBytes)} bytes from byte ${this.offset} on. `
      + 'Download it again.');
  }

  /** Makes `bytes` (at most a window) available to read. */
  async need(bytes: number, what: string): Promise<void> {
    if (this.ready >= bytes) return;
    if (this.remaining < bytes) throw this.truncated(what, bytes);
    if (this.offset > longestHeaderBytes) throw this.invalid(`its header is longer than ${longestHeaderBytes} bytes`);
    this.#window.copyWithin(0, this.#at, this.#windowLength);
    this.#windowOffset += this.#at;
    this.#windowLength -= this.#at;
    this.#at = 0;
    while (this.#windowLength < bytes) {
      const bytesRead = await this.#source.read(this.#window.subarray(this.#windowLength), this.#windowOffset + this.#windowLength);
      if (bytesRead === 0) throw this.truncated(what, bytes);
      this.#windowLength += bytesRead;
    }
  }

  /** Moves to a file offset; reads nothing yet. */
  seek(offset: number): void {
    const inside = offset - this.#windowOffset;
    if (inside >= 0 && inside <= this.#windowLength) {
      this.#at = inside;
      return;
    }
    this.#windowOffset = offset;
    this.#windowLength = 0;
    this.#at = 0;
  }

  skip(bytes: number, what: string): void {
    if (this.remaining < bytes) throw this.truncated(what, bytes);
    this.seek(this.offset + bytes);
  }

  // The readers below take from the window: call `need` first.

  u8(): number {
    return this.#window.readUInt8(this.#take(1));
  }

  u32(): number {
    return this.#window.readUInt32LE(this.#take(4));
  }

  i32(): number {
    return this.#window.readInt32LE(this.#take(4));
  }

  u64(): bigint {
    return this.#window.readBigUInt64LE(this.#take(8));
  }

  /**
   * A 64-bit count or offset as a number; Infinity if it is not exactly representable, which is
   * beyond any file: see countText.
   */
  count(): number {
    const at = this.#take(8);
    const high = this.#window.readUInt32LE(at + 4);
    return high < 0x20_0000 ? high * 0x1_0000_0000 + this.#window.readUInt32LE(at) : Infinity;
  }

  /** Reads a scalar by the name of Buffer's reader for its metadata type. */
  scalar(reader: ScalarReader, bytes: number): number | bigint {
    return this.#window[reader](this.#take(bytes));
  }

  text(bytes: number): string {
    const at = this.#take(bytes);
    return this.#window.toString('utf8', at, at + bytes);
  }

  #take(bytes: number): number {
    const at = this.#at;
    if (at + bytes > this.#windowLength) throw new RangeError('Cursor: read without need()');
    this.#at = at + bytes;
    return at;
  }
}

/** A count from a file, as text for users. */
export function countText(count: number): string {
  return Number.isSafeInteger(count) ? String(count) : `over ${Number.MAX_SAFE_INTEGER}`;
}

export type ScalarReader =
  | 'readUInt8' | 'readInt8' | 'readUInt16LE' | 'readInt16LE' | 'readUInt32LE' | 'readInt32LE'
  | 'readFloatLE' | 'readBigUInt64LE' | 'readBigInt64LE' | 'readDoubleLE';

/** The longest text that can be read at once. */
export const longestText = windowBytes;
