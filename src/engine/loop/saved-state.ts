// A conversation's KV in a file: magic, header (JSON: which model and settings it belongs to),
// tokens, llama.cpp's bytes, and a SHA-256 of all of these, because llama.cpp trusts the counts
// inside. The file is written and read in pieces while the engine computes, whatever its size.
import { createHash, randomUUID } from 'node:crypto';
import { open, rename, rm, stat } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { RecuaError, unreadable } from '../../errors.js';
import { NotRegular, openRegular } from '../../system/small-file.js';
import type { Fingerprint } from './fingerprint.js';

const magic = Buffer.from('RECUAKV2');
const sumBytes = 32;
const mostHeaderBytes = 65_536;

/** The engine's JavaScript thread copies and hashes a piece in about a millisecond. */
const usualPieceBytes = 1024 ** 2;

/** Memory that holds a state to write. */
export interface StateSource {
  sizeBytes: number;
  /** Its tokens are a remembered chat (docs/design/exact-history.md). */
  chat?: boolean;
  read(offset: number, into: Uint8Array): void;
}

/**
 * Replaces the file as a whole, with mode 0600: a KV state is as private as its conversation.
 * Returns the file's size. Without `sync`, a crash of the machine may lose it.
 */
export async function writeState(
  path: string,
  fingerprint: Fingerprint,
  tokens: Int32Array,
  { sizeBytes: stateBytes, chat = false, read }: StateSource,
  pieceBytes = usualPieceBytes,
  sync = true,
): Promise<number> {
  const header = Buffer.from(JSON.stringify({ fingerprint, tokens: tokens.length, stateBytes, chat }));
  const length = Buffer.alloc(4);
  length.writeUInt32LE(header.length);
  await ensureReplaceable(path);
  const draft = `${path}.${randomUUID()}`;
  const file = await open(draft, 'wx', 0o600);
  try {
    const hash = createHash('sha256');
    let sizeBytes = 0;
    const write = async (bytes: Uint8Array): Promise<void> => {
      hash.update(bytes);
      await writeAll(file, bytes);
      sizeBytes += bytes.length;
    };
    await write(Buffer.concat([magic, length, header, bytesOf(tokens)]));
    const piece = new Uint8Array(Math.min(pieceBytes, stateBytes));
    for (let offset = 0; offset < stateBytes; offset += piece.length) {
      const part = piece.subarray(0, stateBytes - offset);
      read(offset, part);
      await write(part);
    }
    await writeAll(file, hash.digest());
    if (sync) await file.sync();
    await file.close();
    await rename(draft, path);
    return sizeBytes + sumBytes;
  } catch (error) {
    await file.close().catch(() => {});
    await rm(draft, { force: true });
    throw error;
  }
}

/** Root's rename would put the file in the place of a device, such as /dev/null. */
async function ensureReplaceable(path: string): Promise<void> {
  const found = await stat(path).catch(() => undefined);
  if (found && !found.isFile()) throw new NotRegular(`${path} is not a regular file`);
}

async function writeAll(file: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length;) at += (await file.write(bytes, at)).bytesWritten;
}

export interface StateHeader {
  tokens: number;
  stateBytes: number;
}

/** Memory that receives a state. */
export type StateSink = (offset: number, from: Uint8Array) => void;

export interface ReadState {
  tokens: Int32Array;
  sizeBytes: number;
  chat: boolean;
}

/**
 * `accept` gets the state's size before the state is read, and returns memory for it or the reason
 * why not. Throws `file_unreadable` if the file cannot be read. Returns a string if the file cannot
 * be used here; the memory's contents are then invalid.
 */
export async function readState(
  path: string, fingerprint: Fingerprint, accept: (header: StateHeader) => StateSink | string, pieceBytes = usualPieceBytes,
): Promise<ReadState | string> {
  return await reading(path, async (file) => {
    const beginning = await readBeginning(file, path, fingerprint);
    if ('why' in beginning) return beginning.why;
    const { header: { tokens, stateBytes, chat }, fill, sum } = beginning;
    const damaged = `${path} is damaged`;
    const sink = accept({ tokens, stateBytes });
    if (typeof sink === 'string') return sink;
    const list = new Int32Array(tokens);
    if (!(await fill(bytesOf(list)))) return damaged;
    const piece = new Uint8Array(Math.min(pieceBytes, stateBytes));
    for (let offset = 0; offset < stateBytes; offset += piece.length) {
      const part = piece.subarray(0, stateBytes - offset);
      if (!(await fill(part))) return damaged;
      sink(offset, part);
    }
    const right = sum();
    const told = Buffer.alloc(sumBytes);
    return (await fill(told)) && told.equals(right) ? { tokens: list, sizeBytes: beginning.sizeBytes, chat } : damaged;
  });
}

