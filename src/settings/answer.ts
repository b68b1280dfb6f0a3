// How an answer is made: what a request may say of it, in each of the ways to ask (`recua run` and
// `chat`, the library, HTTP). Defaults are "off" where a sampler can be off, else llama-server's
// values.
import { maxCount, type Settings } from './kinds.js';

/** What has a default of the server or the program beside that of the request. */
export const answerSettings = {
  /** Most tokens to generate. Default 2048. */
  maxTokens: {
    kind: 'integer', fallback: 2048, min: 1, max: maxCount,
    flag: { names: ['--max-tokens', '-n'], help: 'Most tokens per answer' },
  },
  /** 0 always takes the likeliest token. Default 0.7. */
  temperature: {
    // OpenAI ends at 2; users of min_p and XTC go further.
    kind: 'number', fallback: 0.7, min: 0, max: 100, fields: ['temperature'],
    flag: {
      names: ['--temp', '--temperature'],
      help: 'Temperature; 0 always takes the likeliest token',
    },
  },
} as const satisfies Settings;

/** Numbers of the samplers alone. */
export const samplerSettings = {
  /** Keep the likeliest tokens that add up to this probability; 1 is off. Default 0.95. */
  topP: {
    kind: 'number', fallback: 0.95, min: 0, max: 1, fields: ['top_p'],
    flag: {
      names: ['--top-p'],
      help: 'Keep the likeliest tokens that add up to this probability; 1 is off',
    },
  },
  /** Keep this many of the likeliest tokens; 0 is off. Default 40. */
  topK: {
    kind: 'integer', fallback: 40, min: -1, max: maxCount, fields: ['top_k'],
    flag: { names: ['--top-k'], help: 'Keep this many of the likeliest tokens; 0 is off', min: 0 },
  },
  /** Drop tokens below this share of the likeliest one's probability; 0 is off. Default 0.05. */
  minP: {
    kind: 'number', fallback: 0.05, min: 0, max: 1, fields: ['min_p'],
    flag: {
      names: ['--min-p'],
      help: 'Drop tokens below this share of the likeliest one\'s probability; 0 is off',
    },
  },
  /** Locally typical sampling; 1, the default, is off. */
  typicalP: { kind: 'number', fallback: 1, min: 0, max: 1, fields: ['typical_p'] },
  /** Keep tokens within so many standard deviations of the best; −1, the default, is off. */
  topNSigma: { kind: 'number', fallback: -1, min: -1, max: 100, fields: ['top_n_sigma'] },
  /** Penalty on tokens that came already; 1, the default, is off. */
  repeatPenalty: {
    kind: 'number', fallback: 1, min: 0.01, max: 100,
    fields: ['repeat_penalty', 'repetition_penalty'],
    flag: { names: ['--repeat-penalty'], help: 'Penalty on tokens that came already; 1 is off' },
  },
  /** Tokens the penalties look back at; −1 is the whole context. Default 64. */
  penaltyLastN: {
    kind: 'integer', fallback: 64, min: -1, max: maxCount,
    fields: ['repeat_last_n', 'penalty_last_n'],
  },
  /** Penalty for each time that a token came, −2 to 2. Default 0. */
  frequencyPenalty: { kind: 'number', fallback: 0, min: -2, max: 2, fields: ['frequency_penalty'] },
  /** Penalty on tokens that came at all, −2 to 2. Default 0. */
  presencePenalty: { kind: 'number', fallback: 0, min: -2, max: 2, fields: ['presence_penalty'] },
  /** DRY, against repeated phrases; 0, the default, is off. */
  dryMultiplier: { kind: 'number', fallback: 0, min: 0, max: 100, fields: ['dry_multiplier'] },
  /** Default 1.75. */
  dryBase: { kind: 'number', fallback: 1.75, min: 1, max: 100, fields: ['dry_base'] },
  /** Default 2. */
  dryAllowedLength: {
    kind: 'integer', fallback: 2, min: 0, max: maxCount,
    fields: ['dry_allowed_length'],
  },
  /** Default −1, the whole context. */
  dryPenaltyLastN: {
    kind: 'integer', fallback: -1, min: -1, max: maxCount,
    fields: ['dry_penalty_last_n'],
  },
  /** XTC, which drops the likeliest tokens at times; 0, the default, is off. */
  xtcProbability: { kind: 'number', fallback: 0, min: 0, max: 1, fields: ['xtc_probability'] },
  /** Default 0.1. */
  xtcThreshold: { kind: 'number', fallback: 0.1, min: 0, max: 1, fields: ['xtc_threshold'] },
  /** Default 5. */
  mirostatTau: { kind: 'number', fallback: 5, min: 0, max: 100, fields: ['mirostat_tau'] },
  /** Default 0.1. */
  mirostatEta: { kind: 'number', fallback: 0.1, min: 0, max: 1, fields: ['mirostat_eta'] },
  /**
   * How far the temperature moves to both sides, lower where the model is sure; 0, the default, is
   * off.
   */
  dynatempRange: { kind: 'number', fallback: 0, min: 0, max: 100, fields: ['dynatemp_range'] },
  /** How it depends on the distribution's entropy. Default 1. */
  dynatempExponent: {
    kind: 'number', fallback: 1, min: -100, max: 100,
    fields: ['dynatemp_exponent'],
  },
  /** Probability that the sampler `adaptive_p` aims at; −1, the default, is off. */
  adaptiveTarget: { kind: 'number', fallback: -1, min: -1, max: 1, fields: ['adaptive_target'] },
  /** How slowly it forgets, 0 to 0.99. Default 0.9. */
  adaptiveDecay: { kind: 'number', fallback: 0.9, min: 0, max: 0.99, fields: ['adaptive_decay'] },
  /** Tokens that each sampler leaves at least. Default 0. */
  minKeep: { kind: 'integer', fallback: 0, min: 0, max: maxCount, fields: ['min_keep'] },
  /**
   * Neither its own end nor a stop string ends the answer before so many tokens; the end of a
   * grammar does. Default 0.
   */
  minTokens: { kind: 'integer', fallback: 0, min: 0, max: maxCount, fields: ['min_tokens'] },
} as const satisfies Settings;
