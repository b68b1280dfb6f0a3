// A model with random weights and a vocabulary of 151,936. Its logits are flat, so that every token
// a grammar refuses would show; with doublings they are less and less flat. Written by
// bench/random-model.mjs, always the same bytes.
import type { Test } from 'tap';
import { join } from 'node:path';
import type { NativeModel, SamplerOptions } from '#recua/addon/addon.js';
import { gpuLayers } from '../device.js';
import { addon, contextOptions, step } from './setup.js';

const writer = new URL('../../bench/random-model.mjs', import.meta.url).href;

export async function loadRandom(t: Test, doublings = 0): Promise<NativeModel> {
  const path = join(t.testdir(), `random-${doublings}.gguf`);
  const { writeRandomModel } = await import(writer) as { writeRandomModel(name: string, path: string, doublings: number): void };
  writeRandomModel('nano', path, doublings);
  return await addon.loadModel({ path, gpuLayers, mmap: false, mlock: false }).promise;
}

/**
 * Tokens that a sampler with these options gives after a prompt, up to one that ends the text, or
 * -2 if none is allowed.
 */
export async function tokensOf(model: NativeModel, options: SamplerOptions, prompt: Int32Array, count: number): Promise<number[]> {
  const { flags } = await model.pieces(false);
  const context = await model.createContext(contextOptions({ sequences: 1 }));
  try {
    const sampler = await model.createSampler(options, prompt);
    const out: number[] = [];
    let from = 0;
    for (let tokens = prompt; out.length < count; tokens = Int32Array.of(out.at(-1)!)) {
      const result = await step(context, [{ sequence: 0, from, tokens, sampler }]);
      from += tokens.length;
      out.push(result.tokens[0] === -3 ? await sampler.decide() : result.tokens[0]!);
      if (out.at(-1)! < 0 || (flags[out.at(-1)!]! & 1) !== 0) break;
    }
    sampler.close();
    return out;
  } finally {
    await context.close();
  }
}

/** With Recua's own samplers, and with llama.cpp's chain. */
export async function bothWays(
  model: NativeModel,
  options: SamplerOptions,
  prompt: Int32Array,
  count: number,
): Promise<{ own: number[]; chain: number[] }> {
  const own = await tokensOf(model, { ...options, chain: false }, prompt, count);
  return { own, chain: await tokensOf(model, { ...options, chain: true }, prompt, count) };
}
