// Reads and checks the header of one GGUF file (versions 2 and 3, little-endian) without touching
// its weights. Trusts nothing in the file: checks every count, length, type, shape and offset
// before use, bounds memory (skips through long arrays without keeping them), and reports every
// defect as `invalid_gguf` with its place. Runs before any native call sees the file. The format:
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
import { RecuaError } from '../../errors.js';
import { fileSource } from './byte-source.js';
import type { ByteSource } from './byte-source.js';
import { Cursor, countText, longestText } from './cursor.js';
import type { ScalarReader } from './cursor.js';
import { checkLayout, readTensors } from './gguf-tensors.js';
import type { Tensor } from './gguf-tensors.js';

export interface GgufArray {
  itemType: string;
  length: number;
  /** File offset of the first item. */
  offset: number;
  /** The first items: all of a short array of numbers, otherwise a few. */
  items: Scalar[];
  /** For strings: length of the longest one. */
  longestBytes?: number;
}

/** A string too long to keep. */
export interface LongText {
  lengthBytes: number;
  offset: number;
}

export type Scalar = number | bigint | boolean | string;
export type MetadataValue = Scalar | GgufArray | LongText;

export interface Gguf {
  /** Source of the data: a path, or the name of a file of the hub. */
  path: string;
  sizeBytes: number;
  /** Mark of the file, if it is on disk: see ByteSource. */
  mark: string | undefined;
  /** When the file last changed, in seconds since 1970, if it is on disk. */
  modifiedSeconds: number | undefined;
  version: number;
  /** In file order. */
  metadata: ReadonlyMap<string, MetadataValue>;
  tensors: readonly Tensor[];
  alignment: number;
  /** File offset where tensor data begins. */
  dataOffset: number;
}

const limits = {
  keys: 16_384,
  keyBytes: 65_535,
  /** Total bytes of keys and texts to keep. */
  keptBytes: 8 * 1024 * 1024,
  keptNumbers: 1024,
  keptStrings: 8,
  keptStringBytes: 256,
  /** Strings in one array, and tokens. */
  vocabulary: 16 * 1024 * 1024,
} as const;

const stringType = 8;
const arrayType = 9;
const boolType = 7;

const scalarTypes: ReadonlyMap<number, { name: string; bytes: number; reader: ScalarReader }> = new Map([
  [0, { name: 'u8', bytes: 1, reader: 'readUInt8' }], [1, { name: 'i8', bytes: 1, reader: 'readInt8' }],
  [2, { name: 'u16', bytes: 2, reader: 'readUInt16LE' }], [3, { name: 'i16', bytes: 2, reader: 'readInt16LE' }],
  [4, { name: 'u32', bytes: 4, reader: 'readUInt32LE' }], [5, { name: 'i32', bytes: 4, reader: 'readInt32LE' }],
  [6, { name: 'f32', bytes: 4, reader: 'readFloatLE' }], [boolType, { name: 'bool', bytes: 1, reader: 'readUInt8' }],
  [10, { name: 'u64', bytes: 8, reader: 'readBigUInt64LE' }], [11, { name: 'i64', bytes: 8, reader: 'readBigInt64LE' }],
  [12, { name: 'f64', bytes: 8, reader: 'readDoubleLE' }],
]);

/**
 * Reads a file's header. Leaves a source open; its owner closes it. Throws `model_not_found`,
 * `file_unreadable` or `invalid_gguf`.
 */
export async function readGguf(source: string | ByteSource): Promise<Gguf> {
  if (typeof source !== 'string') return await new Reader(new Cursor(source), source).read();
  const file = await fileSource(source);
  try {
    return await new Reader(new Cursor(file), file).read();
  } finally {
    await file.close();
  }
}

class Reader {
  readonly #cursor: Cursor;
  readonly #path: string;
  readonly #mark: string | undefined;
  readonly #modifiedSeconds: number | undefined;
  readonly #metadata = new Map<string, MetadataValue>();
  #keptBytes = 0;
  /** Indices of byte tokens, one bit per token. */
  #byteTokens: Uint8Array | undefined;

  constructor(cursor: Cursor, { name, mark, modifiedSeconds }: Pick<ByteSource, 'name' | 'mark' | 'modifiedSeconds'>) {
    this.#cursor = cursor;
    this.#path = name;
    this.#mark = mark;
    this.#modifiedSeconds = modifiedSeconds;
  }

  async read(): Promise<Gguf> {
    const cursor = this.#cursor;
    await this.#checkMagic();
    await cursor.need(20, 'the file header');
    const version = this.#version();
    const tensorCount = cursor.count();
    const keyCount = cursor.count();
    // A key with its value takes at least 13 bytes.
    if (keyCount > limits.keys || keyCount * 13 > cursor.remaining) {
      throw cursor.invalid(`it claims ${countText(keyCount)} metadata keys, more than it has room for or the ${limits.keys} that are allowed`, 16);
    }
    for (let i = 0; i < keyCount; i++) await this.#readKey(i);
    const alignment = this.#alignment();
    const tensors = await readTensors(cursor, tensorCount, alignment);
    const dataOffset = Math.ceil(cursor.offset / alignment) * alignment;
    checkLayout(cursor, tensors, dataOffset);
    await this.#checkByteTokens();
    return {
      path: this.#path,
      sizeBytes: cursor.sizeBytes,
      mark: this.#mark,
      modifiedSeconds: this.#modifiedSeconds,
      version,
      metadata: this.#metadata,
      tensors,
      alignment,
      dataOffset,
    };
  }

