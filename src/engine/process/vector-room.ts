// Whether there is memory for the context that computes vectors. llama.cpp writes to all of its
// keys and values at once, so the system would end the whole engine process if there is too little.
// Called by engine/pooled before it opens a large context.
import { RecuaError } from '../../errors.js';
import { sizeText } from '../../models/byte-size.js';
import { readModelFile } from '../../models/gguf/model-file.js';
import { estimateMemory } from '../../models/needs/memory.js';
import { machineMemory } from '../../system/machine-memory.js';

/** Most rows of a pass, if the model can read an input in parts (native/context/embed.cpp). */
const passRows = 512;

/**
 * `path` is the model's, all of whose layers are on the CPU.
 * @throws RecuaError `model_too_large` if a context for inputs of so many tokens does not fit.
 */
export async function ensureVectorRoom(path: string, contextSize: number, available = () => machineMemory().availableBytes): Promise<void> {
  const file = await readModelFile(path).catch(() => undefined);
  // It was removed or replaced since it was loaded.
  if (!file) return;
  const need = estimateMemory(file, { contextSize, parallel: 1, cacheTypeK: 'f16', cacheTypeV: 'f16', batchSize: passRows, microBatchSize: passRows });
  // A bound may be far above what llama.cpp takes: no reason to refuse.
  const bytes = (need.kvIsBound ? 0 : need.kvBytes) + need.computeBytes;
  const availableBytes = available();
  if (bytes <= availableBytes) return;
  throw new RecuaError('model_too_large', `Vectors of texts this long need ${sizeText(bytes)} of memory, and ${sizeText(availableBytes)} is available; split the text.`);
}
