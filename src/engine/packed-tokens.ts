// Told tokens in few bytes. As objects they take ten times as much memory, and a request may want
// millions of them: the likeliest ones at each token of a prompt or of several answers. The engine
// packs them; the gateway keeps them packed until it writes them. Pure.
import type { TokenChance, ToldToken } from './telling.js';

/**
 * Each token is its part (a byte), the number of most likely ones (a byte), itself, and those. Each
 * of these is its id (int32), value (float32, NaN if absent), the number of its bytes (uint32), and
 * the bytes. Little-endian.
 */
export interface PackedTokens {
  count: number;
  bytes: Uint8Array;
}

/** Tokens per piece of a long list: writing a piece as JSON takes a few milliseconds. */
export const piece = 64;

const parts = [undefined, 'reasoning', 'call'] as const;
const tokenBytes = 2;
const chanceBytes = 12;

/** Packs tokens one by one. */
export class Packer {
  #packed = Buffer.allocUnsafeSlow(2_048);
  #at = 0;
  #count = 0;

  /** The next token. It is added first, and then so many of the likeliest. */
  begin(likeliest: number, part?: ToldToken['part']): void {
    this.#makeRoom(tokenBytes);
    this.#packed[this.#at++] = parts.indexOf(part);
    this.#packed[this.#at++] = likeliest;
    this.#count++;
  }

  /** Its bytes are those of `source` between `from` and `to`. */
  add(id: number, value: number, source: ArrayLike<number>, from = 0, to = source.length): void {
    this.#makeRoom(chanceBytes + to - from);
    this.#packed.writeInt32LE(id, this.#at);
    this.#packed.writeFloatLE(value, this.#at + 4);
    this.#packed.writeUInt32LE(to - from, this.#at + 8);
    this.#at += chanceBytes;
    for (let index = from; index < to; index++) this.#packed[this.#at++] = source[index]!;
  }

  take(): PackedTokens {
    return { count: this.#count, bytes: new Uint8Array(this.#packed.subarray(0, this.#at)) };
  }

  #makeRoom(bytes: number): void {
    if (this.#at + bytes <= this.#packed.length) return;
    const larger = Buffer.allocUnsafeSlow(2 * (this.#at + bytes));
    larger.set(this.#packed.subarray(0, this.#at));
    this.#packed = larger;
  }
}

export function pack(tokens: readonly ToldToken[]): PackedTokens {
  const packer = new Packer();
  for (const { id, bytes, value = NaN, part, top } of tokens) {
    packer.begin(top.length, part);
    packer.add(id, value, bytes);
    for (const one of top) packer.add(one.id, one.value, one.bytes);
  }
  return packer.take();
}

export function unpack({ count, bytes }: PackedTokens): ToldToken[] {
  const packed = bufferOf(bytes);
  let at = 0;
  const take = (): TokenChance => {
    const [id, value, length] = [packed.readInt32LE(at), packed.readFloatLE(at + 4), packed.readUInt32LE(at + 8)];
    at += chanceBytes + length;
    return { id, bytes: Array.from(packed.subarray(at - length, at)), value };
  };
  return Array.from({ length: count }, () => {
    const part = parts[packed[at]!];
    const likeliest = packed[at + 1]!;
    at += tokenBytes;
    const { value, ...token } = take();
    const told: ToldToken = { ...token, ...(Number.isNaN(value) ? {} : { value }), ...(part ? { part } : {}), top: [] };
    for (let index = 0; index < likeliest; index++) told.top.push(take());
    return told;
  });
}

/** Whether the bytes are that many tokens: they come from another process. */
export function isPacked({ count, bytes }: PackedTokens): boolean {
  return Number.isInteger(count) && skip(bytes, count) === bytes.length;
}

export function join(a: PackedTokens, b: PackedTokens): PackedTokens {
  return { count: a.count + b.count, bytes: Buffer.concat([a.bytes, b.bytes]) };
}

/**
 * The pieces, apart from the message that they came in if most of it is of others: a view of a few
 * bytes keeps all of it in memory.
 */
export function apart(pieces: readonly PackedTokens[]): PackedTokens[] {
  const used = pieces.reduce((sum, { bytes }) => sum + bytes.length, 0);
  return pieces.map((one) => (2 * used < one.bytes.buffer.byteLength ? { ...one, bytes: new Uint8Array(one.bytes) } : one));
}

/** Without the first `count` tokens; undefined if none are left. */
export function behindFirst(packed: PackedTokens, count: number): PackedTokens | undefined {
  if (count >= packed.count) return undefined;
  return { count: packed.count - count, bytes: packed.bytes.subarray(skip(packed.bytes, count)) };
}

/** Tokens of an answer or a prompt, however many. */
export class ToldList implements Iterable<ToldToken> {
  readonly #pieces: PackedTokens[] = [];

  get pieces(): readonly PackedTokens[] {
    return this.#pieces;
  }

  get length(): number {
    return this.#pieces.reduce((sum, { count }) => sum + count, 0);
  }

  add(packed: PackedTokens): void {
    const last = this.#pieces.at(-1);
    if (last && last.count + packed.count <= piece) this.#pieces[this.#pieces.length - 1] = join(last, packed);
    else this.#pieces.push(packed);
  }

  addAll(pieces: readonly PackedTokens[]): void {
    for (const one of pieces) this.add(one);
  }

  *[Symbol.iterator](): Generator<ToldToken, void, undefined> {
    for (const one of this.#pieces) yield* unpack(one);
  }

  /** The tokens without their likeliest ones: reading those takes most of the time. */
  *withoutTop(): Generator<ToldToken, void, undefined> {
    for (const one of this.#pieces) {
      for (const at of heads(one)) yield headOf(one, at);
    }
  }

  /** Mean of the tokens' own values, where absent ones count as 0; 0 without tokens. */
  meanValue(): number {
    let sum = 0;
    for (const one of this.#pieces) {
      for (const at of heads(one)) sum += bufferOf(one.bytes).readFloatLE(at + 4) || 0;
    }
    return sum / Math.max(1, this.length);
  }
}

export function idsOf(tokens: readonly ToldToken[] | ToldList): number[] {
  return Array.from(tokens instanceof ToldList ? tokens.withoutTop() : tokens, ({ id }) => id);
}

/** The token whose own id is at `at`. */
function headOf({ bytes }: PackedTokens, at: number): ToldToken {
  const packed = bufferOf(bytes);
  const value = packed.readFloatLE(at + 4);
  const start = at + chanceBytes;
  const own = Array.from(packed.subarray(start, start + packed.readUInt32LE(at + 8)));
  return { id: packed.readInt32LE(at), bytes: own, ...(Number.isNaN(value) ? {} : { value }), top: [] };
}

/** Where each token's own id is. */
function* heads({ count, bytes }: PackedTokens): Generator<number, void, undefined> {
  for (let index = 0, at = 0; index < count; index++) {
    yield at + tokenBytes;
    at = skip(bytes, 1, at);
  }
}

/** The end of `count` tokens from `at`; NaN if the bytes end before them. */
function skip(bytes: Uint8Array, count: number, at = 0): number {
  const packed = bufferOf(bytes);
  for (let index = 0; index < count; index++) {
    let left = 1 + packed[at + 1]!;
    for (at += tokenBytes; left > 0 && at + chanceBytes <= packed.length; left--) at += chanceBytes + packed.readUInt32LE(at + 8);
    if (left !== 0) return NaN;
  }
  return at;
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
