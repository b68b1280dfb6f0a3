// The native addon's types; the twin of native/addon.h. addon/load.ts finds and loads it, in the
// engine process and its like only. Nothing here validates: callers pass checked numbers, native
// code trusts them and throws coded errors.
import type { AttendOptions } from './attend.js';
import type { ProvingAddon } from './proving-types.js';
import type { NativeSampler, SamplerOptions } from './sampling-types.js';
import type { StepInput, StepResult } from './step-types.js';
import type { CancelFlag, ChatInput, ChatPrompt, NativeParser, PrepareInput, Unenforced } from './chat-types.js';

export { loadAddon } from './load.js';
export type * from './chat-types.js';
export type { NativeSampler, SamplerOptions, StepInput, StepResult };

/** A device ggml can compute on. Memory in bytes (0 where the backend does not tell). */
export interface Device {
  /** As `--device` names it: CPU, CUDA0, Vulkan0. */
  name: string;
  description: string;
  kind: 'cpu' | 'gpu' | 'igpu' | 'accelerator';
  backend: string;
  /** The PCI address, where there is one: two backends may have the same device. */
  id: string;
  memoryFreeBytes: number;
  memoryTotalBytes: number;
}

/**
 * A registered backend; or a library that `loadBackends` found and could not use, which has a
 * reason and no name.
 */
export interface NativeBackend {
  name: string;
  /** '' where it is compiled in. */
  file: string;
  /** What it can make use of, e.g. AVX2: '1'. */
  features: Record<string, string>;
  reason: string;
}

export interface ModelOptions {
  path: string;
  /** Layers to offload; -1 is all. */
  gpuLayers: number;
  /**
   * Names of the devices that may be used beside the CPU; absent leaves the choice to llama.cpp, an
   * empty list is none.
   */
  devices?: string[];
  mmap: boolean;
  mlock: boolean;
  /** Read the vocabulary only, as tests do: tokenizing works, contexts do not. */
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
  /** -1 where there is none, as of all the others. */
  sepToken: number;
  /** What marks a gap in code: its prefix, its suffix, itself; a repository's and a file's name. */
  fimPrefix: number;
  fimSuffix: number;
  fimMiddle: number;
  fimRepository: number;
  fimSeparator: number;
  addBos: boolean;
  addEos: boolean;
  addSep: boolean;
  /** The most bytes of text that can become one token; 0 where there is no bound. */
  longestPiece: number;
  /** True if there are tokens that take any number of spaces around them with them. */
  takesSpaces: boolean;
  /** False for encoder-only models (BERT): they embed, but cannot generate. */
  hasDecoder: boolean;
  hasEncoder: boolean;
  /** True where KV of a part of a sequence can not be removed (Mamba, RWKV, hybrids). */
  recurrent: boolean;
  /** Sliding-window size in tokens, 0 where attention is full. */
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
  flashAttention: 'auto' | 'on' | 'off';
  /** Absent: ggml. Without effect where layers are on a GPU. */
  attention?: 'auto' | 'ggml';
  /** ggml type names, e.g. 'f16', 'q8_0'. */
  cacheTypeK: string;
  cacheTypeV: string;
  /**
   * Steps take turns at the machine's cores with those of other processes that name the same file;
   * absent or '': they do not.
   */
  turnFile?: string;
  /**
   * Most tokens that are guessed ahead for a sequence; 0 or absent is none. Without effect where a
   * part of a sequence cannot be removed.
   */
  draft?: number;
  /** The same for samplers with a prediction alone. */
  predict?: number;
  /** Most rows of prompts in one step whose next token is known, beside a row of each sequence. */
  scores?: number;
  /** Evaluates them whether that pays or not; tests do. */
  draftAlways?: boolean;
}

export interface EmbedderOptions {
  /** Longest input in tokens. */
  contextSize: number;
  /** Most inputs in one forward pass. */
  sequences: number;
  threads: number;
  pooling: Pooling | 'unspecified';
  /** As of a context. */
  turnFile?: string;
}

/**
 * KV memory of several sequences and the thread that computes. Calls run in the order made.
 * Promises reject with `closed` after close().
 */