  async #checkMagic(): Promise<void> {
    const cursor = this.#cursor;
    if (cursor.sizeBytes === 0) throw new RecuaError('invalid_gguf', `${this.#path} is empty. Download it again.`);
    const headBytes = Math.min(64, cursor.sizeBytes);
    await cursor.need(headBytes, 'the file header');
    const head = cursor.text(headBytes);
    cursor.seek(4);
    if (head.startsWith('GGUF')) return;
    throw new RecuaError('invalid_gguf', `${this.#path} is not a GGUF file: ${guessKind(head)}.`);
  }

  #version(): number {
    const version = this.#cursor.u32();
    if (version !== 0 && (version & 0xffff) === 0) {
      throw this.#cursor.invalid('it is big-endian; Recua reads little-endian files, convert it with gguf-convert-endian', 4);
    }
    if (version === 1) throw this.#cursor.invalid('version 1 of the format is no longer in use; get a newer file of this model', 4);
    if (version !== 2 && version !== 3) throw this.#cursor.invalid(`expected version 2 or 3 of the format, got ${version}`, 4);
    return version;
  }

  async #readKey(index: number): Promise<void> {
    const cursor = this.#cursor;
    const start = cursor.offset;
    await cursor.need(8, `metadata key ${index}`);
    const length = cursor.count();
    if (length > limits.keyBytes) throw cursor.invalid(`metadata key ${index} claims a length of ${countText(length)} bytes`, start);
    this.#keep(length, start);
    await cursor.need(length + 4, `metadata key ${index}`);
    const key = cursor.text(length);
    // llama.cpp compares keys up to a NUL, so it would take this one for another, unchecked.
    if (key.includes('\0')) throw cursor.invalid(`the metadata key ${JSON.stringify(key)} contains a NUL`, start);
    if (this.#metadata.has(key)) throw cursor.invalid(`the metadata key "${key}" comes twice`, start);
    this.#metadata.set(key, await this.#readValue(key, cursor.u32()));
  }

  async #readValue(key: string, type: number): Promise<MetadataValue> {
    if (type === stringType) return await this.#readText(key);
    if (type === arrayType) return await this.#readArray(key);
    const scalar = scalarTypes.get(type);
    if (!scalar) throw this.#cursor.invalid(`the metadata key "${key}" has the unknown type ${type}`, this.#cursor.offset - 4);
    await this.#cursor.need(scalar.bytes, `the value of "${key}"`);
    return this.#scalar(key, type, scalar);
  }

  #scalar(key: string, type: number, { bytes, reader }: { bytes: number; reader: ScalarReader }): number | bigint | boolean {
    const value = this.#cursor.scalar(reader, bytes);
    if (type !== boolType) return value;
    if (value !== 0 && value !== 1) throw this.#cursor.invalid(`"${key}" is a boolean with the value ${value}`, this.#cursor.offset - 1);
    return value === 1;
  }

  async #readText(key: string): Promise<string | LongText> {
    const cursor = this.#cursor;
    await cursor.need(8, `the value of "${key}"`);
    const lengthBytes = cursor.count();
    if (lengthBytes > cursor.remaining) throw cursor.truncated(`the value of "${key}"`, lengthBytes);
    if (lengthBytes > longestText || this.#keptBytes + lengthBytes > limits.keptBytes) {
      const offset = cursor.offset;
      cursor.skip(lengthBytes, `the value of "${key}"`);
      return { lengthBytes, offset };
    }
    this.#keep(lengthBytes, cursor.offset);
    await cursor.need(lengthBytes, `the value of "${key}"`);
    return cursor.text(lengthBytes);
  }

  async #readArray(key: string): Promise<GgufArray> {
    const cursor = this.#cursor;
    const what = `the array "${key}"`;
    await cursor.need(12, what);
    const type = cursor.u32();
    const length = cursor.count();
    const offset = cursor.offset;
    if (type === stringType) {
      if (length * 8 > cursor.remaining) throw cursor.truncated(what, length * 8);
      if (length > limits.vocabulary) throw cursor.invalid(`${what} has ${countText(length)} items, ${limits.vocabulary} are allowed`, offset);
      return { itemType: 'string', length, offset, ...await this.#walkStrings(what, length) };
    }
    const scalar = scalarTypes.get(type);
    if (!scalar) throw cursor.invalid(`${what} has items of ${type === arrayType ? 'arrays' : `the unknown type ${type}`}`, offset - 12);
    const bytes = length * scalar.bytes;
    if (bytes > cursor.remaining) throw cursor.truncated(what, bytes);
    if (key === 'tokenizer.ggml.token_type' && scalar.name === 'i32') await this.#markByteTokens(length);
    cursor.seek(offset);
    const items: Scalar[] = [];
    for (let i = 0; i < Math.min(length, limits.keptNumbers); i++) {
      await cursor.need(scalar.bytes, what);
      items.push(this.#scalar(key, type, scalar));
    }
    cursor.seek(offset);
    cursor.skip(bytes, what);
    return { itemType: scalar.name, length, offset, items };
  }

  /** Skips the strings of an array; keeps the first few. */
  async #walkStrings(what: string, length: number): Promise<{ items: string[]; longestBytes: number }> {
    const cursor = this.#cursor;
    const kept: string[] = [];
    let longestBytes = 0;
    for (let i = 0; i < length; i++) {
      // Wait only when the window is exhausted: a vocabulary has about 200,000 strings.
      if (cursor.ready < 8) await cursor.need(8, what);
      const bytes = cursor.count();
      if (bytes > cursor.remaining) throw cursor.truncated(`item ${i} of ${what}`, bytes);
      if (bytes > longestBytes) longestBytes = bytes;
      if (i < limits.keptStrings && bytes <= limits.keptStringBytes) {
        await cursor.need(bytes, what);
        kept.push(cursor.text(bytes));
      } else {
        cursor.skip(bytes, what);
      }
    }
    return { items: kept, longestBytes };
  }

  #keep(bytes: number, offset: number): void {
    this.#keptBytes += bytes;
    if (this.#keptBytes > limits.keptBytes) throw this.#cursor.invalid('its metadata is larger than any model needs', offset);
  }

  #alignment(): number {
    const value = this.#metadata.get('general.alignment') ?? 32;
    if (typeof value !== 'number' || value < 1 || value > 2 ** 20 || !Number.isInteger(Math.log2(value))) {
      throw this.#cursor.invalid(`general.alignment has to be a power of two up to 1 MiB, got ${describeValue(value)}`);
    }
    return value;
  }

  async #markByteTokens(length: number): Promise<void> {
    if (length > limits.vocabulary) throw this.#cursor.invalid(`its vocabulary has ${countText(length)} tokens, more than the ${limits.vocabulary} that are allowed`);
    const byteType = 6;
    let marks: Uint8Array | undefined;
    for (let i = 0; i < length; i++) {
      if (this.#cursor.ready < 4) await this.#cursor.need(4, 'the array "tokenizer.ggml.token_type"');
      if (this.#cursor.i32() !== byteType) continue;
      marks ??= new Uint8Array(Math.ceil(length / 8));
      marks[i >> 3]! |= 1 << (i & 7);
    }
    this.#byteTokens = marks;
  }

  /**
   * llama.cpp parses a byte token's value from its text without checking it, so `<0x-1>` would
   * write outside a buffer. Its converter for XVERSE writes the byte 0 as `<b'\x00'>`, which
   * llama.cpp reads as 0.
   */
  async #checkByteTokens(): Promise<void> {
    const tokens = this.#metadata.get('tokenizer.ggml.tokens');
    const marks = this.#byteTokens;
    if (!marks || typeof tokens !== 'object' || !('itemType' in tokens) || tokens.itemType !== 'string') return;
    const cursor = this.#cursor;
    cursor.seek(tokens.offset);
    for (let i = 0; i < tokens.length; i++) {
      if (cursor.ready < 8) await cursor.need(8, 'the vocabulary');
      const bytes = cursor.count();
      if (((marks[i >> 3] ?? 0) >> (i & 7) & 1) === 0) {
        cursor.skip(bytes, 'the vocabulary');
        continue;
      }
      await cursor.need(Math.min(bytes, 64), 'the vocabulary');
      const text = cursor.text(Math.min(bytes, 64));
      if (!/^<(0x[0-9A-Fa-f]{2}|b'\\x00')>$/.test(text)) throw cursor.invalid(`token ${i} is a byte token with the text "${text}", expected a form like <0x0A>`);
    }
  }
}

function describeValue(value: MetadataValue): string {
  return typeof value === 'object' ? 'an array or a long text' : String(value);
}

/** Guesses what a file is that is not GGUF. */
function guessKind(head: string): string {
  const start = head.trimStart().toLowerCase();
  if (start.startsWith('version https://git-lfs')) {
    return 'it is a git-LFS pointer, the note that git keeps in place of a large file; run `git lfs pull` or download the file itself';
  }
  if (start.startsWith('<!doctype') || start.startsWith('<html') || start.startsWith('<?xml')) {
    return 'it is a web page, so the download got a log-in or error page instead of the model; download it again';
  }
  if (head.startsWith('PK\x03\x04')) return 'it is a zip archive or a PyTorch checkpoint; Recua runs GGUF files';
  if (/^(lmgg|ggml|tjgg|ggjt|fmgg|algg)/.test(head)) return 'it is in an older ggml format; get a GGUF file of this model';
  if (/^.{8}\{"/s.test(head)) return 'it looks like a safetensors file; get a GGUF file of this model';
  if (start.startsWith('{')) return 'it is JSON, perhaps the error of a download; download it again';
  return `expected it to begin with "GGUF", got ${JSON.stringify(head.slice(0, 4))}`;
}
