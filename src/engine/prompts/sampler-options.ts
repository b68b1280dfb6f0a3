// A request's sampling → the addon's sampler options, with texts tokenized. Called by chat.
import type { SamplerOptions } from '../../addon/addon.js';
import type { ChatRequest, CompletionRequest } from '../protocol.js';
import { samplerOptions } from '../text/sampling.js';
import type { Preparing } from './chat.js';
import { checkTokens, headOf, mostUsed } from './known-tokens.js';

/** The sampler's options; text biases become token biases. */
export async function optionsOf(
  { model, guesses, earlierPrompt, cancelled }: Preparing,
  { sampling, tells = {} }: ChatRequest | CompletionRequest,
): Promise<SamplerOptions> {
  const options = samplerOptions(sampling, guesses);
  if (earlierPrompt) options.prompt = earlierPrompt;
  if (tells.logprobs !== undefined) {
    options.logprobs = tells.logprobs;
    if (tells.afterSampling) options.afterSampling = true;
  }
  checkTokens(
    sampling.logitBias.map(({ token }) => token),
    model.info.vocabSize,
    'logit_bias',
  );
  if (!sampling.textBias) return options;
  // Texts may have the same tokens many times.
  const biases = new Map<number, number>();
  const add = (token: number, bias: number): void => void biases.set(token, (biases.get(token) ?? 0) + bias);
  for (const { token, bias } of options.logitBias ?? []) add(token, bias);
  for (const { text, bias } of sampling.textBias) {
    for (const token of await model.tokenize(text, false, false, { cancelled })) add(token, bias);
  }
  options.logitBias = Array.from(biases, ([token, bias]) => ({ token, bias }));
  return options;
}

/** The prediction's tokens, cut to the context: no answer is longer. */
export async function predictionOf({ model, contextSize, cancelled }: Preparing, prediction: string): Promise<Int32Array> {
  const used = headOf(prediction, mostUsed(contextSize, model.info));
  const tokens = await model.tokenize(used, false, false, { cancelled });
  return tokens.subarray(0, contextSize);
}