export interface NativeContext {
  readonly contextSize: number;
  readonly sequences: number;
  readonly batchSize: number;
  /**
   * Up to `most` steps one after the other: where each row wanted a token, the sampled ones are
   * evaluated next, without waiting for JS. `each` is told what came of them, not more often than
   * every few milliseconds; the promise resolves to what it was not told, the last step at least.
   * The last is that of a token that ends a generation, of a failed sampler, or the next to be
   * completed after pause(). Where a step fails, `each` is told of all before it. Rejects
   * `generation_failed` (with `details`), after which the KV of the rows' sequences is undefined:
   * remove them.
   */
  steps(input: StepInput, most: number, each: (results: StepResult[]) => void): Promise<StepResult[]>;
  pause(): void;
  /**
   * Copies positions [0, length) of one sequence to another, which must be empty. Resolves false
   * where this memory can't.
   */
  copySequence(from: number, to: number, length: number): Promise<boolean>;
  /**
   * Removes positions [from, to) of a sequence; to = -1 is the end. Resolves false where only whole
   * sequences can go.
   */
  removeSequence(sequence: number, from: number, to: number): Promise<boolean>;
  /**
   * Copies a sequence's KV into memory of its own, for as long as the context lives. `id` is 0
   * where there was nothing to copy.
   */
  stashSequence(sequence: number): Promise<{ id: number; sizeBytes: number }>;
  /**
   * Gives a sequence the first `length` tokens of a stash, which stays. Resolves false if it is
   * unknown or can't be cut.
   */
  unstashSequence(id: number, sequence: number, length: number): Promise<boolean>;
  /**
   * Copies of a sequence's KV what cannot be cut at its end (sliding windows, recurrent states), as
   * a stash that only `rollBackSequence` takes. `id` is 0 where there was nothing to copy.
   */
  checkpointSequence(sequence: number): Promise<{ id: number; sizeBytes: number }>;
  /**
   * Cuts a sequence that went on from a checkpoint, or holds a stash of one that did, to the
   * `length` tokens it had then. Resolves false, and the sequence is undefined, where it can't.
   */
  rollBackSequence(checkpoint: number, sequence: number, length: number): Promise<boolean>;
  dropStash(id: number): Promise<boolean>;
  /**
   * Makes a stash of so many bytes, to be filled by `writeStash`; 0 where there is no memory for
   * it.
   */
  createStash(sizeBytes: number): number;
  /**
   * Copies bytes of a stash, from `offset` on, into an array and back, at once and while steps run.
   * Throws `invalid_argument` beyond its end. What is written must be what llama.cpp has given: it
   * trusts the counts inside.
   */
  readStash(id: number, offset: number, into: Uint8Array): void;
  writeStash(id: number, offset: number, from: Uint8Array): void;
  /**
   * Stops a running step as soon as the backend can (CPU: within a graph node), which then rejects
   * `cancelled`.
   */
  abort(): void;
  /**
   * How often the backend has asked whether to go on since the context was made: it grows while
   * something is computed.
   */
  polls(): number;
  /** Waits for the step in flight. Idempotent. */
  close(): Promise<void>;
}

export interface NativeEmbedder {
  /**
   * Pooled vectors of many inputs; `tokens` holds all inputs one after the other, `lengths` each
   * one's count. Resolves to inputs × embeddingSize floats, unit length; with pooling 'rank' to the
   * scores of each input, one for each label of the model's head.
   */
  embed(tokens: Int32Array, lengths: Int32Array): Promise<Float32Array>;
  /** As of a context. */
  polls(): number;
  close(): Promise<void>;
}

/** Every token's bytes at once, so that text work needs no native call per token. */
export interface Pieces {
  bytes: Uint8Array;
  /**
   * vocabSize + 1 entries: piece i is bytes[offsets[i] … offsets[i+1]). Control tokens are empty
   * unless asked.
   */
  offsets: Uint32Array;
  /** Per token: 1 ends a generation, 2 control token; or-ed. */
  flags: Uint8Array;
}

export interface TokenizeOptions {
  /** Bytes of the text at which no control token begins. */
  literal?: Int32Array;
  /** The beginning takes the tokens of a remembered chat, as a prompt's does. */
  known?: boolean;
  cancelled?: CancelFlag;
}

export interface NativeModel {
  readonly info: NativeModelInfo;
  /** The file's metadata, scalars as text. */
  metadata(): Record<string, string>;
  /** The chat template's source, '' if none. */
  chatTemplate(): string;
  /** Rejects `cancelled` where that is wanted before it is done. */
  tokenize(text: string, addSpecial: boolean, parseSpecial: boolean, options?: TokenizeOptions): Promise<Int32Array>;
  /** The bytes of tokens in order; control tokens only if `special`. */
  detokenize(tokens: Int32Array, special: boolean): Promise<Uint8Array>;
  piece(token: number, special: boolean): Uint8Array;
  pieces(special: boolean): Promise<Pieces>;
  createContext(options: ContextOptions): Promise<NativeContext>;
  /**
   * Rejects `embeddings_unsupported`, or `rerank_unsupported` with pooling 'rank' where the model
   * has no classification head.
   */
  createEmbedder(options: EmbedderOptions): Promise<NativeEmbedder>;
  /**
   * Compiles the grammar off-thread. `history`: prompt tokens the penalties shall know. Rejects
   * `invalid_grammar`.
   */
  createSampler(options: SamplerOptions, history: Int32Array): Promise<NativeSampler>;
  /**
   * Rejects `invalid_messages`, `invalid_schema` (with the tool's `index`, if it is a tool's),
   * `invalid_value` or `chat_unsupported`.
   */
  applyChatTemplate(input: ChatInput): Promise<ChatPrompt>;
  /**
   * Messages → prompt → tokens → sampler and parser, in one task on the pool. Rejects as
   * `applyChatTemplate` and `createSampler` do, and `cancelled` where that is wanted before it is
   * done. The sampler's grammar is the input's, or the one of its schema or tools.
   */
  prepareChat(input: PrepareInput, sampling: SamplerOptions): Promise<PreparedChat>;
  /**
   * Keeps the tokens of a chat, prompt and answer: a prompt of `prepareChat` whose text begins as
   * theirs takes them. Bounded; the one used longest ago is forgotten first.
   */
  remember(tokens: Int32Array): void;
  /** Whether a remembered chat begins so. */
  remembers(tokens: Int32Array): boolean;
  /** All remembered chats. */
  forget(): void;
  /** Throws `invalid_argument` where a parser of the prompt was closed. */
  createParser(prompt: ChatPrompt, parseToolCalls: boolean): NativeParser;
  /**
   * What is kept of grammars for later requests, and if given, a bound of its bytes in place of 256
   * MiB. Grammars are dropped when one is asked for. Tests do.
   */
  limitGrammars(bytes?: number): { count: number; bytes: number };
  /** Closes contexts, embedders and samplers of this model first, then the model. Idempotent. */
  close(): Promise<void>;
}

