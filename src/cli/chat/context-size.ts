// How large a chat's context is where nobody says: what the model was trained with, as far as this machine's memory goes.
// Pure but for the look at the memory; used by chat.ts.
import { freemem } from 'node:os';
import type { ModelFile } from '../../models/model-file.js';

export interface ContextChoice {
  /** Tokens. */
  size: number;
  /** Why it is that, in a sentence. */
  reason: string;
}

/** Where neither the file nor the memory says anything. */
const usual = 4096;
const least = 512;
/** Sizes are multiples of it. */
const grain = 256;
/** For what computing takes beside weights and KV, and for other programs. */
const reserveBytes = 512 * 1024 * 1024;

const bytesPerValue: Readonly<Record<string, number>> = {
  f32: 4, f16: 2, bf16: 2, q8_0: 34 / 32, q5_1: 24 / 32, q5_0: 22 / 32, q4_1: 20 / 32, q4_0: 18 / 32, iq4_nl: 18 / 32,
};

export interface CacheTypes {
  cacheTypeK: string;
  cacheTypeV: string;
}

export function chooseContext(model: ModelFile, types: CacheTypes, availableBytes = availableMemory()): ContextChoice {
  const trained = model.contextTrain;
  if (trained === 0) return { size: usual, reason: `Context: ${usual} tokens, since the file does not say with how many the model was trained; -c sets another size.` };
  const whole = { size: trained, reason: `Context: ${trained} tokens, the model's training size.` };
  const perToken = bytesPerToken(model, types);
  if (perToken === undefined) {
    return trained <= usual ? whole : { size: usual, reason: `Context: ${usual} of the ${trained} tokens the model was trained with, since the memory they need is unknown; -c sets another size.` };
  }
  const room = Math.max(0, availableBytes - model.sizeBytes - reserveBytes);
  const fitting = Math.max(least, Math.floor(room / perToken / grain) * grain);
  if (fitting >= trained) return whole;
  return { size: fitting, reason: `Context: ${fitting} of the ${trained} tokens the model was trained with, which is what this machine's free memory holds; -c sets another size.` };
}

/** KV of one token in all layers; undefined where the file does not say enough. */
export function bytesPerToken(model: ModelFile, { cacheTypeK, cacheTypeV }: CacheTypes): number | undefined {
  const [file] = model.parts;
  const number = (key: string): number | undefined => {
    const value = file.metadata.get(`${model.architecture}.${key}`);
    if (typeof value === 'number') return value;
    // One per layer: the largest never promises too much.
    if (typeof value === 'object' && 'itemType' in value && value.items.length > 0) return Math.max(...value.items.map(Number));
    return undefined;
  };
  const heads = number('attention.head_count');
  if (heads === undefined || heads === 0 || model.layers === 0) return undefined;
  const kvHeads = number('attention.head_count_kv') ?? heads;
  const headSize = model.embeddingSize / heads;
  const keys = number('attention.key_length') ?? headSize;
  const values = number('attention.value_length') ?? headSize;
  const total = model.layers * kvHeads * (keys * (bytesPerValue[cacheTypeK] ?? 2) + values * (bytesPerValue[cacheTypeV] ?? 2));
  return total > 0 ? total : undefined;
}

/** Of the machine, or of the container this runs in. */
function availableMemory(): number {
  return (process as { availableMemory?: () => number }).availableMemory?.() ?? freemem();
}
