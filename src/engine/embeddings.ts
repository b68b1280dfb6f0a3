// Embedding and reranking requests inside the engine: a queue and a native context of their own, opened on first use, so that they
// run beside chat. Big calls go in batches, and calls take turns, so that a cancel and a small call are not kept waiting.
import type { EmbedderOptions, NativeEmbedder, NativeModel } from '../addon.js';
import { RecuaError } from '../errors.js';
import { checkTokens } from './chat.js';
import type { EmbedRequest, EngineEvent, ModelDescription, RerankRequest } from './protocol.js';
import { pairReader } from './rerank.js';

interface Job {
  id: number;
  inputs: Int32Array[];
  /** Inputs × dimensions; empty until the first batch tells the dimensions, which need not be the model's inner size. */
  vectors: Float32Array;
  /** Inputs that have their vector. */
  done: number;
}

/** Why a model does not do what is asked; undefined if it does. */
export function notPooled({ canEmbed, canRerank, pooling }: ModelDescription, request: EmbedRequest | RerankRequest): RecuaError | undefined {
  if ('documents' in request) {
    if (canRerank) return undefined;
    return new RecuaError('rerank_unsupported', `Expected a reranker, got a model with pooling ${pooling}; load a reranking model, with pooling rank if its file does not say that it is one.`);
  }
  if (canEmbed) return undefined;
  return new RecuaError('embeddings_unsupported', canRerank
    ? 'This model is a reranker: it scores texts and gives no embedding vectors. Load an embedding model.'
    : 'This model cannot give pooled embedding vectors; load an embedding model.');
}

/** A cancel, and another request's turn, wait for the call that runs: it must not be long. */
const tokensPerCall = 1024;

export class Embeddings {
  readonly #model: NativeModel;
  readonly #options: EmbedderOptions;
  readonly #queueSize: number;
  readonly #emit: (event: EngineEvent) => void;
  readonly #flush: () => void;
  #embedder: Promise<NativeEmbedder> | undefined;
  /** Ids taken and not answered: being tokenised, waiting or running. */
  readonly #active = new Set<number>();
  readonly #jobs: Job[] = [];
  #running: Promise<void> | undefined;
  #closing = false;

  constructor(model: NativeModel, options: EmbedderOptions, queueSize: number, emit: (event: EngineEvent) => void, flush: () => void) {
    this.#model = model;
    this.#options = options;
    this.#queueSize = queueSize;
    this.#emit = emit;
    this.#flush = flush;
  }

  get active(): number {
    return this.#active.size;
  }

  async start(id: number, request: EmbedRequest | RerankRequest): Promise<void> {
    if (this.#active.size > this.#queueSize) {
      this.#fail(id, new RecuaError('queue_full', `${this.#active.size} embedding requests are waiting already; try again in a moment.`));
      return;
    }
    this.#active.add(id);
    try {
      const inputs: Int32Array[] = [];
      for (const read of this.#readers(request)) {
        inputs.push(await read());
        if (!this.#active.has(id)) return;
      }
      this.#jobs.push({ id, inputs, vectors: new Float32Array(0), done: 0 });
      this.#running ??= this.#run();
    } catch (error) {
      this.#fail(id, RecuaError.from(error));
    }
  }

  /** True if the id was one of these. A batch in flight is finished, the rest never begins. */
  cancel(id: number): boolean {
    if (!this.#active.has(id)) return false;
    this.#fail(id, new RecuaError('cancelled', 'The request was cancelled.'));
    return true;
  }

  /** Waits for what runs, then frees the native context. */
  async close(): Promise<void> {
    while (this.#active.size > 0 || this.#running) {
      // A request that is still being tokenised starts a run of its own.
      await (this.#running ?? new Promise((resolve) => setImmediate(resolve)));
    }
    this.#closing = true;
    const embedder = await this.#embedder?.catch(() => undefined);
    await embedder?.close();
  }

  /** One for each input; each gives the tokens. */
  #readers(request: EmbedRequest | RerankRequest): (() => Promise<Int32Array>)[] {
    if ('documents' in request) {
      const pair = pairReader(this.#model, request.query);
      return request.documents.map((document, index) => async () => this.#check(await pair(document), `documents[${index}]`, index));
    }
    return request.inputs.map((input, index) => async () => {
      const param = `input[${index}]`;
      if (typeof input !== 'string') checkTokens(input, this.#model.info.vocabSize, param);
      return this.#check(typeof input === 'string' ? await this.#model.tokenize(input, true, true) : input, param, index);
    });
  }

  #check(tokens: Int32Array, param: string, index: number): Int32Array {
    if (tokens.length === 0) {
      throw new RecuaError('invalid_value', `Expected at least one token in ${param}, got none; send some text.`, { param });
    }
    if (tokens.length > this.#options.contextSize) {
      const message = `Expected at most ${this.#options.contextSize} tokens in ${param}, got ${tokens.length}; split the text or raise the context size.`;
      throw new RecuaError('context_length_exceeded', message, {
        param,
        details: { n_prompt_tokens: tokens.length, n_ctx: this.#options.contextSize, index },
      });
    }
    return tokens;
  }

  async #run(): Promise<void> {
    // Jobs added while a batch runs are seen by the loop.
    for (let job = this.#jobs.shift(); job; job = this.#jobs.shift()) {
      if (!this.#active.has(job.id)) continue;
      try {
        await this.#batch(job);
      } catch (error) {
        this.#fail(job.id, RecuaError.from(error));
        continue;
      }
      if (job.done < job.inputs.length) this.#jobs.push(job);
      else if (this.#active.delete(job.id)) this.#answer(job);
    }
    this.#running = undefined;
  }

  /** One native call with as many of the job's next inputs as it may hold. */
  async #batch(job: Job): Promise<void> {
    const embedder = await this.#open();
    if (job.done === 0) {
      // The gateway must know who may have caused a crash before the call that may crash.
      this.#emit({ id: job.id, kind: 'started' });
      this.#flush();
    }
    let end = job.done;
    let rows = 0;
    while (end < job.inputs.length) {
      const next = job.inputs[end]!.length;
      if (rows > 0 && rows + next > tokensPerCall) break;
      rows += next;
      end++;
    }
    const inputs = job.inputs.slice(job.done, end);
    const tokens = new Int32Array(rows);
    let at = 0;
    for (const input of inputs) {
      tokens.set(input, at);
      at += input.length;
    }
    const vectors = await embedder.embed(tokens, Int32Array.from(inputs, (input) => input.length));
    const dimensions = vectors.length / inputs.length;
    if (job.done === 0) job.vectors = new Float32Array(job.inputs.length * dimensions);
    job.vectors.set(vectors, job.done * dimensions);
    job.done = end;
  }

  async #open(): Promise<NativeEmbedder> {
    if (this.#closing) throw new RecuaError('shutting_down', 'The engine is stopping and takes no new work.');
    const opening = (this.#embedder ??= this.#model.createEmbedder(this.#options));
    try {
      return await opening;
    } catch (error) {
      // Too little memory now may be enough later.
      this.#embedder = undefined;
      throw error;
    }
  }

  #answer(job: Job): void {
    this.#emit({
      id: job.id,
      kind: 'embedded',
      vectors: job.vectors,
      dimensions: job.vectors.length / job.inputs.length,
      tokenCounts: Int32Array.from(job.inputs, (input) => input.length),
    });
  }

  #fail(id: number, error: RecuaError): void {
    this.#active.delete(id);
    this.#emit({ id, kind: 'error', error: error.toPlain() });
  }
}
