// The native addon's types for sampling. Re-exported by addon.ts.

/** Options of a sampler; absent ones are off, so the caller decides every default. */
export interface SamplerOptions {
  /** 0: greedy. */
  temperature: number;
  /** For tests: always samples with llama.cpp's own chain. */
  chain?: boolean;
  topK?: number;
  topP?: number;
  minP?: number;
  typicalP?: number;
  topNSigma?: number;
  repeatPenalty?: number;
  frequencyPenalty?: number;
  presencePenalty?: number;
  /** Tokens of history the penalties look at; -1: the whole context. */
  penaltyLastN?: number;
  dryMultiplier?: number;
  dryBase?: number;
  dryAllowedLength?: number;
  dryPenaltyLastN?: number;
  xtcProbability?: number;
  xtcThreshold?: number;
  mirostat?: 0 | 1 | 2;
  mirostatTau?: number;
  mirostatEta?: number;
  /** 32-bit; absent: a random one. */
  seed?: number;
  /** Added to the tokens' logits; -Infinity bans. */
  logitBias?: { token: number; bias: number }[];
  /** GBNF source; the start rule is `root`. */
  grammar?: string;
  /** The grammar's source; those of tool calls and schemas skip the generation prompt. */
  grammarKind?: 'user' | 'schema' | 'tools';
  generationPrompt?: string;
  /** From a ChatPrompt: its constraint, instead of a grammar. */
  shape?: unknown;
  /** If the prompt opens a thinking block, a grammar that is not lazy waits for its end. */
  afterThoughts?: boolean;
  /** Most tokens of a thinking block; then it ends with this message. Needs `shape`. */
  thinkingBudget?: number;
  thinkingMessage?: string;
  /** `endThinking` may be called. */
  thinkingControl?: boolean;
  ignoreEos?: boolean;
  /** The answer does not end before this many tokens, unless a grammar leaves nothing else. */
  minTokens?: number;
  /** The samplers by llama.cpp's names, in this order; runs llama.cpp's own chain. */
  samplers?: string[];
  dynatempRange?: number;
  dynatempExponent?: number;
  adaptiveTarget?: number;
  adaptiveDecay?: number;
  minKeep?: number;
  drySequenceBreakers?: string[];
  /**
   * Notes each token's value and those of this many most likely tokens: log probabilities before
   * all samplers, or probabilities after them (`afterSampling`).
   */
  logprobs?: number;
  afterSampling?: boolean;
  /** Guesses tokens ahead from repetitions in history and answer, if the step allows it. */
  draft?: boolean;
  /** Guesses tokens ahead from this expected answer. */
  prediction?: Int32Array;
  /** The prompt that penalties and guesses look back at, if another process read it. */
  prompt?: Int32Array;
}

/** Holds the state of one sequence: penalty history, grammar position, random numbers. */
export interface NativeSampler {
  /** The seed in use. */
  readonly seed: number;
  /**
   * The token of a row that a step left undecided (-3), because its grammar needs more work than
   * the other rows should wait for. No step may use the sampler until it resolves. Rejects
   * `generation_failed` if the grammar needs too much work, or after close().
   */
  decide(): Promise<number>;
  /**
   * The notes since the last call: for each token its own value, then those of `logprobs` tokens,
   * whose ids are in `tokens` (-1: none). May be called while a step runs; returns at least the
   * notes of steps reported so far.
   */
  logprobs(): { tokens: Int32Array; values: Float32Array };
  /**
   * Thinking ends with the next token, or as soon as it begins. False if the sampler was made
   * without `thinkingControl`.
   */
  endThinking(): boolean;
  /**
   * Random numbers drawn for the tokens so far; -1 if llama.cpp's own chain draws them: its state
   * is unknown. Do not call it while a step has the sampler.
   */
  draws(): number;
  /**
   * Before its first step: continues after tokens that another sampler with the same options and
   * seed produced with `draws` random numbers. Rejects `invalid_argument` if llama.cpp's chain
   * draws.
   */
  resume(tokens: Int32Array, draws: number): Promise<void>;
  /** Memory of the compiled grammar, which equal grammars share; 0 without one. */
  readonly grammarBytes: number;
  close(): void;
}
