// The class that programs use for a loaded model. loadModel makes it, over an engine in its own
// process or in this one.
import { EventEmitter } from 'node:events';
import { WholeAnswer } from '../engine/whole-answer.js';
import type { Engine, EngineState } from '../engine/api.js';
import type { SingleName } from '../engine/model-pool/single-model.js';
import type { ModelDescription } from '../engine/protocol.js';
import { RecuaError } from '../errors.js';
import { Fields, wrongType } from '../request/fields.js';
import { converse, parseAnswer, type ChatResult } from './conversation.js';
import type { Message } from './messages.js';
import { logprobsOf } from './logprobs.js';
import { infoOf, type ModelInfo } from './model-info.js';
import {
  closed, drainOf, orReject, makeChatRequest, makeCompletionRequest, openOptions, readEmbedded, readPath, readSignal, readText, readTexts,
  type ChatOptions, type CompleteOptions,
} from './options.js';
import { Reply, type ReplyWork } from './reply.js';
import type { FromSchema, Schema } from './schema.js';
import { copyTokens, readTokens } from './token-lists.js';
import type { Tools } from './tools.js';

/** Events and the arguments of their listeners. */
export interface ModelEvents {
  /** The model is loading again after a crash; the fraction that is loaded, 0 to 1. */
  loading: [fraction: number];
  /** The model is ready again after a crash. */
  ready: [info: ModelInfo];
  /**
   * The engine process died and is restarting. Running answers continue where they stopped; one
   * that repeatedly kills the process rejects with `model_crashed`.
   */
  crashed: [error: RecuaError];
  /**
   * The model crashed repeatedly or no longer loads. The library retries after a pause (not with
   * `isolated: false`); until then every call rejects with this error. Calls of a leased model
   * reject with `closed` from then on: lease it again.
   */
  failed: [error: RecuaError];
  /** `dispose()` has finished. */
  closed: [];
  /** A log line, never with prompts or answers. Those of leased models: {@link ModelsEvents}. */
  log: [level: 'debug' | 'info' | 'warn' | 'error', text: string];
}

/** A completed text. */
export type CompleteResult<Output = undefined> = Pick<ChatResult<Output>, 'content' | 'object' | 'finishReason' | 'usage' | 'timings' | 'seed' | 'warnings' | 'logprobs'>;

/** A document's score and its position in the input. */
export interface Ranked {
  /** The document's index in the list that was passed. */
  index: number;
  /** Relevance; higher is better. Most models give any number, some 0 to 1. */
  score: number;
}

/** What `saveState` wrote or `restoreState` read. */
export interface SavedState {
  /** Tokens saved or restored; 0 if there was nothing to save or the file cannot be used. */
  tokens: number;
  /** Size of the file in bytes. */
  sizeBytes: number;
  /** Why an existing file was not restored, as a sentence. */
  reason?: string;
  /** Every sequence was busy: a later try may restore it. */
  isBusy?: boolean;
}

/** The parts of a loaded model. */
export interface ServingModel {
  engine: Engine;
  description: ModelDescription;
  served: SingleName;
  path: string;
  /** Gives back a lease. If set, the engine belongs to a pool and stays open. */
  release?: () => void;
}

const servingModels = new WeakMap<Model, ServingModel>();

/** The engine and names behind a model, for createServer. */
export function servingModelOf(model: Model): ServingModel {
  const loaded = servingModels.get(model);
  if (!loaded) throw wrongType('model', 'a model of loadModel()', model);
  return loaded;
}

/**
 * A loaded model. {@link loadModel} makes one.
 *
 * You can call any method at any time, several at once: answers that run together share the model's
 * steps. After `dispose()` every method rejects with `closed`. A program may exit without it.
 *
 * `Model` is an `EventEmitter`; see {@link ModelEvents}.
 */
export class Model extends EventEmitter<ModelEvents> implements AsyncDisposable {
  readonly #engine: Engine;
  #info: ModelInfo;
  #crashes = 0;
  #isAway = false;
  #disposing: Promise<void> | undefined;
  /** Set for a leased model. */
  readonly #release: (() => void) | undefined;
  readonly #running = new Set<Promise<unknown>>();
  readonly #replies = new Set<Reply<unknown>>();
  #isEnded = false;
  /** Each ends running work that is no reply. */
  readonly #ends = new Set<() => void>();

