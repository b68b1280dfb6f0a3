// The engine as the gateway sees it: implemented by engine/gateway/client over a child process, and
// by fakes in tests. Imported by server/ and cli/; knows nothing of HTTP.
import type {
  ChatRequest, CompletionRequest, Delta, EmbedRequest, EngineStatus, FinishReason, LogLevel, ModelDescription, Rendered, RerankRequest, SavedState, Timings, Usage,
} from './protocol.js';
import type { RecuaError } from '../errors.js';

export type EngineState =
  | { state: 'loading'; fraction: number }
  | { state: 'ready'; model: ModelDescription; status: EngineStatus }
  /** It crashed and is coming back. */
  | { state: 'restarting'; fraction: number }
  /**
   * The file does not load (for good), or it crashed again and again (tried anew after a pause, at
   * `retryAtMs` by Date.now()).
   */
  | { state: 'failed'; error: RecuaError; retryAtMs?: number }
  | { state: 'closed' };

/** How an answer ended. */
export interface Finish {
  finishReason: FinishReason;
  usage: Usage;
  timings: Timings;
  seed: number;
  /** The stop string that ended it, of the request or of the template. */
  stop?: string | undefined;
  warnings: string[];
}

/**
 * A running answer. Iterate it once; each value is what is new. The iterator merges deltas while
 * nobody reads, so a slow reader costs at most the answer's own length.
 */
export interface Answer extends AsyncIterable<Delta> {
  /**
   * Resolves when the prompt is known to be sound and to fit, with its place among those that wait
   * for a free sequence, 0 where it waits for none; rejects with the early error otherwise.
   */
  readonly accepted: Promise<{ promptTokens: number; position: number }>;
  /**
   * Resolves when the answer is complete; rejects with the error that ended it. The iterator throws
   * the same.
   */
  readonly finished: Promise<Finish>;
  /**
   * Where the request has `thoughts.control`, thinking ends with the next token; where it has not
   * begun yet, as soon as it does.
   */
  endThinking(): void;
}

export interface Embedded {
  /** One unit-length vector per input, in order. */
  vectors: Float32Array[];
  tokenCounts: Int32Array;
}

export interface Reranked {
  /**
   * One per document, in order; the higher, the better it fits. Where they lie is the model's own.
   */
  scores: Float32Array;
  tokenCounts: Int32Array;
}

/**
 * Called once, always: this process no longer holds the request. It does until the engine works on
 * it, in order to send it to another engine process if this one dies before.
 */
export type Released = () => void;

export type Log = (level: LogLevel, text: string) => void;

/** What whoever starts an engine may want to hear of it. */
export interface EngineSettings {
  /** Native and own logs, and what an engine process writes to its stderr. */
  log?: Log;
  /**
   * What `log` does nothing with below; an engine process does not send it then. The default is
   * 'debug', which is all.
   */
  logLevel?: LogLevel;
  /**
   * Called with each new state but the first, progress of loading included; not for a new status of
   * a ready engine.
   */
  onState?: (state: EngineState) => void;
  /**
   * The folder that `saveState` writes to: an engine process in a sandbox can write nowhere else.
   */
  stateFolder?: string | undefined;
}

export interface Engine {
  readonly state: EngineState;
  /** Of all answers together, over the last seconds. */
  readonly tokensPerSecond: number;
  /** How often the engine process died since start. */
  readonly crashes: number;
  /** Resolves when the model is ready; rejects when loading failed for good. */
  ready(): Promise<ModelDescription>;
  /**
   * Starts an answer. Aborting stops its work within one step; `finished` then rejects `cancelled`.
   */
  chat(request: ChatRequest, signal?: AbortSignal, released?: Released): Answer;
  complete(request: CompletionRequest, signal?: AbortSignal, released?: Released): Answer;
  embed(request: EmbedRequest, signal?: AbortSignal, released?: Released): Promise<Embedded>;
  /**
   * Scores how well each document answers the query. Rejects `rerank_unsupported` where the model
   * is no reranker.
   */
  rerank(request: RerankRequest, signal?: AbortSignal, released?: Released): Promise<Reranked>;
  /** The prompt of a chat and its length in tokens; nothing is generated. */
  render(request: ChatRequest, signal?: AbortSignal, released?: Released): Promise<Rendered>;
  tokenize(text: string, addSpecial: boolean, parseSpecial: boolean): Promise<Int32Array>;
  /**
   * The text of tokens; bytes that are no UTF-8 become U+FFFD. Control tokens only if `special`.
   */
  detokenize(tokens: Int32Array, special: boolean): Promise<string>;
  /** The bytes of each token, those of control tokens included; not every one is UTF-8. */
  pieces(tokens: Int32Array): Promise<Uint8Array[]>;
  /**
   * Writes the KV of the conversation that ran last to a file (mode 0600, replaced as a whole), so
   * that `restoreState` in a later process spares evaluating it again. Resolves to 0 tokens, and
   * writes nothing, where no sequence holds any.
   */
  saveState(path: string): Promise<SavedState>;
  /**
   * Reads such a file into a free sequence: prompts that begin with its tokens reuse them. 0 tokens
   * and a reason where it was written for another model, context or version of llama.cpp, or is
   * damaged. Throws `file_unreadable` where there is none.
   */
  restoreState(path: string): Promise<SavedState>;
  /** Drops the KV of all sequences that no request uses. */
  forget(): Promise<void>;
  /**
   * Lets running answers end (at most `drainMs`), then stops the process. With `sleeps` it keeps
   * conversations before, where its options have a place for them. Idempotent.
   */
  close(drainMs?: number, sleeps?: boolean): Promise<void>;
  /** Process id of the engine process, for logs and tests; undefined while there is none. */
  readonly pid: number | undefined;
}