/** What `prepareChat` gives. */
export interface PreparedChat {
  /** What the grammar leaves out of the schema and of the tools' parameters. */
  unenforced: Unenforced[];
  /** Tokens of the prompt: at least so many, where it was not read because it cannot fit. */
  count: number;
  atLeast: boolean;
  /**
   * Absent where the request is refused: a strict schema is not wholly enforced, or the prompt is
   * empty or does not fit.
   */
  made?: {
    tokens: Int32Array;
    sampler: NativeSampler;
    parser: NativeParser;
    /** Strings that end the answer beside the request's own. */
    stops: string[];
    /** Whether the format has marks around thoughts. */
    thinks: boolean;
    /** Whether a grammar holds calls of tools. */
    enforcesCalls: boolean;
    /** Control tokens whose text the parser wants to see in the answer. */
    preservedIds: Int32Array;
  };
}

/** A load under way. */
export interface ModelLoad {
  /** Rejects `model_unusable`, or `cancelled` after cancel(). */
  promise: Promise<NativeModel>;
  /** The part that is loaded, 0 to 1. */
  progress(): number;
  cancel(): void;
}

export interface NativeAddon extends ProvingAddon {
  /**
   * llama.cpp's version text, the ggml backends there are by now, and the threads it thinks best
   * for arithmetic: one per physical (performance) core.
   */
  readonly version: { llamaCpp: string; backends: string[]; mathThreads: number };
  /**
   * Registers the backends whose libraries lie in a folder, of the CPU's variants the one that
   * suits this machine best. Returns the names of those that are new. Throws `backend_unusable`
   * where no CPU backend is there in the end; another that fails is told by `backends()`. A library
   * that ends the process does so here. `refused`: paths of variants that are not to be used, each
   * with its reason.
   */
  loadBackends(folder: string, cpuOnly?: boolean, refused?: Readonly<Record<string, string>>): string[];
  /**
   * Registers the backend of one library, given by its absolute path. Throws `backend_unusable`.
   * Returns [] if it was there already.
   */
  loadBackend(file: string): string[];
  backends(): NativeBackend[];
  devices(): Device[];
  /**
   * How the process places its threads on a machine with several memory nodes: over all of them, on
   * the one where it runs, or as numactl told. True if there are several. To be called before
   * weights are loaded; throws `invalid_argument` where another strategy was chosen before.
   */
  setNuma(strategy: 'distribute' | 'isolate' | 'numactl'): boolean;
  /**
   * Native log lines of the whole process: level 'debug' | 'info' | 'warn' | 'error'; one function
   * per thread of JavaScript, null for none. Never stdout; llama.cpp itself prints some errors to
   * stderr.
   */
  setLog(sink: ((level: string, text: string) => void) | null): void;
  /** Throws `device_not_found`, or `backend_unusable` as long as no CPU backend is loaded. */
  loadModel(options: ModelOptions): ModelLoad;
  /**
   * How often this process computed in turns with others, and how often it had to wait for its
   * turn.
   */
  turns(): { taken: number; waited: number };
  /**
   * For tests: what malloc has given out in this process, and what of its heaps is free; undefined
   * where the C library does not tell (glibc before 2.33, others).
   */
  heap(): { usedBytes: number; freeBytes: number } | undefined;
  /**
   * The kernels of attention that this processor can run, the fastest first, and how many nodes of
   * graphs they were given so far.
   */
  attention(): { kernels: string[]; taken: number };
  /** For tests and measuring: one attention by one of them, or by ggml. Waits for it. */
  attend(options: AttendOptions): { out: Float32Array; taken: boolean; ms: number };
  /** A JSON schema's grammar, and what it leaves out. Rejects `invalid_schema`. */
  compileSchema(schema: string): Promise<{ grammar: string; unenforced: Unenforced[] }>;
}
