// Settings of an answer, by llama-server's names. Pure. Called by completion-answer and props.
import type { Sampling } from '../../engine/protocol.js';
import type { NativeBody } from './completion-request.js';

/** llama.cpp's order. */
const usualSamplers = ['penalties', 'dry', 'top_n_sigma', 'top_k', 'typ_p', 'top_p', 'min_p', 'xtc', 'temperature'];

export function generationSettings({ sampling, maxTokens, stop, stream, probs, grammar, seed }: NativeBody['settings'] & { seed: number }): Record<string, unknown> {
  return {
    seed,
    ...numbers(sampling),
    dry_sequence_breakers: sampling.drySequenceBreakers ?? ['\n', ':', '"', '*'],
    stop, max_tokens: maxTokens, n_predict: maxTokens, ignore_eos: sampling.ignoreEos, stream,
    logit_bias: sampling.logitBias.map(({ token, bias }) => ({ bias: bias === -Infinity ? null : bias, token })),
    n_probs: probs, grammar, samplers: sampling.samplers ?? usualSamplers,
  };
}

/** The settings of a request without settings. */
export function defaultSettings(sampling: Sampling, maxTokens: number): Record<string, unknown> {
  return {
    seed: 0xffff_ffff,
    ...numbers(sampling),
    max_tokens: maxTokens,
    n_predict: maxTokens,
    ignore_eos: false,
    stream: true,
    n_probs: 0,
    samplers: usualSamplers,
  };
}

function numbers(sampling: Sampling): Record<string, number> {
  return {
    temperature: sampling.temperature,
    dynatemp_range: sampling.dynatempRange,
    dynatemp_exponent: sampling.dynatempExponent,
    top_k: sampling.topK,
    top_p: sampling.topP,
    min_p: sampling.minP,
    top_n_sigma: sampling.topNSigma,
    xtc_probability: sampling.xtcProbability,
    xtc_threshold: sampling.xtcThreshold,
    typical_p: sampling.typicalP,
    repeat_last_n: sampling.penaltyLastN,
    repeat_penalty: sampling.repeatPenalty,
    presence_penalty: sampling.presencePenalty,
    frequency_penalty: sampling.frequencyPenalty,
    dry_multiplier: sampling.dryMultiplier,
    dry_base: sampling.dryBase,
    dry_allowed_length: sampling.dryAllowedLength,
    dry_penalty_last_n: sampling.dryPenaltyLastN,
    mirostat: sampling.mirostat,
    mirostat_tau: sampling.mirostatTau,
    mirostat_eta: sampling.mirostatEta,
    adaptive_target: sampling.adaptiveTarget,
    adaptive_decay: sampling.adaptiveDecay,
    min_keep: sampling.minKeep,
    min_tokens: sampling.minTokens,
  };
}
