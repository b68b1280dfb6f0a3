// The native addon's types; the counterpart of native/addon.h. addon/load.ts finds and loads the
// addon, never in the gateway process. The addon does not validate numbers: callers must. Native
// code throws coded errors.
import type { AttendOptions } from './attend.js';
import type { Device, NativeBackend } from './device-types.js';
import type { MultiplyOptions } from './multiply.js';
import type { ProvingAddon } from './proving-types.js';
import type { NativeSampler, SamplerOptions } from './sampling-types.js';
import type { StepInput, StepResult } from './step-types.js';
import type { CancelFlag, ChatInput, ChatPrompt, NativeParser, PrepareInput, Unenforced } from './chat-types.js';

export { loadAddon } from './load.js';
export type * from './chat-types.js';
export type * from './device-types.js';
export type { NativeSampler, SamplerOptions, StepInput, StepResult };

export interface ModelOptions {
  path: string;
  /** Layers to offload; -1: all. */
  gpuLayers: number;
  /** Devices to use besides the CPU; absent: llama.cpp chooses; empty: none. */
  devices?: string[];
  mmap: boolean;
  mlock: boolean;
  /** Whether ggml may copy weights into layouts of its own. Default true. */
  repack?: boolean;
  /** For tests: read only the vocabulary. Tokenizing works, contexts do not. */
  vocabOnly?: boolean;
}

export interface NativeModelInfo {
  architecture: string;
  /** Quantization name, e.g. "Q8_0". */
  fileType: string;
  vocabSize: number;
  vocabType: number;
  contextTrain: number;
  embeddingSize: number;
  layers: number;
  parameters: number;
  sizeBytes: number;
  bosToken: number;
  eosToken: number;
  /** -1 if there is none; the same for all other tokens. */
  sepToken: number;
  /**
   * Marks of code infilling: prefix, suffix, middle (the gap); a repository's and a file's name.
   */
  fimPrefix: number;
  fimSuffix: number;
  fimMiddle: number;
  fimRepository: number;
  fimSeparator: number;
  addBos: boolean;
  addEos: boolean;
  addSep: boolean;
  /** Most bytes of text that can become one token; 0: no bound. */
  longestPiece: number;
  /** True if some tokens absorb any number of spaces around them. */
  takesSpaces: boolean;
  /** False for encoder-only models (BERT): they embed, but cannot generate. */
  hasDecoder: boolean;
  hasEncoder: boolean;
  /** True if a part of a sequence cannot be removed from the KV (Mamba, RWKV, hybrids). */
  recurrent: boolean;
  /** Sliding-window size in tokens; 0: full attention. */
  slidingWindow: number;
  /** The pooling the file asks for: 'none' | 'mean' | 'cls' | 'last' | 'rank' | 'unspecified'. */
  pooling: Pooling | 'unspecified';
  /** True if the file carries a chat template of its own. */
  hasChatTemplate: boolean;
}

export type Pooling = 'none' | 'mean' | 'cls' | 'last' | 'rank';

export interface ContextOptions {
  /** Tokens one sequence can hold. */
  contextSize: number;
  sequences: number;
  /** Most tokens in one step. */
  batchSize: number;
  /** Most tokens in one forward pass of the graph. */
  microBatchSize: number;
  threads: number;
  threadsBatch: number;
  /** GPUs compute all layers: the threads only sample. */
  onDevices?: boolean;
  flashAttention: 'auto' | 'on' | 'off';
  /** Absent: ggml. No effect if layers are on a GPU. */
  attention?: 'auto' | 'ggml';
  matmul?: 'auto' | 'ggml';
  /** ggml type names, e.g. 'f16', 'q8_0'. */
  cacheTypeK: string;
  cacheTypeV: string;
  /**
   * Steps take turns at the machine's cores with those of other processes that name the same file;
   * absent or '': no turns.
   */
  turnFile?: string;
  /**
   * Most tokens to guess ahead for a sequence; 0 or absent: none. No effect if a part of a sequence
   * cannot be removed.
   */
  draft?: number;
  /** The same, for samplers with a prediction only. */
  predict?: number;
  /** Most prompt rows in one step whose next token is known, besides one row of each sequence. */
  scores?: number;
  /** For tests: evaluates guesses even if that does not pay. */
  draftAlways?: boolean;
}