/** Why a file cannot be used here. */
export interface Unusable {
  why: string;
  /** Sound as far as was read: another model, other settings or a longer context can use it. */
  foreign: boolean;
}

/**
 * A file's tokens, and the size of its state, if it can be used and has at most `mostTokens`. Only
 * `readState` verifies the checksum.
 */
export async function readTokens(
  path: string,
  fingerprint: Fingerprint,
  mostTokens: number,
): Promise<{ tokens: Int32Array; stateBytes: number; chat: boolean } | Unusable> {
  return await reading(path, async (file) => {
    const beginning = await readBeginning(file, path, fingerprint);
    if ('why' in beginning) return beginning;
    const {
      header: { tokens, stateBytes, chat },
      fill,
    } = beginning;
    if (tokens > mostTokens) return { why: `${path} is longer than the context`, foreign: true };
    const list = new Int32Array(tokens);
    return (await fill(bytesOf(list))) ? { tokens: list, stateBytes, chat } : { why: `${path} is damaged`, foreign: false };
  });
}

async function reading<T>(path: string, work: (file: FileHandle) => Promise<T>): Promise<T> {
  let file: FileHandle | undefined;
  try {
    file = await openRegular(path, true);
    return await work(file);
  } catch (cause) {
    if (cause instanceof RecuaError) throw cause;
    throw unreadable(`The saved state ${path} cannot be read`, cause);
  } finally {
    await file?.close();
  }
}

interface Beginning {
  header: StateHeader & { chat: boolean };
  /** The file's size. */
  sizeBytes: number;
  /** Fills the array with the next bytes; false if there are too few. */
  fill(bytes: Uint8Array): Promise<boolean>;
  /** Checksum of all bytes read so far. */
  sum(): Buffer;
}

async function readBeginning(file: FileHandle, path: string, fingerprint: Fingerprint): Promise<Beginning | Unusable> {
  const damaged = { why: `${path} is damaged`, foreign: false };
  const { size } = await file.stat();
  const hash = createHash('sha256');
  const fill = async (bytes: Uint8Array): Promise<boolean> => {
    for (let at = 0; at < bytes.length;) {
      const { bytesRead } = await file.read(bytes, at);
      if (bytesRead === 0) return false;
      at += bytesRead;
    }
    hash.update(bytes);
    return true;
  };
  const beginning = Buffer.alloc(magic.length + 4);
  if (!(await fill(beginning)) || !beginning.subarray(0, magic.length).equals(magic)) return { why: `${path} is no saved state`, foreign: false };
  const headerBytes = beginning.readUInt32LE(magic.length);
  const headerText = Buffer.alloc(Math.min(headerBytes, mostHeaderBytes));
  if (headerBytes > mostHeaderBytes || !(await fill(headerText))) return damaged;
  const header = parseHeader(headerText);
  if (!header) return damaged;
  if (header.fingerprint !== fingerprint) return { why: `${path} belongs to another model, other settings or another version of llama.cpp`, foreign: true };
  const { tokens, stateBytes, chat } = header;
  if (beginning.length + headerBytes + tokens * 4 + stateBytes + sumBytes !== size) return damaged;
  return { header: { tokens, stateBytes, chat }, sizeBytes: size, fill, sum: () => hash.copy().digest() };
}

function parseHeader(bytes: Buffer): (StateHeader & { fingerprint: unknown; chat: boolean }) | undefined {
  try {
    const { fingerprint, tokens, stateBytes, chat } = JSON.parse(bytes.toString()) as Record<string, unknown>;
    return isCount(tokens) && isCount(stateBytes) ? { fingerprint, tokens, stateBytes, chat: chat === true } : undefined;
  } catch {
    return undefined;
  }
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

const bytesOf = ({ buffer, byteOffset, byteLength }: Int32Array): Uint8Array => new Uint8Array(buffer, byteOffset, byteLength);