  /** @internal */
  constructor(loaded: ServingModel) {
    super();
    this.#engine = loaded.engine;
    this.#release = loaded.release;
    this.#info = infoOf(loaded.served.id, loaded.path, loaded.description);
    this.#crashes = loaded.engine.crashes;
    servingModels.set(this, loaded);
  }

  /** Properties and capabilities of the model. */
  get info(): ModelInfo {
    return this.#info;
  }

  /**
   * Answers a conversation.
   *
   * @param input the conversation so far, or a text as the only user message
   * @returns the answer: iterate it to stream, await it for the whole result
   * @throws RecuaError (as a rejection) `invalid_type`, `invalid_value`, `invalid_messages`,
   *   `invalid_schema`, `invalid_grammar`, `context_length_exceeded`, `chat_unsupported`,
   *   `queue_full`, `queue_timeout`, `cancelled`, `answer_incomplete`, `answer_invalid`,
   *   `no_token_left`, `generation_failed`, `model_crashed`, `model_stuck`, `request_set_aside`,
   *   `closed`
   */
  chat<const S extends Schema | undefined = undefined>(
    input: string | readonly Message[], options: ChatOptions<S> = {},
  ): Reply<ChatResult<FromSchema<S>>> {
    return this.#reply(options?.signal, async (engine, work) => {
      readSignal(Fields.of(options, 'options'));
      const { request, allTools, maxToolRounds } = makeChatRequest(input, options, this.#info as unknown as ModelDescription);
      const tools: Tools = options.tools ?? {};
      const schema = options.schema ?? undefined;
      return await converse({ engine, request, allTools, tools, maxToolRounds, schema }, work) as ChatResult<FromSchema<S>>;
    });
  }

  /**
   * Continues a text as it is, without a chat template.
   *
   * @param prompt a text or its tokens
   * @returns the continuation: iterate it to stream, await it for the whole result
   * @throws RecuaError (as a rejection) the same codes as `chat`
   */
  complete<const S extends Schema | undefined = undefined>(
    prompt: string | Int32Array, options: CompleteOptions<S> = {},
  ): Reply<CompleteResult<FromSchema<S>>> {
    const own = copyTokens(prompt);
    return this.#reply(options?.signal, async (engine, work) => {
      readSignal(Fields.of(options, 'options'));
      const request = makeCompletionRequest(own, options, this.#info as unknown as ModelDescription);
      const whole = new WholeAnswer();
      const answer = engine.complete(request, work.signal);
      await work.read(answer, (delta) => {
        whole.add(delta);
        const { tokens: _, ...shown } = delta;
        return shown;
      });
      const finish = await answer.finished;
      const schema = options.schema ?? undefined;
      const object = schema === undefined ? undefined : await parseAnswer(schema, whole.content, finish);
      const logprobs = request.tells?.logprobs === undefined ? {} : { logprobs: logprobsOf(whole.tokens) };
      return { content: whole.content, object: object as FromSchema<S>, ...finish, ...logprobs };
    });
  }

  /**
   * Computes the embedding vector of a text, or one vector for each of several texts.
   *
   * @returns vectors of `info.embeddingSize` numbers and length 1, so the dot product of two
   *   vectors is their cosine similarity
   * @throws RecuaError (as a rejection) `embeddings_unsupported`, `context_length_exceeded` (with
   *   `details.index`), `invalid_type`, `invalid_value` for an empty text or too much text,
   *   `queue_full`, `generation_failed`, `model_crashed`, `model_stuck`, `request_set_aside`,
   *   `cancelled`, `closed`
   */
  embed(text: string, options?: { signal?: AbortSignal | undefined }): Promise<Float32Array>;
  embed(texts: readonly string[], options?: { signal?: AbortSignal | undefined }): Promise<Float32Array[]>;
  async embed(
    input: string | readonly string[], options: { signal?: AbortSignal | undefined } = {},
  ): Promise<Float32Array | Float32Array[]> {
    const signal = readSignal(openOptions(options, ['signal']));
    const inputs = typeof input === 'string' ? [readText(input, 'text')] : readEmbedded(input, this.#info.embeddingSize);
    if (inputs.length === 0) return [];
    const { vectors } = await this.#ending(signal, (engine, ends) => engine.embed({ inputs }, ends));
    // They are views of the engine's message; programs may pass on a vector's `buffer`.
    const own = vectors.map((vector) => vector.slice());
    return typeof input === 'string' ? own[0]! : own;
  }

  /**
   * Ranks documents by how well they answer a query. Needs a reranking model.
   *
   * @param options `topN`: return only the best `topN` documents (default: all)
   * @returns the documents' indexes and scores, best first
   * @throws RecuaError (as a rejection) `rerank_unsupported`, and all other codes of `embed`
   */
  async rerank(
    query: string, documents: readonly string[], options: { topN?: number | undefined; signal?: AbortSignal | undefined } = {},
  ): Promise<Ranked[]> {
    const fields = openOptions(options, ['topN', 'signal']);
    const signal = readSignal(fields);
    const topN = fields.integer('topN', { min: 1 });
    const asked = readText(query, 'query');
    const texts = readTexts(documents, 'documents');
    if (texts.length === 0) return [];
    const { scores } = await this.#ending(signal, (engine, ends) => engine.rerank({ query: asked, documents: texts }, ends));
    return Array.from(scores, (score, index) => ({ index, score })).sort((a, b) => b.score - a.score).slice(0, topN);
  }

  /**
   * Converts a text to tokens.
   *
   * @param options `addSpecial`: add the tokens that begin or end a text for this model (default
   *   false); `parseSpecial`: turn the text of control tokens, such as `<|im_end|>`, into those
   *   tokens (default false)
   */
  async tokenize(
    text: string, options: { addSpecial?: boolean | undefined; parseSpecial?: boolean | undefined } = {},
  ): Promise<Int32Array> {
    const fields = openOptions(options, ['addSpecial', 'parseSpecial']);
    if (typeof text !== 'string') throw wrongType('text', 'a text', text);
    const tokens = await this.#ending(undefined, (engine, ends) => engine.tokenize(text, fields.boolean('addSpecial') ?? false, fields.boolean('parseSpecial') ?? false, ends));
    return tokens.slice();
  }

  /** Counts the tokens of a text. Takes the options of `tokenize`. */
  async countTokens(text: string, options: { addSpecial?: boolean | undefined; parseSpecial?: boolean | undefined } = {}): Promise<number> {
    return (await this.tokenize(text, options)).length;
  }

  /**
   * Converts tokens to text. Invalid UTF-8, such as at the end of a truncated text, becomes U+FFFD.
   *
   * @param options `special`: include the text of control tokens (default false)
   * @throws RecuaError (as a rejection) `invalid_value` if a number is not a token of this model
   */
  async detokenize(tokens: ArrayLike<number>, options: { special?: boolean | undefined } = {}): Promise<string> {
    const fields = openOptions(options, ['special']);
    const list = readTokens(tokens, this.#info.vocabSize);
    return await this.#ending(undefined, (engine, ends) => engine.detokenize(list, fields.boolean('special') ?? false, ends));
  }

  /**
   * Saves the KV cache of the conversation that ended last to a file, so that a later process can
   * continue it without prefill. The file has mode 0600 and is replaced atomically.
   *
   * @throws RecuaError (as a rejection) `store_unwritable` or `disk_full` if the file cannot be
   *   written; `file_unreadable` if the first such call finds the model's file changed;
   *   `chat_unsupported` for a model that only embeds; `model_crashed` if its process ends
   */
  async saveState(path: string): Promise<SavedState> {
    return await this.#using((engine) => engine.saveState(readPath(path)));
  }

  /**
   * Restores the KV cache that `saveState` wrote: prompts that begin with its tokens reuse them.
   * Resolves with 0 tokens and a `reason` if the file comes from another model, other settings or
   * another version, is damaged or longer than the context, or if every sequence is busy.
   *
   * @throws RecuaError (as a rejection) `file_unreadable` if the file is missing or cannot be read,
   *   or if the first such call finds the model's file changed; `chat_unsupported` for a model that
   *   only embeds; `model_crashed` if its process ends
   */
  async restoreState(path: string): Promise<SavedState> {
    return await this.#using((engine) => engine.restoreState(readPath(path)));
  }

  /**
   * Frees the model. You can call it at any time and more than once; running answers reject with
   * `closed`. For a model of {@link Models.lease}, it ends the lease instead: the model stays
   * loaded for others.
   *
   * @param options `drainMs`: how long running answers may continue first, in milliseconds (default
   *   0); `Infinity`: until they end. A later call shortens it for this program's answers
   */
  dispose(options: { drainMs?: number | undefined } = {}): Promise<void> {
    return orReject(() => {
      const drainMs = drainOf(options);
      if (!this.#disposing) return (this.#disposing = this.#dispose(drainMs));
      const timer = setTimeout(() => this.endWork(), drainMs);
      this.#disposing.finally(() => clearTimeout(timer)).catch(() => undefined);
      return this.#disposing;
    });
  }

  /** Calls `dispose()`; for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }

  /**
   * Turns the engine's state changes into events.
   * @internal
   */
  heed(state: EngineState): void {
    const wasAway = this.#isAway;
    this.#isAway = state.state !== 'ready';
    if (this.#engine.crashes > this.#crashes) {
      this.#crashes = this.#engine.crashes;
      this.emit('crashed', new RecuaError('model_crashed', `The engine process ended (${this.#crashes} times so far) and is restarting.`));
    }
    if (state.state === 'restarting' && state.fraction > 0) this.emit('loading', state.fraction);
    else if (state.state === 'failed') this.emit('failed', state.error);
    else if (state.state === 'ready' && wasAway) {
      const { served, path } = servingModelOf(this);
      this.#info = infoOf(served.id, path, state.model);
      this.emit('ready', this.#info);
    }
  }

  /**
   * Ends this program's work on the engine, also answers that wait for a tool.
   * @internal
   */
  endWork(): void {
    this.#isEnded = true;
    for (const end of this.#ends) end();
    for (const reply of this.#replies) reply.endWith(closed());
  }

  async #dispose(drainMs: number): Promise<void> {
    // Let dispose() set #disposing first: every method checks it.
    await Promise.resolve();
    const endMs = performance.now() + drainMs;
    const work = Promise.allSettled([...this.#running, ...this.#replies]);
    let timer: NodeJS.Timeout | undefined;
    const ended = new Promise<void>((resolve) => {
      timer = setTimeout(() => resolve(this.endWork()), drainMs);
    });
    // Others may use a leased engine, so all work of this lease has to end before it is given back.
    await (this.#release ? work : Promise.race([work, ended]));
    clearTimeout(timer);
    if (this.#release) this.#release();
    else await this.#engine.close(Math.max(0, endMs - performance.now()));
    this.emit('closed');
  }

  /** Starts an answer. */
  #reply<R>(signal: unknown, work: (engine: Engine, work: ReplyWork) => Promise<R>): Reply<R> {
    const reply = new Reply<R>(signal, (one) => this.#asking(() => work(this.#engine, one)));
    this.#replies.add(reply);
    const done = (): void => void this.#replies.delete(reply);
    reply.then(done, done);
    return reply;
  }

  /** Runs work that dispose() can end, too. AbortSignal.any would leave a bit of each call here. */
  async #ending<T>(signal: AbortSignal | undefined, work: (engine: Engine, signal: AbortSignal) => Promise<T>): Promise<T> {
    const own = new AbortController();
    const end = (): void => own.abort();
    if (signal?.aborted) end();
    signal?.addEventListener('abort', end, { once: true });
    this.#ends.add(end);
    try {
      return await this.#using((engine) => work(engine, own.signal));
    } finally {
      this.#ends.delete(end);
      signal?.removeEventListener('abort', end);
    }
  }

  /**
   * Runs work on the engine. Work that dispose() ends and calls made after it fail with the same
   * code.
   */
  async #asking<T>(work: () => Promise<T>): Promise<T> {
    if (this.#disposing) throw closed();
    try {
      return await work();
    } catch (thrown) {
      const code = thrown instanceof RecuaError ? thrown.code : '';
      if (code === 'shutting_down' && this.#release && !this.#disposing) {
        throw new RecuaError('closed', 'The model is gone: its models were disposed of, or it crashed too often. Lease it again.', { cause: thrown });
      }
      throw code === 'shutting_down' || this.#isEnded ? closed() : thrown;
    }
  }

  async #using<T>(work: (engine: Engine) => Promise<T>): Promise<T> {
    const running = this.#asking(() => work(this.#engine));
    this.#running.add(running);
    try {
      return await running;
    } finally {
      this.#running.delete(running);
    }
  }
}
