// A conversation's KV in a file: magic, header (JSON: which model and settings it belongs to), tokens, llama.cpp's bytes.
// Written and read by the engine between two steps, for chats that go on in a later process.
import { createHash } from 'node:crypto';
import { open, readFile } from 'node:fs/promises';
import writeFileAtomic from 'write-file-atomic';
import { RecuaError } from '../errors.js';
import type { Loaded } from './load.js';

const magic = Buffer.from('RECUAKV1');

/** Two files with the same fingerprint hold KV of the same weights, computed in the same way. */
export type Fingerprint = string;

const samples = 16;
const sampleBytes = 64 * 1024;

/** Of the weights it takes samples: fine-tunes of one model differ everywhere, and the files are large. */
export async function fingerprintOf({ options, description }: Loaded): Promise<Fingerprint> {
  const hash = createHash('sha256');
  const { architecture, parameters, vocabSize, fileType, llamaCpp } = description;
  hash.update(JSON.stringify([architecture, parameters, vocabSize, fileType, llamaCpp, options.cacheTypeK, options.cacheTypeV]));
  const file = await open(options.modelPath);
  try {
    const { size } = await file.stat();
    const bytes = Buffer.alloc(sampleBytes);
    for (let i = 0; i < samples; i++) {
      const { bytesRead } = await file.read(bytes, 0, sampleBytes, Math.floor((i * Math.max(0, size - sampleBytes)) / (samples - 1)));
      hash.update(bytes.subarray(0, bytesRead));
    }
  } finally {
    await file.close();
  }
  return hash.digest('hex');
}

/** Replaces the file as a whole; returns its size. A KV state is as private as the conversation. */
export async function writeState(path: string, fingerprint: Fingerprint, tokens: Int32Array, state: Uint8Array): Promise<number> {
  const header = Buffer.from(JSON.stringify({ fingerprint, tokens: tokens.length, stateBytes: state.length }));
  const length = Buffer.alloc(4);
  length.writeUInt32LE(header.length);
  const whole = Buffer.concat([magic, length, header, new Uint8Array(tokens.buffer, tokens.byteOffset, tokens.byteLength), state]);
  await writeFileAtomic(path, whole, { mode: 0o600 });
  return whole.length;
}

export interface ReadState {
  tokens: Int32Array;
  state: Uint8Array;
  sizeBytes: number;
}

/** Throws `file_unreadable` where it cannot be read; a string says why what is there does not serve. */
export async function readState(path: string, fingerprint: Fingerprint): Promise<ReadState | string> {
  const whole = await readFile(path).catch((cause: unknown) => {
    throw new RecuaError('file_unreadable', `The saved state ${path} cannot be read: ${(cause as Error).message}`, { cause });
  });
  const damaged = `${path} is damaged`;
  if (!whole.subarray(0, magic.length).equals(magic) || whole.length < magic.length + 4) return `${path} is no saved state`;
  const headerEnd = magic.length + 4 + whole.readUInt32LE(magic.length);
  if (headerEnd > whole.length) return damaged;
  let header: { fingerprint?: unknown; tokens?: unknown; stateBytes?: unknown };
  try {
    header = JSON.parse(whole.toString('utf8', magic.length + 4, headerEnd)) as typeof header;
  } catch {
    return damaged;
  }
  if (header.fingerprint !== fingerprint) return `${path} belongs to another model, other settings or another version of llama.cpp`;
  const { tokens, stateBytes } = header;
  if (typeof tokens !== 'number' || typeof stateBytes !== 'number' || headerEnd + tokens * 4 + stateBytes !== whole.length) return damaged;
  const list = new Int32Array(tokens);
  new Uint8Array(list.buffer).set(whole.subarray(headerEnd, headerEnd + tokens * 4));
  return { tokens: list, state: whole.subarray(headerEnd + tokens * 4), sizeBytes: whole.length };
}
