// The native addon's types for sampling. A part of addon.ts, which gives them to all others.

/** Options of a sampler; absent ones are off, so the caller decides every default. */
export interface SamplerOptions {
  /** 0 is greedy. */
  temperature: number;
  /** Samples with llama.cpp's own chain whatever the options; tests compare the two. */
  chain?: boolean;
  topK?: number;
  topP?: number;
  minP?: number;
  typicalP?: number;
  topNSigma?: number;
  repeatPenalty?: number;
  frequencyPenalty?: number;
  presencePenalty?: number;
  /** Tokens of history the penalties look at; -1 is the whole context. */
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
  /** 32-bit; absent draws a random one. */
  seed?: number;
  /** Token ids and what to add to their logits; -Infinity bans. */
  logitBias?: { token: number; bias: number }[];
  /** GBNF source; the start rule is `root`. */
  grammar?: string;
  /** What the grammar stems from; tool calls and schemas skip the generation prompt. */
  grammarKind?: 'user' | 'schema' | 'tools';
  generationPrompt?: string;
  /** Of a ChatPrompt: its constraint, in place of a grammar. */
  shape?: unknown;
  /** A grammar that is not lazy waits until a thinking block has ended that the prompt begins. */
  afterThoughts?: boolean;
  /** Tokens that a thinking block may have; then it ends with this message. Needs `shape`. */
  thinkingBudget?: number;
  thinkingMessage?: string;
  /** `endThinking` may be called. */
  thinkingControl?: boolean;
  ignoreEos?: boolean;
  /** No end before so many tokens, unless a grammar leaves nothing else. */
  minTokens?: number;
  /** llama.cpp's names of the samplers in their order, drawn with its own chain. */
  samplers?: string[];
  dynatempRange?: number;
  dynatempExponent?: number;
  adaptiveTarget?: number;
  adaptiveDecay?: number;
  minKeep?: number;
  drySequenceBreakers?: string[];
  /**
   * Notes of each token how likely it was, and so many of the likeliest: log probabilities before
   * all samplers, or probabilities after them.
   */
  logprobs?: number;
  afterSampling?: boolean;
  /**
   * Guesses what comes next from what the history and the answer repeat, where a step allows it.
   */
  draft?: boolean;
  /** The same from what the answer is said to be like. */
  prediction?: Int32Array;
}

/** A sampler holds state of one sequence: penalties' history, grammar position, random numbers. */
export interface NativeSampler {
  /** The seed in use. */
  readonly seed: number;
  /**
   * The token of a row that a step left undecided (-3), for which its grammar needs more work than
   * other rows should wait for. Until it resolves no step may have the sampler. Rejects
   * `generation_failed` where the grammar needs too much, or close() came first.
   */
  decide(): Promise<number>;
  /**
   * What was noted since the last call: of each token its own value and those of `logprobs` tokens,
   * which are in `tokens` (-1 is none). It may be asked while a step runs, and has at least what
   * steps have given by then.
   */
  logprobs(): { tokens: Int32Array; values: Float32Array };
  /**
   * Thinking ends with the next token; where it has not begun, as soon as it does. False where the
   * sampler was not made for it.
   */
  endThinking(): boolean;
  /**
   * Random numbers drawn so far; -1 where llama.cpp's own chain draws, whose state cannot be told.
   * Not to be asked while a step has the sampler.
   */
  draws(): number;
  /**
   * Before its first step: goes on behind tokens that another sampler of the same options and seed
   * gave, having drawn so often. Rejects `invalid_argument` where llama.cpp's chain draws.
   */
  resume(tokens: Int32Array, draws: number): Promise<void>;
  close(): void;
}
