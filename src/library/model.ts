// A loaded model, as programs use it. Made by loadModel, over an engine in a process of its own or
// in this one.
import { EventEmitter } from 'node:events';
import { resolve } from 'node:path';
import { WholeAnswer } from '../engine/whole-answer.js';
import type { Engine, EngineState } from '../engine/api.js';
import type { SingleName } from '../engine/gateway/single-model.js';
import type { ModelDescription } from '../engine/protocol.js';
import { RecuaError } from '../errors.js';
import { describe, Fields, wrongType } from '../request/fields.js';
import { converse, parseAnswer, type ChatResult } from './conversation.js';
import type { Message } from './messages.js';
import { logprobsOf } from './logprobs.js';
import { makeChatRequest, makeCompletionRequest, openOptions, readSignal, readText, readTexts, type ChatOptions, type CompleteOptions } from './options.js';
import { Reply } from './reply.js';
import type { FromSchema, Schema } from './schema.js';
import type { Tools } from './tools.js';

/** What a loaded model is. */
export interface ModelInfo extends Omit<ModelDescription, 'vocabType' | 'fingerprint'> {
  /** The name it is served under. */
  id: string;
  /** The file, as an absolute path. */
  path: string;
}

/** Arguments of the listeners, by event. */
export interface ModelEvents {
  /** It is being loaded again after a crash; the part that is done, 0 to 1. */
  loading: [fraction: number];
  /** It is there again after a crash. */
  ready: [info: ModelInfo];
  /**
   * The engine process died and is started again; answers go on where they were. One that ends the
   * process twice rejects with `model_crashed`.
   */
  crashed: [error: RecuaError];
  /**
   * It crashed again and again, or does not load any more. It is tried anew after a pause; until
   * then all rejects with this error.
   */
  failed: [error: RecuaError];
  /** `dispose()` is done. */
  closed: [];
  /** A line of the log. Neither prompts nor answers are ever logged. */
  log: [level: 'debug' | 'info' | 'warn' | 'error', text: string];
}

/** A completed text. */
export type CompleteResult<Output = undefined> = Pick<ChatResult<Output>, 'content' | 'object' | 'finishReason' | 'usage' | 'timings' | 'seed' | 'warnings' | 'logprobs'>;

/** A document's place in the order of relevance. */
export interface Ranked {
  /** The document's place in the list that was given. */
  index: number;
  /**
   * The higher, the better it fits. Where scores lie is the model's own: most give any number, some
   * 0 to 1.
   */
  score: number;
}

/** What `saveState` wrote or `restoreState` read. */
export interface SavedState {
  /** Tokens that it covers; 0 where there was nothing to save, or the file does not serve here. */
  tokens: number;
  /** Of the file. */
  sizeBytes: number;
  /** Why a file that is there was not restored, in a sentence. */
  reason?: string;
}

/** What loading made. */
export interface ServingModel {
  engine: Engine;
  description: ModelDescription;
  served: SingleName;
  path: string;
  /** Of a lease: gives it back. The engine is its pool's then, and stays. */
  release?: () => void;
}

const servingModels = new WeakMap<Model, ServingModel>();

/** What is behind a model, for createServer. */
export function servingModelOf(model: Model): ServingModel {
  const loaded = servingModels.get(model);
  if (!loaded) throw wrongType('model', 'a model of loadModel()', model);
  return loaded;
}

/**
 * A loaded model. {@link loadModel} makes one.
 *
 * All methods may be called at any time and at once: answers that run together share the work.
 * After `dispose()` all of them reject with the code `closed`. A program that ends without
 * `dispose()` ends cleanly, too.
 *
 * It is an `EventEmitter`; {@link ModelEvents} has the events.
 */
export class Model extends EventEmitter<ModelEvents> implements AsyncDisposable {
  readonly #engine: Engine;
  #info: ModelInfo;
  #crashes = 0;
  #isAway = false;
  #disposing: Promise<void> | undefined;
  /** Of a lease. */
  readonly #release: (() => void) | undefined;
  readonly #running = new Set<Promise<unknown>>();
  readonly #ended = new AbortController();

  /** @internal */
  constructor(loaded: ServingModel) {
    super();
    this.#engine = loaded.engine;
    this.#release = loaded.release;
    this.#info = inform(loaded, loaded.description);
    this.#crashes = loaded.engine.crashes;
    servingModels.set(this, loaded);
  }

  /** What the model is and can do. */
  get info(): ModelInfo {
    return this.#info;
  }