export interface EmbedderOptions {
  /** Longest input in tokens. */
  contextSize: number;
  /** Most inputs in one forward pass. */
  sequences: number;
  threads: number;
  pooling: Pooling | 'unspecified';
  /** As for a context. */
  matmul?: 'auto' | 'ggml';
  /** As for a context. */
  turnFile?: string;
}

/**
 * KV memory of several sequences, and the thread that computes. Calls run in the order they are
 * made. After close(), promises reject with `closed`.
 */
export interface NativeContext {
  readonly contextSize: number;
  readonly sequences: number;
  readonly batchSize: number;
  /**
   * Runs up to `most` steps. If each row of a step wanted a token, the next step evaluates the
   * sampled tokens, without waiting for JavaScript. `each` gets the results, at most every few
   * milliseconds; the promise resolves to the results that `each` did not get, at least the last
   * step's. The run ends after a step in which a token ends a generation or a sampler fails, and
   * after the step in flight at pause(). If a step fails, `each` first gets the results of all
   * steps before it. Rejects `generation_failed` (with `details`); then the KV of the rows'
   * sequences is undefined, and the caller must remove them.
   */
  steps(input: StepInput, most: number, each: (results: StepResult[]) => void): Promise<StepResult[]>;
  pause(): void;
  /**
   * Copies positions [0, length) of one sequence to another, which must be empty. Resolves false if
   * this memory does not support that.
   */
  copySequence(from: number, to: number, length: number): Promise<boolean>;
  /**
   * Removes positions [from, to) of a sequence; to = -1: to the end. Resolves false if only whole
   * sequences can be removed.
   */
  removeSequence(sequence: number, from: number, to: number): Promise<boolean>;
  /**
   * Copies a sequence's KV into a stash, which lives as long as the context. `id` is 0 if its
   * `sizeBytes` are 0, or more than `mostBytes`.
   */
  stashSequence(sequence: number, mostBytes?: number): Promise<{ id: number; sizeBytes: number }>;
  /**
   * Gives a sequence the first `length` tokens of a stash, which stays. Resolves false if the stash
   * is unknown or cannot be truncated.
   */
  unstashSequence(id: number, sequence: number, length: number): Promise<boolean>;
  /**
   * Copies the part of a sequence's KV that cannot be truncated (sliding windows, recurrent states)
   * into a stash, which only `rollBackSequence` accepts. `id` is 0 if there was nothing to copy, or
   * more than `mostBytes`.
   */
  checkpointSequence(sequence: number, mostBytes?: number): Promise<{ id: number; sizeBytes: number }>;
  /**
   * Truncates a sequence that continued from a checkpoint, or holds the stash of such a sequence,
   * to the `length` tokens it had then. Resolves false if that fails; the sequence is then
   * undefined.
   */
  rollBackSequence(checkpoint: number, sequence: number, length: number): Promise<boolean>;
  dropStash(id: number): Promise<boolean>;
  /** Creates a stash of this size, to fill with `writeStash`; 0 if there is no memory for it. */
  createStash(sizeBytes: number): number;
  /**
   * Copy a stash's bytes, from `offset` on, into an array or back. Synchronous; may be called while
   * steps run. Throw `invalid_argument` beyond its end. Write only bytes that llama.cpp produced:
   * it trusts the counts inside.
   */
  readStash(id: number, offset: number, into: Uint8Array): void;
  writeStash(id: number, offset: number, from: Uint8Array): void;
  /**
   * Stops a running step as soon as the backend can (CPU: within a graph node). The step then
   * rejects `cancelled`.
   */
  abort(): void;
  /**
   * What the last copySequence(), stashSequence() or unstashSequence() took, in milliseconds,
   * without its wait for the compute thread.
   */
  copyMs(): number;
  /** How often the backend has polled for an abort; grows while it computes. */
  polls(): number;
  /** Waits for the step in flight. Idempotent. */
  close(): Promise<void>;
}

