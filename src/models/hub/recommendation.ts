// Which of a repository's models to recommend for a machine. Pure; used by pull's listing.
import type { RemoteModel } from './gguf-files.js';

/** Weights, and roughly what a context and the buffers take beside them. */
export function memoryBytesOf(model: Pick<RemoteModel, 'sizeBytes'>): number {
  return model.sizeBytes * 1.1 + 512 * 1024 * 1024;
}

/** Bits per weight as the name says; 0 where it says none. */
function bitsOf(quantization: string): number {
  return Number(/(?:^|-)(?:BF|FP?|I?Q|TQ|MXFP|NVFP)(\d+)/.exec(quantization)?.[1] ?? 0);
}

/** Of equally many bits: K_M is what most people take, then other K ones, then the rest. */
function tasteOf(quantization: string): number {
  return /_K_M$/.test(quantization) ? 2 : /_K(_|$)/.test(quantization) ? 1 : 0;
}

/** Below that many bits a model loses what people notice, above the other they notice no gain. */
const goodBits = 4;
const bestBits = 8;

/**
 * The best of 4 to 8 bits that takes no more than half of the machine's memory, since it shares
 * that with others; else the smallest of 4 bits or more that fits at all; else the largest that
 * does. Undefined where none fits.
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
