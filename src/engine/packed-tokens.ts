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

export function pack(tokens: readonly ToldToken[]): PackedTokens {
  const sizeOf = ({ bytes }: { bytes: readonly number[] }): number => chanceBytes + bytes.length;
  let size = 0;
  for (const token of tokens) size += token.top.reduce((sum, one) => sum + sizeOf(one), tokenBytes + sizeOf(token));
  const packed = Buffer.allocUnsafeSlow(size);
  let at = 0;
  const put = ({ id, bytes }: Omit<TokenChance, 'value'>, value: number): void => {
    packed.writeInt32LE(id, at);
    packed.writeFloatLE(value, at + 4);
    packed.writeUInt32LE(bytes.length, at + 8);
    at += chanceBytes;
    for (const byte of bytes) packed[at++] = byte;
  };
  for (const { part, top, value = NaN, ...token } of tokens) {
    packed[at++] = parts.indexOf(part);
    packed[at++] = top.length;
    put(token, value);
    for (const one of top) put(one, one.value);
  }
  return { count: tokens.length, bytes: packed };
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

  * [Symbol.iterator](): Generator<ToldToken, void, undefined> {
    for (const one of this.#pieces) yield* unpack(one);
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

export function idsOf(tokens: Iterable<ToldToken>): number[] {
  return Array.from(tokens, ({ id }) => id);
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
