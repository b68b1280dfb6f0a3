// How an answer is made: the settings that a request may give, through `recua run` and `chat`, the
// library or HTTP. Most defaults are llama-server's.
import { maxCount, type Settings } from './kinds.js';

/** The server or the program can set its own default for these. */
export const answerSettings = {
  /** Maximum tokens to generate. Default 2048. */
  maxTokens: {
    kind: 'integer', fallback: 2048, min: 1, max: maxCount,
    flag: { names: ['--max-tokens', '-n'], help: 'Generate at most this many tokens per answer' },
  },
  /** Sampling temperature; 0 always takes the likeliest token. Default 0.7. */
  temperature: {
    // OpenAI's limit is 2; users of min_p and XTC go higher.
    kind: 'number', fallback: 0.7, min: 0, max: 100, fields: ['temperature'],
    flag: {
      names: ['--temp', '--temperature'],
      help: 'Sample at this temperature; 0 always takes the likeliest token',
    },
  },
} as const satisfies Settings;

/** The numeric settings of the samplers. */
export const samplerSettings = {
  /** Keep the likeliest tokens whose probabilities add up to this; 1 is off. Default 0.95. */
  topP: {
    kind: 'number', fallback: 0.95, min: 0, max: 1, fields: ['top_p'],
    flag: {
      names: ['--top-p'],
      help: 'Keep the likeliest tokens whose probabilities add up to this; 1 means off',
    },
  },
  /** Keep this many of the likeliest tokens; 0 is off. Default 40. */
  topK: {
    kind: 'integer', fallback: 40, min: -1, max: maxCount, fields: ['top_k'],
    flag: {
      names: ['--top-k'], help: 'Keep this many of the likeliest tokens; 0 means off', min: 0,
    },
  },
  /**
   * Drop tokens less likely than this fraction of the likeliest token's probability; 0 is off.
   * Default 0.05.
   */
  minP: {
    kind: 'number', fallback: 0.05, min: 0, max: 1, fields: ['min_p'],
    flag: {
      names: ['--min-p'],
      help: 'Drop tokens below this fraction of the likeliest token\'s probability; 0 means off',
    },
  },
  /** Locally typical sampling. Default 1: off. */
  typicalP: { kind: 'number', fallback: 1, min: 0, max: 1, fields: ['typical_p'] },
  /**
   * Keep tokens within this many standard deviations of the best logit; 0 and −1 are off. Default
   * −1.
   */
  topNSigma: { kind: 'number', fallback: -1, min: -1, max: 100, fields: ['top_n_sigma'] },
  /** Penalty on tokens that already occurred. Default 1: off. */
  repeatPenalty: {
    kind: 'number', fallback: 1, min: 0.01, max: 100,
    fields: ['repeat_penalty', 'repetition_penalty'],
    flag: {
      names: ['--repeat-penalty'], help: 'Penalize tokens that already occurred; 1 means off',
    },
  },
  /** How many tokens back the penalties look; −1 means the whole context. Default 64. */
  penaltyLastN: {
    kind: 'integer', fallback: 64, min: -1, max: maxCount,
    fields: ['repeat_last_n', 'penalty_last_n'],
  },
  /** Penalty for each occurrence of a token, −2 to 2. Default 0. */
  frequencyPenalty: { kind: 'number', fallback: 0, min: -2, max: 2, fields: ['frequency_penalty'] },
  /** Penalty on every token that occurred at least once, −2 to 2. Default 0. */
  presencePenalty: { kind: 'number', fallback: 0, min: -2, max: 2, fields: ['presence_penalty'] },
  /** Strength of DRY, which penalizes repeated phrases. Default 0: off. */
  dryMultiplier: { kind: 'number', fallback: 0, min: 0, max: 100, fields: ['dry_multiplier'] },
  /** Base of DRY's penalty, which grows with the length of the repetition. Default 1.75. */
  dryBase: { kind: 'number', fallback: 1.75, min: 1, max: 100, fields: ['dry_base'] },
  /** Tokens that DRY lets repeat without penalty. Default 2. */
  dryAllowedLength: {
    kind: 'integer', fallback: 2, min: 0, max: maxCount,
    fields: ['dry_allowed_length'],
  },
  /** How many tokens back DRY looks. Default −1: the whole context. */
  dryPenaltyLastN: {
    kind: 'integer', fallback: -1, min: -1, max: maxCount,
    fields: ['dry_penalty_last_n'],
  },
  /** Probability that XTC drops the likeliest tokens. Default 0: off. */
  xtcProbability: { kind: 'number', fallback: 0, min: 0, max: 1, fields: ['xtc_probability'] },
  /** Probability above which a token counts for XTC; above 0.5, XTC is off. Default 0.1. */
  xtcThreshold: { kind: 'number', fallback: 0.1, min: 0, max: 1, fields: ['xtc_threshold'] },
  /** The entropy that Mirostat aims at. Default 5. */
  mirostatTau: { kind: 'number', fallback: 5, min: 0, max: 100, fields: ['mirostat_tau'] },
  /** Learning rate of Mirostat. Default 0.1. */
  mirostatEta: { kind: 'number', fallback: 0.1, min: 0, max: 1, fields: ['mirostat_eta'] },
  /**
   * How far the temperature may move up and down; it is lower where the model is certain. Default
   * 0: off.
   */
  dynatempRange: { kind: 'number', fallback: 0, min: 0, max: 100, fields: ['dynatemp_range'] },
  /** How the dynamic temperature follows the distribution's entropy. Default 1. */
  dynatempExponent: {
    kind: 'number', fallback: 1, min: -100, max: 100,
    fields: ['dynatemp_exponent'],
  },
  /**
   * Probability that the sampler `adaptive_p` aims at, which runs only if `samplers` names it.
   * Default −1: off.
   */
  adaptiveTarget: { kind: 'number', fallback: -1, min: -1, max: 1, fields: ['adaptive_target'] },
  /** How slowly `adaptive_p` forgets, 0 to 0.99. Default 0.9. */
  adaptiveDecay: { kind: 'number', fallback: 0.9, min: 0, max: 0.99, fields: ['adaptive_decay'] },
  /** Minimum number of tokens that typical, top-p, min-p and XTC sampling each keep. Default 0. */
  minKeep: { kind: 'integer', fallback: 0, min: 0, max: maxCount, fields: ['min_keep'] },
  /**
   * Before this many tokens, neither an end-of-text token nor a stop string ends the answer; the
   * end of a grammar still does. Default 0.
   */
  minTokens: { kind: 'integer', fallback: 0, min: 0, max: maxCount, fields: ['min_tokens'] },
} as const satisfies Settings;