export interface NativeEmbedder {
  /**
   * Pooled vectors of many inputs. `tokens`: all inputs, concatenated; `lengths`: the length of
   * each. Resolves to inputs × embeddingSize floats, each vector of unit length; with pooling
   * 'rank' to each input's scores, one per label of the model's head.
   */
  embed(tokens: Int32Array, lengths: Int32Array): Promise<Float32Array>;
  /** As for a context. */
  polls(): number;
  close(): Promise<void>;
}

/** All tokens' bytes, so that text work needs no native call per token. */
export interface Pieces {
  bytes: Uint8Array;
  /**
   * vocabSize + 1 entries: piece i is bytes[offsets[i] … offsets[i+1]). Control tokens are empty
   * unless `special`.
   */
  offsets: Uint32Array;
  /** Per token, or-ed: 1: ends a generation, 2: control token. */
  flags: Uint8Array;
}

export interface TokenizeOptions {
  /** Byte offsets of the text at which no control token begins. */
  literal?: Int32Array;
  /** Uses the tokens of a remembered chat for the beginning, as for a prompt. */
  known?: boolean;
  cancelled?: CancelFlag;
}

export interface NativeModel {
  readonly info: NativeModelInfo;
  /** The file's metadata, scalars as text. */
  metadata(): Record<string, string>;
  /** The chat template's source, '' if none. */
  chatTemplate(): string;
  /** Whether the file has the tensors by which a reranker scores; of a split model, always true. */
  hasRankHead(): boolean;
  /** Rejects `cancelled` if the flag is set before it is done. */
  tokenize(text: string, addSpecial: boolean, parseSpecial: boolean, options?: TokenizeOptions): Promise<Int32Array>;
  /** The bytes of tokens in order; control tokens only if `special`. */
  detokenize(tokens: Int32Array, special: boolean): Promise<Uint8Array>;
  piece(token: number, special: boolean): Uint8Array;
  pieces(special: boolean): Promise<Pieces>;
  createContext(options: ContextOptions): Promise<NativeContext>;
  /**
   * Rejects `embeddings_unsupported`, or `rerank_unsupported` with pooling 'rank' if the model has
   * no classification head.
   */
  createEmbedder(options: EmbedderOptions): Promise<NativeEmbedder>;
  /**
   * Compiles the grammar off-thread. `history`: prompt tokens for the penalties. Rejects
   * `invalid_grammar`, or `chat_unsupported` if the answer does not begin as the grammar does.
   */
  createSampler(options: SamplerOptions, history: Int32Array): Promise<NativeSampler>;
  /**
   * Rejects `invalid_messages`, `invalid_schema` (with `index` if it is a tool's), `invalid_value`
   * or `chat_unsupported`.
   */
  applyChatTemplate(input: ChatInput): Promise<ChatPrompt>;
  /**
   * Messages → prompt → tokens → sampler and parser, in one task on the pool. Rejects like
   * `applyChatTemplate` and `createSampler`, and `cancelled` if the flag is set before it is done.
   * The sampler's grammar is the input's, or that of its schema or tools.
   */
  prepareChat(input: PrepareInput, sampling: SamplerOptions): Promise<PreparedChat>;
  /**
   * Keeps the tokens of a chat, prompt and answer. If the text of a later prompt of `prepareChat`
   * begins with theirs, the prompt takes these tokens. Bounded; drops the least recently used
   * first.
   */
  remember(tokens: Int32Array): void;
  /** Whether a remembered chat begins with these tokens. */
  remembers(tokens: Int32Array): boolean;
  /** Forgets all remembered chats. */
  forget(): void;
  /**
   * Throws `invalid_argument` if a parser of the prompt was closed, `invalid_messages` if the last
   * message cannot be continued.
   */
  createParser(prompt: ChatPrompt, parseToolCalls: boolean): NativeParser;
  /**
   * For tests: the grammars cached for later requests. `bytes` replaces the cache's limit of 256
   * MiB, which is applied when the next grammar is requested.
   */
  limitGrammars(bytes?: number): { count: number; bytes: number };
  /** Closes contexts, embedders and samplers of this model first, then the model. Idempotent. */
  close(): Promise<void>;
}

