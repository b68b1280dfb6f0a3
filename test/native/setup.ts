// Shared by native tests: the addon, the built-in model, and steps in a readable form.
import { fileURLToPath } from 'node:url';
import { gpuLayers, openTestAddon } from '../device.js';
import type { ContextOptions, NativeContext, NativeModel, NativeSampler } from '#recua/addon/addon.js';

export const addon = await openTestAddon();
export const builtin = fileURLToPath(new URL('../../builtin/builtin.gguf', import.meta.url));

export const loadBuiltin = (): Promise<NativeModel> =>
  addon.loadModel({ path: builtin, gpuLayers, mmap: true, mlock: false }).promise;

export const contextOptions = (given: Partial<ContextOptions> = {}): ContextOptions => ({
  contextSize: 512, sequences: 4, batchSize: 512, microBatchSize: 512, threads: 1, threadsBatch: 1,
  flashAttention: 'auto', cacheTypeK: 'f16', cacheTypeV: 'f16', ...given,
});

/** The part of one sequence in a step; its last token asks for a sample. */
export interface Part {
  sequence: number;
  from: number;
  tokens: ArrayLike<number>;
  sampler: NativeSampler | null;
}

export async function step(context: NativeContext, parts: Part[]) {
  const rows = parts.reduce((sum, { tokens }) => sum + tokens.length, 0);
  const input = {
    tokens: new Int32Array(rows), positions: new Int32Array(rows), sequences: new Int32Array(rows), outputs: new Uint8Array(rows),
    rows, samplers: parts.map(({ sampler }) => sampler),
  };
  let row = 0;
  for (const { sequence, from, tokens } of parts) {
    for (let i = 0; i < tokens.length; i++, row++) {
      input.tokens[row] = tokens[i]!;
      input.positions[row] = from + i;
      input.sequences[row] = sequence;
      input.outputs[row] = i === tokens.length - 1 ? 1 : 0;
    }
  }
  const [result] = await context.steps(input, 1, () => undefined);
  return result!;
}

/** Tokens generated after `prompt` in one sequence. */
export async function generate(context: NativeContext, sampler: NativeSampler, prompt: Int32Array, count: number, sequence = 0, from = 0) {
  const out: number[] = [];
  let { tokens } = await step(context, [{ sequence, from, tokens: prompt, sampler }]);
  let position = from + prompt.length;
  out.push(tokens[0]!);
  while (out.length < count) {
    ({ tokens } = await step(context, [{ sequence, from: position++, tokens, sampler }]));
    out.push(tokens[0]!);
  }
  return out;
}

export async function chatPrompt(model: NativeModel, content: string, more: Partial<Parameters<NativeModel['applyChatTemplate']>[0]> = {}) {
  return model.applyChatTemplate({
    messages: JSON.stringify([{ role: 'user', content }]), tools: '', toolChoice: 'auto', jsonSchema: '', grammar: '',
    addGenerationPrompt: true, enableThinking: true, templateKwargs: {}, template: '', ...more,
  });
}
