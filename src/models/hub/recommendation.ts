// Which of a repository's models to recommend for a machine. Pure; used by pull's listing.
import type { RemoteModel } from './gguf-files.js';

/** Weights, plus roughly what a context and the buffers take. */
export function memoryBytesOf(model: Pick<RemoteModel, 'sizeBytes'>): number {
  return model.sizeBytes * 1.1 + 512 * 1024 * 1024;
}

/** Bits per weight from the name; 0 if it states none. */
function bitsOf(quantization: string): number {
  return Number(/(?:^|-)(?:BF|FP?|I?Q|TQ|MXFP|NVFP)(\d+)/.exec(quantization)?.[1] ?? 0);
}

/** Ranks models with equal bits: K_M, the most common choice, then other K types, then the rest. */
function tasteOf(quantization: string): number {
  return /_K_M$/.test(quantization) ? 2 : /_K(_|$)/.test(quantization) ? 1 : 0;
}

/** Below the lower bound quality visibly drops; above the upper bound there is no visible gain. */
const goodBits = 4;
const bestBits = 8;

/**
 * The best model of 4 to 8 bits that takes at most half of the machine's memory, which other
 * programs share; else the smallest of 4 bits or more that fits; else the largest that fits.
 * Undefined if none fits.
 */
export function recommend(models: readonly RemoteModel[], machineBytes: number): RemoteModel | undefined {
  const fitting = models.filter((model) => model.kind === 'model' && model.files.length === model.parts && memoryBytesOf(model) <= machineBytes);
  const bySize = [...fitting].sort((a, b) => a.sizeBytes - b.sizeBytes);
  const good = bySize.filter(({ quantization }) => bitsOf(quantization) >= goodBits);
  const [best] = good.filter((model) => bitsOf(model.quantization) <= bestBits && memoryBytesOf(model) <= machineBytes / 2)
    .sort((a, b) => bitsOf(b.quantization) - bitsOf(a.quantization) || tasteOf(b.quantization) - tasteOf(a.quantization));
  if (best) return best;
  const tight = good.filter((model) => bitsOf(model.quantization) === bitsOf(good[0]!.quantization));
  return tight.sort((a, b) => tasteOf(b.quantization) - tasteOf(a.quantization))[0] ?? bySize.at(-1);
}
