// The default context size of a chat: the model's training size, as far as this machine's memory
// allows. Used by chat-models.ts.
import { defaults } from '../../settings/config.js';
import { estimateMemory, largestContext } from '../../models/needs/memory.js';
import { machineMemory } from '../../system/machine-memory.js';
import type { MemoryOptions } from '../../models/needs/memory.js';
import type { ModelFile } from '../../models/gguf/model-file.js';

export interface ContextChoice {
  /** Tokens. */
  size: number;
  /** The reason for this size, in a sentence. */
  reason: string;
}

const least = 512;
/** Left free for other programs. */
const reserveBytes = 512 * 1024 * 1024;

type ContextSettings = Omit<MemoryOptions, 'contextSize' | 'parallel'>;

export function chooseContext(model: ModelFile, settings: ContextSettings, availableBytes = machineMemory().availableBytes): ContextChoice {
  const trained = model.contextTrain;
  const usual = defaults.contextSize;
  if (trained === 0) return { size: usual, reason: `Context: ${usual} tokens, since the file does not say with how many the model was trained; -c sets another size.` };
  if (bytesPerToken(model, settings) === undefined) {
    return trained <= usual ? { size: trained, reason: `Context: ${trained} tokens, the model's training size.` } : { size: usual, reason: `Context: ${usual} of the ${trained} tokens the model was trained with, since the memory they need is unknown; -c sets another size.` };
  }
  const fitting = Math.max(least, largestContext(model, availableBytes - reserveBytes, { ...settings, parallel: 1 }));
  if (fitting >= trained) return { size: trained, reason: `Context: ${trained} tokens, the model's training size.` };
  return { size: fitting, reason: `Context: ${fitting} of the ${trained} tokens the model was trained with, which is what this machine's free memory holds; -c sets another size.` };
}

/** KV cache size per token, in all layers; undefined if the file does not say enough. */
export function bytesPerToken(model: ModelFile, settings: ContextSettings): number | undefined {
  const contextSize = Math.min(model.contextTrain || defaults.contextSize, defaults.contextSize);
  const { kvBytes } = estimateMemory(model, { ...settings, parallel: 1, contextSize });
  return kvBytes > 0 ? kvBytes / contextSize : undefined;
}

/** Whether a model fits into memory besides everything loaded now, with some left for others. */
export function hasRoomFor(model: ModelFile, settings: MemoryOptions, availableBytes = machineMemory().availableBytes): boolean {
  return estimateMemory(model, { ...settings, parallel: 1 }).totalBytes <= availableBytes - reserveBytes;
}