/** Result of `prepareChat`. */
export interface PreparedChat {
  /** Keywords of the schema and the tools' parameters that the grammar does not enforce. */
  unenforced: Unenforced[];
  /**
   * Tokens of the prompt; a lower bound if `atLeast`: a prompt that cannot fit is not tokenized.
   */
  count: number;
  atLeast: boolean;
  /**
   * Absent if the request is refused: a strict schema cannot be fully enforced, or the prompt is
   * empty or does not fit.
   */
  made?: {
    tokens: Int32Array;
    sampler: NativeSampler;
    parser: NativeParser;
    /** Strings that end the answer, besides the request's own. */
    stops: string[];
    /** Whether the format marks thinking. */
    thinks: boolean;
    /** Whether a grammar constrains tool calls. */
    enforcesCalls: boolean;
    /** Whether the template shows tools to the model. */
    showsTools: boolean;
    /** Control tokens whose text the parser needs in the answer. */
    preservedIds: Int32Array;
  };
}

/** A running load. */
export interface ModelLoad {
  /** Rejects `model_unusable`, or `cancelled` after cancel(). */
  promise: Promise<NativeModel>;
  /** The loaded fraction, 0 to 1. */
  progress(): number;
  cancel(): void;
}

export interface NativeAddon extends ProvingAddon {
  /**
   * llama.cpp's version text, the ggml backends registered so far, and the best number of threads
   * for arithmetic according to llama.cpp: one per physical (performance) core.
   */
  readonly version: { llamaCpp: string; backends: string[]; mathThreads: number };
  /**
   * Registers the backends whose libraries are in a folder; among the CPU variants, the one that
   * suits this machine best. Returns the names of new ones. Throws `backend_unusable` if there is
   * no CPU backend in the end; `backends()` lists others that failed. A library may crash the
   * process here. `refused`: paths of variants not to use, with the reasons.
   */
  loadBackends(folder: string, cpuOnly?: boolean, refused?: Readonly<Record<string, string>>): string[];
  /**
   * Registers the backend in one library, given by its absolute path. Throws `backend_unusable`.
   * Returns [] if it was registered already.
   */
  loadBackend(file: string): string[];
  backends(): NativeBackend[];
  devices(): Device[];
  /**
   * Sets how the process places its threads on a machine with several memory nodes: over all of
   * them, on the node where it runs, or as set with numactl. True if there are several. Call it
   * before weights are loaded; throws `invalid_argument` if another strategy was set before.
   */
  setNuma(strategy: 'distribute' | 'isolate' | 'numactl'): boolean;
  /**
   * Receives native log lines of the whole process: level 'debug' | 'info' | 'warn' | 'error'. One
   * function per JavaScript thread; null: none. Nothing goes to stdout; llama.cpp itself prints
   * some errors to stderr.
   */
  setLog(sink: ((level: string, text: string) => void) | null): void;
  /**
   * Ends all computing in this process, for its 'exit' event: native libraries such as CUDA's
   * destroy at exit what a step in flight still uses.
   */
  halt(): void;
  /** Throws `device_not_found`, or `backend_unusable` if no CPU backend is loaded. */
  loadModel(options: ModelOptions): ModelLoad;
  /** How often this process took a turn, had to wait for one, and skipped a stopped process. */
  turns(): { taken: number; waited: number; skipped: number };
  /**
   * For tests: bytes that malloc has allocated in this process, and free bytes of its heaps;
   * undefined if the C library does not report them (glibc before 2.33, others).
   */
  heap(): { usedBytes: number; freeBytes: number } | undefined;
  /**
   * Recua's attention kernels that this processor can run, the fastest first; the fastest that is
   * not refused, or ''; and how many graph nodes they have computed so far.
   */
  attention(): { kernels: string[]; best: string; taken: number };
  /** The same for products of quantized weights. `types`: of the weights. */
  matmul(): { kernels: string[]; best: string; types: string[]; taken: number };
  /** For tests and measurements: computes one product with one kernel, or with ggml. Blocks. */
  multiply(options: MultiplyOptions): { out: Float32Array; taken: boolean; ms: number };
  /** For tests and measurements: computes one attention with one kernel, or with ggml. Blocks. */
  attend(options: AttendOptions): { out: Float32Array; taken: boolean; ms: number };
  /** A JSON schema's grammar, and the keywords it does not enforce. Rejects `invalid_schema`. */
  compileSchema(schema: string): Promise<{ grammar: string; unenforced: Unenforced[] }>;
}
