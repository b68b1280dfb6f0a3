// The engine's interface in the gateway process: implemented by engine/gateway/client over a child
// process, by engine/in-process/local, and by fakes in tests. Imported by server/ and cli/; knows
// nothing of HTTP.
import type {
  Asker,
  ChatRequest,
  CompletionRequest,
  Delta,
  EmbedRequest,
  EngineStatus,
  FinishReason,
  LogLevel,
  ModelDescription,
  Rendered,
  RerankRequest,
  SavedState,
  Timings,
  Usage,
} from './protocol.js';
import type { RecuaError } from '../errors.js';

export type EngineState =
  | { state: 'loading'; fraction: number }
  | { state: 'ready'; model: ModelDescription; status: EngineStatus }
  /** It crashed and is restarting. */
  | { state: 'restarting'; fraction: number }
  /**
   * The file does not load (no retry), or the engine crashed repeatedly (retried at `retryAtMs`, by
   * Date.now()).
   */
  | { state: 'failed'; error: RecuaError; retryAtMs?: number }
  | { state: 'closed' };

/** How an answer ended. */
export interface Finish {
  finishReason: FinishReason;
  usage: Usage;
  timings: Timings;
  seed: number;
  /** The stop string that ended it, from the request or the template. */
  stop?: string | undefined;
  warnings: string[];
}

/**
 * A running answer. Iterate it once; each value is a delta. Deltas are merged while nobody reads,
 * so a slow reader costs at most the answer's own length in memory.
 */
export interface Answer extends AsyncIterable<Delta> {
  /**
   * Resolves when the prompt is known to be valid and to fit. `position` is its place in the queue
   * for a free sequence; 0: it need not wait. Otherwise rejects with the early error.
   */
  readonly accepted: Promise<{ promptTokens: number; position: number }>;
  /**
   * Resolves when the answer is complete; rejects with the error that ended it, which the iterator
   * throws, too.
   */
  readonly finished: Promise<Finish>;
  /**
   * Tokens so far, whether read or not; undefined until the prompt is accepted. Without
   * `tells.timings`, those of the answer are counted only at its end.
   */
  readonly used: Pick<Usage, 'promptTokens' | 'completionTokens'> | undefined;
  /** Memory of the tokens in deltas that nobody has read yet. */
  readonly unreadBytes: number;
  /**
   * If the request has `thoughts.control`, thinking ends with the next token, or as soon as it
   * begins.
   */
  endThinking(): void;
}

export interface Embedded {
  /** One unit-length vector per input, in order. */
  vectors: Float32Array[];
  tokenCounts: Int32Array;
}

export interface Reranked {
  /** One per document, in order; higher fits better. The range depends on the model. */
  scores: Float32Array;
  tokenCounts: Int32Array;
}

/**
 * Always called once: this process no longer holds the request's text. It keeps the text until the
 * engine works on the request, to send it to another engine process if this one dies before.
 */
export type Released = () => void;

export type Log = (level: LogLevel, text: string) => void;

/** Callbacks and settings for the caller that starts an engine. */
export interface EngineSettings {
  /** Logs of Recua and native code, and what an engine process writes to its stderr. */
  log?: Log;
  /** The lowest level that `log` needs; engine processes do not send the rest. Default: 'debug'. */
  logLevel?: LogLevel;
  /**
   * Called with each new state except the first, including loading progress, but not for a new
   * status of a ready engine.
   */
  onState?: (state: EngineState) => void;
  /** The folder for `saveState`: a sandboxed engine process can write nowhere else. */
  stateFolder?: string | undefined;
}

export interface Engine {
  readonly state: EngineState;
  /** All answers together, over the last seconds. */
  readonly tokensPerSecond: number;
  /** How often the engine process has died. */
  readonly crashes: number;
  /** Resolves when the model is ready; rejects if loading failed and is not retried. */
  ready(): Promise<ModelDescription>;
  /**
   * Starts an answer. Aborting stops its work within one step; `finished` then rejects `cancelled`.
   */
  chat(request: ChatRequest, signal?: AbortSignal, released?: Released): Answer;
  complete(request: CompletionRequest, signal?: AbortSignal, released?: Released): Answer;
  embed(request: EmbedRequest, signal?: AbortSignal, released?: Released): Promise<Embedded>;
  /**
   * Scores how well each document answers the query. Rejects `rerank_unsupported` if the model is
   * not a reranker.
   */
  rerank(request: RerankRequest, signal?: AbortSignal, released?: Released): Promise<Reranked>;
  /** The prompt of a chat and its length in tokens; nothing is generated. */
  render(request: ChatRequest, signal?: AbortSignal, released?: Released): Promise<Rendered>;
  tokenize(text: string, addSpecial: boolean, parseSpecial: boolean, signal?: AbortSignal, asker?: Asker): Promise<Int32Array>;
  /** The text of tokens; invalid UTF-8 becomes U+FFFD. Control tokens only if `special`. */
  detokenize(tokens: Int32Array, special: boolean, signal?: AbortSignal, asker?: Asker): Promise<string>;
  /** The bytes of each token, including control tokens; not every token is valid UTF-8. */
  pieces(tokens: Int32Array): Promise<Uint8Array[]>;
  /**
   * Writes the KV of the conversation that ran last to a file (mode 0600, replaced as a whole), so
   * that `restoreState` in a later process need not evaluate it again. If no sequence holds any,
   * writes nothing and resolves to 0 tokens.
   */
  saveState(path: string): Promise<SavedState>;
  /**
   * Reads such a file into a free sequence: prompts that begin with its tokens reuse them. Resolves
   * to 0 tokens and a reason if the file is damaged or was written for another model, context or
   * version of llama.cpp. Throws `file_unreadable` if there is no file.
   */
  restoreState(path: string): Promise<SavedState>;
  /** Drops the KV of all sequences that no request uses. */
  forget(): Promise<void>;
  /**
   * Lets running answers end (at most `drainMs`), then stops the process. With `sleeps` it first
   * writes conversations to files, if its options name a folder for them. Idempotent.
   */
  close(drainMs?: number, sleeps?: boolean): Promise<void>;
  /** Id of the engine process, for logs and tests; undefined while there is none. */
  readonly pid: number | undefined;
}
