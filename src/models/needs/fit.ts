// Whether a model fits into main memory, before its weights are read. Called before one model is
// loaded; engine/leases weighs several against each other, and engine/offload looks at GPUs.
import { RecuaError } from '../../errors.js';
import type { EngineConfig } from '../../settings/config.js';
import { machineMemory, type MachineMemory } from '../../system/machine-memory.js';
import { sizeText } from '../byte-size.js';
import type { ModelFile } from '../gguf/model-file.js';
import { offloadWish } from './layer-need.js';
import { estimateMemory, largestContext, type MemoryNeed } from './memory.js';

type Wanted = Pick<EngineConfig, 'contextSize' | 'parallel' | 'cacheTypeK' | 'cacheTypeV' | 'batchSize' | 'microBatchSize' | 'flashAttention' | 'mmap' | 'gpuLayers' | 'device' | 'requireGpu'>;

/**
 * A warning if the system would read parts of the weights from disk again and again; undefined if
 * the model fits, or may go to a GPU.
 * @throws RecuaError `model_too_large` if the rest, which cannot be read again, does not fit.
 */
export function ensureFits(file: ModelFile, wanted: Wanted, machine: MachineMemory = machineMemory()): string | undefined {
  if (offloadWish(wanted, file).gpuLayers !== 0) return undefined;
  const need = estimateMemory(file, wanted);
  // A bound may be far above what llama.cpp takes: no reason to refuse.
  const kvBytes = need.kvIsBound ? 0 : need.kvBytes;
  const own = kvBytes + need.computeBytes + (wanted.mmap ? 0 : need.weightsBytes);
  const roomBytes = machine.countsCache ? machine.availableBytes : machine.totalBytes;
  if (own > roomBytes) {
    const available = machine.countsCache ? `, ${sizeText(machine.availableBytes)} of it available` : '';
    throw new RecuaError('model_too_large', `${tableOf(file, need, wanted)}\nThis machine has ${sizeText(machine.totalBytes)}${available}. ${advice(file, wanted, roomBytes)}`);
  }
  if (need.weightsBytes + kvBytes + need.computeBytes <= machine.totalBytes) return undefined;
  return `The model needs ${sizeText(need.totalBytes)}, and this machine has ${sizeText(machine.totalBytes)}: weights are read from disk again and again, which is slow.`;
}

/** What the model needs, one part to a line. */
function tableOf({ contextTrain }: ModelFile, need: MemoryNeed, { contextSize, parallel }: Wanted): string {
  // A request gets no more than the model was trained on.
  const tokens = Math.min(contextSize || Infinity, contextTrain || Infinity);
  const context = `${parallel > 1 ? `${parallel} requests of ` : ''}${tokens < Infinity ? `${tokens} tokens` : 'the usual size'}`;
  const rows: [string, number, string][] = [
    ['weights', need.weightsBytes, ''], ['context', need.kvBytes, `  ${context}`], ['computing', need.computeBytes, ''],
    ['together', need.totalBytes, ''],
  ];
  return `The model does not fit into memory:\n${rows.map(([label, bytes, more]) => `  ${label.padEnd(9)} ${sizeText(bytes).padStart(8)}${more}`).join('\n')}`;
}

function advice(file: ModelFile, wanted: Wanted, roomBytes: number): string {
  const ways: string[] = [];
  const context = largestContext(file, roomBytes, wanted);
  if (context > 0) ways.push(`--ctx-size ${context}`);
  let parallel = wanted.parallel - 1;
  while (parallel > 0 && estimateMemory(file, { ...wanted, parallel }).totalBytes > roomBytes) parallel--;
  if (parallel > 0) ways.push(`--parallel ${parallel}`);
  return ways.length > 0 ? `It fits with ${ways.join(', or with ')}.` : 'Use a smaller quantization or a smaller model.';
}
