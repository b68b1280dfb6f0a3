// A request's sampling → the addon's sampler options, where an absent option is off. Pure.
import type { SamplerOptions } from '../../addon/addon.js';
import type { Sampling } from '../protocol.js';

/** All options except text biases. `draft`: guess tokens ahead. */
export function samplerOptions(sampling: Sampling, draft = false): SamplerOptions {
  // A list of samplers may lack `temperature`, and only that one makes the choice greedy.
  const greedy = !(sampling.temperature > 0) && !(sampling.dynatempRange > 0) && !sampling.samplers;
  const options: SamplerOptions = { temperature: greedy ? 0 : sampling.temperature };
  if (sampling.seed !== undefined) options.seed = sampling.seed;
  penalties(sampling, options);
  if (sampling.logitBias.length > 0) options.logitBias = sampling.logitBias;
  if (sampling.ignoreEos) options.ignoreEos = true;
  if (sampling.minTokens > 0) options.minTokens = sampling.minTokens;
  if (draft) options.draft = true;
  // Greedy takes the best token, so samplers that only trim or reshape the tail cannot change it.
  if (!greedy) randomness(sampling, options);
  return options;
}

function penalties(sampling: Sampling, options: SamplerOptions): void {
  if (sampling.penaltyLastN !== 0) {
    if (sampling.repeatPenalty !== 1) options.repeatPenalty = sampling.repeatPenalty;
    if (sampling.frequencyPenalty !== 0) options.frequencyPenalty = sampling.frequencyPenalty;
    if (sampling.presencePenalty !== 0) options.presencePenalty = sampling.presencePenalty;
    if (options.repeatPenalty !== undefined || options.frequencyPenalty !== undefined || options.presencePenalty !== undefined) {
      options.penaltyLastN = sampling.penaltyLastN;
    }
  }
  if (sampling.dryMultiplier > 0 && sampling.dryPenaltyLastN !== 0) {
    options.dryMultiplier = sampling.dryMultiplier;
    options.dryBase = sampling.dryBase;
    options.dryAllowedLength = sampling.dryAllowedLength;
    options.dryPenaltyLastN = sampling.dryPenaltyLastN;
    if (sampling.drySequenceBreakers) options.drySequenceBreakers = sampling.drySequenceBreakers;
  }
}

function randomness(sampling: Sampling, options: SamplerOptions): void {
  // Mirostat does its own truncation; llama.cpp builds it without the other samplers.
  if (sampling.mirostat !== 0) {
    options.mirostat = sampling.mirostat;
    options.mirostatTau = sampling.mirostatTau;
    options.mirostatEta = sampling.mirostatEta;
    return;
  }
  if (sampling.samplers) options.samplers = sampling.samplers;
  if (sampling.minKeep > 0) options.minKeep = sampling.minKeep;
  if (sampling.dynatempRange > 0) {
    options.dynatempRange = sampling.dynatempRange;
    options.dynatempExponent = sampling.dynatempExponent;
  }
  if (sampling.adaptiveTarget >= 0) {
    options.adaptiveTarget = sampling.adaptiveTarget;
    options.adaptiveDecay = sampling.adaptiveDecay;
  }
  if (sampling.topK > 0) options.topK = sampling.topK;
  if (sampling.topP < 1) options.topP = sampling.topP;
  if (sampling.minP > 0) options.minP = sampling.minP;
  if (sampling.typicalP < 1) options.typicalP = sampling.typicalP;
  if (sampling.topNSigma > 0) options.topNSigma = sampling.topNSigma;
  if (sampling.xtcProbability > 0 && sampling.xtcThreshold <= 0.5) {
    options.xtcProbability = sampling.xtcProbability;
    options.xtcThreshold = sampling.xtcThreshold;
  }
}
