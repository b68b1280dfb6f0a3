// Which weights and settings a KV state belongs to. Called by state-keeper.
import { createHash, type Hash } from 'node:crypto';
import { open } from 'node:fs/promises';
import { RecuaError } from '../../errors.js';
import type { Gguf } from '../../models/gguf/gguf.js';
import { changeOf, readModelFile } from '../../models/gguf/model-file.js';
import type { LoadedModel } from './loaded.js';

/** Two files with the same fingerprint hold KV of the same weights, computed in the same way. */
export type Fingerprint = string;

const sampleBytes = 4096;
/** A tensor has a sample at its beginning, at its end, and for each of these bytes. */
const bytesPerSample = 32 * 2 ** 20;
const headerPieceBytes = 2 ** 18;
/** llama.cpp makes contexts in multiples of this. */
const contextStep = 256;

/**
 * Hashes the whole header and samples of every tensor: the files are large, and a fine-tune may
 * leave most tensors as they were. Rejects if the files are no longer those that were loaded.
 */
export async function fingerprintOf({ options, description, files }: Pick<LoadedModel, 'options' | 'description' | 'files'>): Promise<Fingerprint> {
  const hash = createHash('sha256');
  const { architecture, parameters, vocabSize, fileType, llamaCpp, contextSize } = description;
  // Without flash attention llama.cpp keeps the values transposed.
  const { cacheTypeK, cacheTypeV, flashAttention } = options;
  const { parts } = await readModelFile(options.modelPath);
  hash.update(JSON.stringify([architecture, parameters, vocabSize, fileType, llamaCpp, cacheTypeK, cacheTypeV, flashAttention === 'off', ...(turnsForLong(parts, contextSize) ? ['long'] : [])]));
  for (const part of parts) await addSamples(hash, part);
  // Afterwards, so that no change is missed.
  if (await changeOf(files)) {
    throw new RecuaError('file_unreadable', 'The file of the model has changed since it was loaded; load it again to save its states.');
  }
  return hash.digest('hex');
}

/**
 * Whether keys are turned for long contexts: LongRoPE (Phi, MiniCPM) has one list of factors for
 * contexts up to its first training's, and one for longer ones, and keys are kept as they turned.
 */
function turnsForLong(parts: readonly Gguf[], contextSize: number): boolean {
  if (!parts.some(({ tensors }) => tensors.some(({ name }) => name.startsWith('rope_factors_')))) return false;
  const { metadata } = parts[0]!;
  const of = (key: string): unknown => metadata.get(`${metadata.get('general.architecture') as string}.${key}`);
  const original = of('rope.scaling.original_context_length') ?? of('context_length');
  return Math.ceil(contextSize / contextStep) * contextStep > Number(original);
}

async function addSamples(hash: Hash, { path, dataOffset, tensors }: Gguf): Promise<void> {
  const file = await open(path);
  try {
    const bytes = Buffer.alloc(headerPieceBytes);
    const add = async (offset: number, length: number): Promise<void> => {
      const { bytesRead } = await file.read(bytes, 0, length, offset);
      hash.update(bytes.subarray(0, bytesRead));
    };
    for (let at = 0; at < dataOffset; at += headerPieceBytes) await add(at, Math.min(headerPieceBytes, dataOffset - at));
    for (const { offset, sizeBytes } of tensors) {
      const length = Math.min(sampleBytes, sizeBytes);
      const intervals = 1 + Math.floor(sizeBytes / bytesPerSample);
      for (let i = 0; i <= intervals; i++) await add(dataOffset + offset + Math.floor((i * (sizeBytes - length)) / intervals), length);
    }
  } finally {
    await file.close();
  }
}