  /**
   * Answers a conversation.
   *
   * @param input the conversation so far, or a text as the user's only message
   * @returns the answer: iterate it for what is new, await it for the whole
   * @throws RecuaError (as a rejection) `invalid_type`, `invalid_value`, `invalid_messages`,
   *   `invalid_schema`, `invalid_grammar`, `context_length_exceeded`, `chat_unsupported`,
   *   `queue_full`, `cancelled`, `answer_incomplete`, `answer_invalid`, `generation_failed`,
   *   `model_crashed`, `closed`
   */
  chat<const S extends Schema | undefined = undefined>(input: string | readonly Message[], options: ChatOptions<S> = {}): Reply<ChatResult<FromSchema<S>>> {
    return new Reply(options?.signal, async (work) => {
      readSignal(Fields.of(options, 'options'));
      const { request, maxToolRounds } = makeChatRequest(input, options, this.#info as unknown as ModelDescription);
      const tools: Tools = options.tools ?? {};
      return await this.#using((engine) => converse({ engine, request, tools, maxToolRounds, schema: options.schema }, { ...work, signal: this.#untilEnd(work.signal) })) as ChatResult<FromSchema<S>>;
    });
  }

  /**
   * Continues a text as it is, without a chat template.
   *
   * @param prompt a text, or its tokens
   * @returns the continuation: iterate it for what is new, await it for the whole
   * @throws RecuaError (as a rejection) as `chat`
   */
  complete<const S extends Schema | undefined = undefined>(prompt: string | Int32Array, options: CompleteOptions<S> = {}): Reply<CompleteResult<FromSchema<S>>> {
    return new Reply(options?.signal, async (work) => {
      readSignal(Fields.of(options, 'options'));
      const request = makeCompletionRequest(prompt, options, this.#info as unknown as ModelDescription);
      return await this.#using(async (engine) => {
        const whole = new WholeAnswer();
        const answer = engine.complete(request, this.#untilEnd(work.signal));
        await work.read(answer, (delta) => {
          whole.add(delta);
          const { tokens: _, ...shown } = delta;
          return shown;
        });
        const finish = await answer.finished;
        const object = options.schema === undefined ? undefined : await parseAnswer(options.schema, whole.content, finish);
        const logprobs = request.tells?.logprobs === undefined ? {} : { logprobs: logprobsOf(whole.tokens) };
        return { content: whole.content, object: object as FromSchema<S>, ...finish, ...logprobs };
      });
    });
  }

  /**
   * The embedding vector of a text, or one for each of several.
   *
   * @returns vectors of `info.embeddingSize` numbers and length 1, so that their dot product is the
   *   cosine of their angle
   * @throws RecuaError (as a rejection) `embeddings_unsupported`, `context_length_exceeded` (with
   *   `details.index`), `invalid_type`, `cancelled`, `closed`
   */
  embed(text: string, options?: { signal?: AbortSignal | undefined }): Promise<Float32Array>;
  embed(texts: readonly string[], options?: { signal?: AbortSignal | undefined }): Promise<Float32Array[]>;
  async embed(input: string | readonly string[], options: { signal?: AbortSignal | undefined } = {}): Promise<Float32Array | Float32Array[]> {
    const signal = readSignal(openOptions(options, ['signal']));
    const inputs = typeof input === 'string' ? [readText(input, 'text')] : readTexts(input, 'texts');
    if (inputs.length === 0) return [];
    const { vectors } = await this.#using((engine) => engine.embed({ inputs }, this.#untilEnd(signal)));
    return typeof input === 'string' ? vectors[0]! : vectors;
  }

  /**
   * Orders documents by how well they answer a query. For reranking models.
   *
   * @param options `topN`: only the best so many
   * @returns the best first
   * @throws RecuaError (as a rejection) `rerank_unsupported`, `context_length_exceeded` (with
   *   `details.index`), `invalid_type`, `cancelled`, `closed`
   */
  async rerank(query: string, documents: readonly string[], options: { topN?: number | undefined; signal?: AbortSignal | undefined } = {}): Promise<Ranked[]> {
    const fields = openOptions(options, ['topN', 'signal']);
    const signal = readSignal(fields);
    const topN = fields.integer('topN', { min: 1 });
    const asked = readText(query, 'query');
    const texts = readTexts(documents, 'documents');
    if (texts.length === 0) return [];
    const { scores } = await this.#using((engine) => engine.rerank({ query: asked, documents: texts }, this.#untilEnd(signal)));
    return Array.from(scores, (score, index) => ({ index, score })).sort((a, b) => b.score - a.score).slice(0, topN);
  }

  /**
   * The tokens of a text.
   *
   * @param options `addSpecial`: with the tokens that begin or end a text for this model (default
   *   false); `parseSpecial`: the text of control tokens, such as `<|im_end|>`, becomes those
   *   tokens (default false)
   */
  async tokenize(text: string, options: { addSpecial?: boolean | undefined; parseSpecial?: boolean | undefined } = {}): Promise<Int32Array> {
    const fields = openOptions(options, ['addSpecial', 'parseSpecial']);
    if (typeof text !== 'string') throw wrongType('text', 'a text', text);
    return await this.#using((engine) => engine.tokenize(text, fields.boolean('addSpecial') ?? false, fields.boolean('parseSpecial') ?? false));
  }

  /** How many tokens a text has. */
  async countTokens(text: string, options: { addSpecial?: boolean | undefined; parseSpecial?: boolean | undefined } = {}): Promise<number> {
    return (await this.tokenize(text, options)).length;
  }

  /**
   * The text of tokens. Bytes that are no UTF-8, as at the end of a cut text, become U+FFFD.
   *
   * @param options `special`: control tokens give their text, too (default false)
   * @throws RecuaError (as a rejection) `invalid_value` for what is no token of this model
   */
  async detokenize(tokens: ArrayLike<number>, options: { special?: boolean | undefined } = {}): Promise<string> {
    const fields = openOptions(options, ['special']);
    const list = Array.from(tokens ?? [], Number);
    // An Int32Array would make tokens of 1.5 and 2 ** 32.
    const wrong = list.find((token) => !Number.isInteger(token) || token < 0 || token >= this.#info.vocabSize);
    if (wrong !== undefined) throw new RecuaError('invalid_value', `Expected tokens from 0 to ${this.#info.vocabSize - 1}, got ${describe(wrong)}.`, { param: 'tokens' });
    return await this.#using((engine) => engine.detokenize(Int32Array.from(list), fields.boolean('special') ?? false));
  }

  /**
   * Writes what the model has computed of the conversation that ran last to a file (mode 0600,
   * replaced as a whole), so that a later process goes on with it without reading it again.
   *
   * @throws RecuaError (as a rejection) where the file cannot be written
   */
  async saveState(path: string): Promise<SavedState> {
    return await this.#using((engine) => engine.saveState(resolve(path)));
  }

  /**
   * Reads what `saveState` wrote: conversations that begin with it need not be read again. A file
   * of another model, other settings or another version, or a damaged one, gives 0 tokens and a
   * reason.
   *
   * @throws RecuaError (as a rejection) `file_unreadable` where there is none
   */
  async restoreState(path: string): Promise<SavedState> {
    return await this.#using((engine) => engine.restoreState(resolve(path)));
  }

  /**
   * Frees all that the model holds. It may be called at any time and more than once; running
   * answers reject with `closed`. A model of {@link Models.lease} is given back instead: it stays
   * loaded for others, and for who asks next.
   *
   * @param options `drainMs`: how long running answers may go on until then (default 0)
   */
  dispose(options: { drainMs?: number | undefined } = {}): Promise<void> {
    return (this.#disposing ??= this.#dispose(options.drainMs ?? 0));
  }

  /** `dispose()`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }

  /**
   * The engine's turns, as events.
   * @internal
   */
  heed(state: EngineState): void {
    const wasAway = this.#isAway;
    this.#isAway = state.state !== 'ready';
    if (this.#engine.crashes > this.#crashes) {
      this.#crashes = this.#engine.crashes;
      this.emit('crashed', new RecuaError('model_crashed', `The engine process died (${this.#crashes} so far) and is started again.`));
    }
    if (state.state === 'restarting' && state.fraction > 0) this.emit('loading', state.fraction);
    else if (state.state === 'failed') this.emit('failed', state.error);
    else if (state.state === 'ready' && wasAway) {
      this.#info = inform(servingModelOf(this), state.model);
      this.emit('ready', this.#info);
    }
  }

  async #dispose(drainMs: number): Promise<void> {
    // Only now is #disposing set, which all methods look at.
    await Promise.resolve();
    if (this.#release) await this.#giveBack(this.#release, drainMs);
    else await this.#engine.close(drainMs);
    this.emit('closed');
  }

  /** Others may work with the engine: what runs here ends alone. */
  async #giveBack(release: () => void, drainMs: number): Promise<void> {
    const timer = setTimeout(() => this.#ended.abort(), drainMs);
    await Promise.allSettled(this.#running);
    clearTimeout(timer);
    release();
  }

  #untilEnd<S extends AbortSignal | undefined>(signal: S): S | AbortSignal {
    if (!this.#release) return signal;
    if (!signal) return this.#ended.signal;
    // Of another realm it cannot be joined with ours; the answer is waited for then.
    return signal instanceof AbortSignal ? AbortSignal.any([signal, this.#ended.signal]) : signal;
  }

  /** Work with the engine. What a dispose ends, ends with the same code as what comes after it. */
  async #using<T>(work: (engine: Engine) => Promise<T>): Promise<T> {
    const closed = (): RecuaError => new RecuaError('closed', 'The model was disposed of.');
    if (this.#disposing) throw closed();
    const running = (async () => await work(this.#engine))();
    this.#running.add(running);
    try {
      return await running;
    } catch (thrown) {
      const code = thrown instanceof RecuaError ? thrown.code : '';
      if (code === 'shutting_down' && this.#release && !this.#disposing) {
        throw new RecuaError('closed', 'The model is gone: its models were disposed of, or it crashed too often. Lease it again.', { cause: thrown });
      }
      throw code === 'shutting_down' || this.#ended.signal.aborted ? closed() : thrown;
    } finally {
      this.#running.delete(running);
    }
  }
}

function inform({ served, path }: ServingModel, description: ModelDescription): ModelInfo {
  return { path, ...modelInfo(served.id, description) };
}

export function modelInfo(id: string, { vocabType: _, fingerprint: __, ...description }: ModelDescription): Omit<ModelInfo, 'path'> {
  return { id, ...description };
}
