// Every setting of Recua and its default, in one frozen object. The floor of the house: imports nothing above it.
// Who fills it: cli/ from flags, and programs that embed the server.

export interface Config {
  /** Path, alias or `builtin`. */
  model: string;
  /** The name clients see; '' derives it from the file. */
  alias: string;
  host: string;
  port: number;
  /** Tokens one request can hold; 0 is the model's training size. */
  contextSize: number;
  /** Generated tokens per answer where the request sets no bound of its own. */
  maxTokens: number;
  temperature: number;
  /** Layers to offload; -1 is all, 'auto' as many as the GPUs' free memory holds. */
  gpuLayers: number | 'auto';
  /** GPUs to use, by name, with commas between; '' is all of them, 'none' the CPU alone. */
  device: string;
  /** Refuse to load a model where no GPU would compute. */
  requireGpu: boolean;
  /** Requests that run at once, each in a sequence of its own. */
  parallel: number;
  /** 0: one per physical core. */
  threads: number;
  /** 0: the same as `threads`. */
  threadsBatch: number;
  /** Most tokens in one step. */
  batchSize: number;
  /** Most tokens in one forward pass. */
  microBatchSize: number;
  /** How long a running answer, from its fifth token on, may wait for its next while a prompt is read, in milliseconds: prompts are read in parts of that length. */
  maxStallMs: number;
  flashAttention: 'auto' | 'on' | 'off';
  /** ggml type names of cached keys and values, e.g. 'f16', 'q8_0'. */
  cacheTypeK: string;
  cacheTypeV: string;
  /** MiB of memory for the KV of conversations that had to leave their sequence; 0 keeps none, -1 is an eighth of the machine's. */
  cacheRamMib: number;
  /** Guess tokens ahead from what the prompt and the answer repeat, and evaluate them together. */
  specType: 'none' | 'ngram-simple';
  /** Most tokens guessed ahead at a time. */
  specDraftMax: number;
  mmap: boolean;
  mlock: boolean;
  /** Placing of threads on a machine with several memory nodes. */
  numa: 'none' | 'distribute' | 'isolate' | 'numactl';
  /** Requests that may wait beyond those that run. */
  queueSize: number;
  /** Jinja source instead of the file's own template; '' keeps the file's. */
  chatTemplate: string;
  /** Pooling for embeddings; 'auto' takes the file's, and mean where it names none. */
  pooling: 'auto' | 'none' | 'mean' | 'cls' | 'last' | 'rank';
  /** Largest request body in bytes. */
  bodyLimitBytes: number;
  /** Memory for the bodies of all requests together, in bytes; 0 is a quarter of what V8 may use for objects. */
  bodyMemoryBytes: number;
  /** How long a stop waits for running answers. */
  drainMs: number;
  /** An empty chunk after so much silence on an event stream, so that clients and proxies keep it open; 0 is off. */
  pingIntervalMs: number;
  logLevel: 'debug' | 'info' | 'warn' | 'error' | 'silent';
}

export const defaults: Readonly<Config> = Object.freeze({
  model: '',
  alias: '',
  host: '127.0.0.1',
  port: 8080,
  contextSize: 4096,
  maxTokens: 2048,
  temperature: 0.7,
  gpuLayers: 0,
  device: '',
  requireGpu: false,
  parallel: 4,
  threads: 0,
  threadsBatch: 0,
  batchSize: 2048,
  microBatchSize: 512,
  maxStallMs: 250,
  flashAttention: 'auto',
  cacheTypeK: 'f16',
  cacheTypeV: 'f16',
  cacheRamMib: -1,
  specType: 'none',
  specDraftMax: 16,
  mmap: true,
  mlock: false,
  numa: 'none',
  queueSize: 512,
  chatTemplate: '',
  pooling: 'auto',
  bodyLimitBytes: 32 * 1024 * 1024,
  bodyMemoryBytes: 0,
  drainMs: 10_000,
  pingIntervalMs: 10_000,
  logLevel: 'info',
});

/** Whether a `device` setting is the CPU alone. */
export function isNoGpu(device: string): boolean {
  return /^(none|cpu)$/i.test(device.trim());
}

/** Sampling where a request or command names no value: "off" where a sampler can be off, else llama-server's values. */
export const samplingDefaults = Object.freeze({
  topK: 40,
  topP: 0.95,
  minP: 0.05,
  typicalP: 1,
  topNSigma: -1,
  repeatPenalty: 1,
  penaltyLastN: 64,
  frequencyPenalty: 0,
  presencePenalty: 0,
  dryMultiplier: 0,
  dryBase: 1.75,
  dryAllowedLength: 2,
  dryPenaltyLastN: -1,
  xtcProbability: 0,
  xtcThreshold: 0.1,
  mirostatTau: 5,
  mirostatEta: 0.1,
});

/** Defaults overlaid with what is given; undefined values do not count. */
export function makeConfig(given: Partial<Config>): Readonly<Config> {
  const set = Object.entries(given).filter(([, value]) => value !== undefined);
  return Object.freeze({ ...defaults, ...Object.fromEntries(set) });
}
