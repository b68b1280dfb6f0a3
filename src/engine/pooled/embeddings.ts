// Embedding and reranking requests inside the engine. They have their own queue and native context,
// opened on first use, so that they run beside chat. A native call takes one input of each client
// in turn, so that small requests share a call, and those of one client do not block others. Of a
// client's requests, the oldest and the smallest are taken in turn: a big one does not block small
// ones, and few have begun at a time.
import type { CancelFlag, EmbedderOptions, NativeEmbedder, NativeModel } from '../../addon/addon.js';
import { RecuaError } from '../../errors.js';
import { gaveWay, givingWay, rivalsOf } from '../give-way.js';
import { newCancelFlag } from '../prompts/cancel-flag.js';
import { checkTokens } from '../prompts/known-tokens.js';
import { isLong, type PoolShare } from '../prompts/pool-share.js';
import type { EmbedRequest, EngineEvent, RerankRequest, Work } from '../protocol.js';
import { pairReader } from './rerank.js';
import { leastTokens } from '../text/text-length.js';

interface Job {
  id: number;
  client: string;
  inputs: Int32Array[];
  /**
   * Inputs × dimensions; empty until the first batch shows the dimensions, which may differ from
   * the model's hidden size.
   */
  vectors: Float32Array;
  /** Inputs passed to a call so far, in order. */
  taken: number;
  /** Inputs with a vector. */
  done: number;
}

/** A request that is being tokenized, waits or runs. */
interface Accepted {
  client: string;
  priority: number;
  /** Of tokenizing. */
  cancelled: CancelFlag;
  /** Whether a call has taken inputs of it. */
  runs: boolean;
  /** Of its inputs, once they are tokenized. */
  tokens: number;
  /** Ends its wait for a place on the pool. */
  stop?: () => void;
}

interface ClientJobs {
  /** In order of arrival. */
  jobs: Job[];
  /** Whether the next input is one of the smallest, not of the oldest. */
  isForSmallest: boolean;
}

/** One input of a native call. */
interface Item {
  job: Job;
  index: number;
}

/** Keeps calls short: cancels and new requests wait for the running call. */
const tokensPerCall = 1024;

/**
 * Tokens of a client's requests, 4 bytes each, from which on its next long one is not tokenized:
 * begun requests no longer count as bodies, and a query is read again beside each document.
 */
const mostHeld = 8 * 1024 * 1024;

/**
 * A context for inputs of this many tokens is opened first, and a larger one for the first longer
 * input: a chat model's whole context may take gigabytes, beside those for its answers.
 */
const usualTokens = 4096;

interface Loaded {
  model: NativeModel;
  /** Opens a context for inputs of so many tokens, if there is memory for it. */
  ensureVectorRoom(contextSize: number): Promise<void>;
}

interface Outbox {
  push(event: EngineEvent): void;
  flush(): void;
}

const left = ({ inputs, taken }: Job): number => inputs.length - taken;

export class Embeddings {
  readonly #loaded: Loaded;
  readonly #options: EmbedderOptions;
  readonly #queueSize: number;
  readonly #poolShare: PoolShare;
  readonly #outbox: Outbox;
  #embedder: Promise<NativeEmbedder> | undefined;
  /** The same, once it is open. */
  #opened: NativeEmbedder | undefined;
  /** Most tokens of its inputs. */
  #room = 0;
  #calling = false;
  #calls = 0;
  /** Accepted requests without an answer, by id, in order of arrival. */
  readonly #active = new Map<number, Accepted>();
  /** Requests with inputs that no call has taken, by client; the first client is next. */
  readonly #jobs = new Map<string, ClientJobs>();
  /** Tokens of the requests that are tokenized and have no answer, by client. */
  readonly #held = new Map<string, number>();
  /** Long requests that wait until their client holds fewer. */
  readonly #whenFewer = new Set<() => void>();
  #running: Promise<void> | undefined;
  #closing = false;

  constructor(loaded: Loaded, options: EmbedderOptions, queueSize: number, poolShare: PoolShare, outbox: Outbox) {
    this.#loaded = loaded;
    this.#options = options;
    this.#queueSize = queueSize;
    this.#poolShare = poolShare;
    this.#outbox = outbox;
  }

  /** The native embedder's work. */
  get work(): Work {
    return { busy: this.#calling, done: this.#calls + (this.#opened?.polls() ?? 0) };
  }

  get active(): number {
    return this.#active.size;
  }

  async start(id: number, request: EmbedRequest | RerankRequest): Promise<void> {
    const { client, priority } = request.asker ?? { client: '', priority: 0 };
    const cancelled = newCancelFlag();
    const accepted: Accepted = { client, priority, cancelled, runs: false, tokens: 0 };
    if (rivalsOf(accepted, [...this.#active.values()]).length > this.#queueSize && !this.#makeRoom(accepted)) {
      this.#fail(id, new RecuaError('queue_full', `${this.#active.size} embedding requests are waiting already; try again in a moment.`));
      return;
    }
    this.#active.set(id, accepted);
    // The query is read again beside each document.
    const texts = 'documents' in request ? request.documents.flatMap((document) => [request.query, document]) : request.inputs;
    const leave = isLong(texts) ? await this.#enter(id, accepted) : undefined;
    try {
      if (!this.#active.has(id)) return;
      const inputs: Int32Array[] = [];
      for (const read of this.#readers(request, cancelled)) {
        inputs.push(await read());
        if (!this.#active.has(id)) return;
      }
      const job: Job = { id, client, inputs, vectors: new Float32Array(0), taken: 0, done: 0 };
      accepted.tokens = inputs.reduce((sum, { length }) => sum + length, 0);
      this.#held.set(client, (this.#held.get(client) ?? 0) + accepted.tokens);
      // While it waits for a call, it is not to blame for a crash.
      this.#outbox.push({ id, kind: 'accepted', promptTokens: accepted.tokens, position: 0 });
      const own = this.#jobs.get(client);
      if (own) own.jobs.push(job);
      else this.#jobs.set(client, { jobs: [job], isForSmallest: false });
      this.#running ??= this.#run();
    } catch (error) {
      if (this.#active.has(id)) this.#fail(id, RecuaError.from(error));
    } finally {
      leave?.();
    }
  }

  /** True if the id was active. A call in flight finishes; further calls do not start. */
  cancel(id: number): boolean {
    if (!this.#active.has(id)) return false;
    this.#fail(id, new RecuaError('cancelled', 'The request was cancelled.'));
    return true;
  }

  /** Waits for a place on the pool, once its client's other requests hold few enough tokens. */
  async #enter(id: number, accepted: Accepted): Promise<() => void> {
    const { client } = accepted;
    const holdsMany = (): boolean => this.#active.has(id) && (this.#held.get(client) ?? 0) >= mostHeld;
    for (;;) {
      while (holdsMany()) await new Promise<void>((resolve) => this.#whenFewer.add(resolve));
      const leave = await this.#poolShare.enter(client, (stop) => { accepted.stop = stop; });
      if (!holdsMany()) return leave;
      leave();
    }
  }

  /** Forgets a request that has its answer. */
  #end(id: number): Accepted | undefined {
    const accepted = this.#active.get(id);
    this.#active.delete(id);
    if (!accepted) return undefined;
    const held = (this.#held.get(accepted.client) ?? 0) - accepted.tokens;
    if (held > 0) this.#held.set(accepted.client, held);
    else this.#held.delete(accepted.client);
    for (const resolve of this.#whenFewer) resolve();
    this.#whenFewer.clear();
    return accepted;
  }

  /** Gives up a request that no call has begun. Returns whether it did. */
  #makeRoom(asker: Accepted): boolean {
    const waiting = [...this.#active].flatMap(([id, one]) => (one.runs ? [] : [{ ...one, id }]));
    const last = givingWay(asker, waiting).at(-1);
    if (last) this.#fail(last.id, gaveWay());
    return last !== undefined;
  }

  /** Waits for running requests, then frees the native context. */
  async close(): Promise<void> {
    while (this.#active.size > 0 || this.#running) {
      // A request that is still being tokenized starts a run of its own.
      await (this.#running ?? new Promise((resolve) => setImmediate(resolve)));
    }
    this.#closing = true;
    const embedder = await this.#embedder?.catch(() => undefined);
    await embedder?.close();
  }

  /** One function per input, which resolves to its tokens. */
  #readers(request: EmbedRequest | RerankRequest, cancelled: CancelFlag): (() => Promise<Int32Array>)[] {
    if ('documents' in request) {
      const pair = pairReader(this.#loaded.model, request.query, cancelled);
      return request.documents.map((document, index) => async () => {
        const param = `documents[${index}]`;
        this.#checkText(request.query, 'query', index);
        this.#checkText(document, param, index);
        return this.#check(await pair(document), param, index);
      });
    }
    return request.inputs.map((input, index) => async () => {
      const param = `input[${index}]`;
      if (typeof input !== 'string') checkTokens(input, this.#loaded.model.info.vocabSize, param);
      else this.#checkText(input, param, index);
      return this.#check(typeof input === 'string' ? await this.#loaded.model.tokenize(input, true, true, { cancelled }) : input, param, index);
    });
  }

  #check(tokens: Int32Array, param: string, index: number): Int32Array {
    if (tokens.length === 0) {
      throw new RecuaError('invalid_value', `Expected at least one token in ${param}, got none; send some text.`, { param });
    }
    if (tokens.length > this.#options.contextSize) throw this.#tooLong(tokens.length, '', param, index);
    return tokens;
  }

  /** Refuses a text that cannot fit, before it is tokenized. */
  #checkText(text: string, param: string, index: number): void {
    const least = leastTokens(this.#loaded.model.info, text);
    if (least > this.#options.contextSize) throw this.#tooLong(least, 'at least ', param, index);
  }

  #tooLong(count: number, atLeast: '' | 'at least ', param: string, index: number): RecuaError {
    const isLargest = this.#options.contextSize >= this.#loaded.model.info.contextTrain;
    const message = `Expected at most ${this.#options.contextSize} tokens in ${param}${isLargest ? ', the model\'s largest context' : ''}, got ${atLeast}${count}; `
      + `split the text${isLargest ? '' : ' or raise the context size (--ctx-size, contextSize)'}.`;
    return new RecuaError('context_length_exceeded', message, {
      param,
      details: { n_prompt_tokens: count, n_ctx: this.#options.contextSize, n_ctx_train: this.#loaded.model.info.contextTrain, index, ...(atLeast === '' ? {} : { counted: 'in part' }) },
    });
  }

  async #run(): Promise<void> {
    // Requests of the same burst are tokenized by then, and share the first call.
    await new Promise((resolve) => setImmediate(resolve));
    // The loop also takes jobs that are added while a call runs.
    for (let items = this.#take(); items.length > 0; items = this.#take()) {
      try {
        const longest = items.reduce((most, { job, index }) => Math.max(most, job.inputs[index]!.length), 0);
        await this.#compute(await this.#open(longest), items);
      } catch (error) {
        // The native context could not be opened: all requests of the call fail.
        for (const { job } of items) if (this.#active.has(job.id)) this.#fail(job.id, RecuaError.from(error));
      }
    }
    this.#running = undefined;
  }

  /** The next call's inputs: one of each client in turn, until the call is full. */
  #take(): Item[] {
    const items: Item[] = [];
    const passed = new Set<string>();
    let rows = 0;
    let begun = false;
    for (let next = this.#next(passed); next; next = this.#next(passed)) {
      const length = next.inputs[next.taken]!.length;
      if (items.length > 0 && rows + length > tokensPerCall) {
        // Its client is first in the next call, so that short inputs cannot pass it forever.
        passed.add(next.client);
        continue;
      }
      rows += length;
      if (next.taken === 0) {
        this.#outbox.push({ id: next.id, kind: 'started' });
        this.#active.get(next.id)!.runs = true;
        begun = true;
      }
      items.push({ job: next, index: next.taken++ });
      const { jobs, isForSmallest } = this.#jobs.get(next.client)!;
      const others = next.taken < next.inputs.length ? jobs : jobs.filter((job) => job !== next);
      // Now another client is next.
      this.#jobs.delete(next.client);
      if (others.length > 0) this.#jobs.set(next.client, { jobs: others, isForSmallest: !isForSmallest });
    }
    // Before a call that may crash, the gateway must know which requests may have caused it.
    if (begun) this.#outbox.flush();
    return items;
  }

  /** The request whose turn it is, of clients not passed. Drops those that nobody waits for. */
  #next(passed: ReadonlySet<string>): Job | undefined {
    for (const [client, own] of this.#jobs) {
      if (passed.has(client)) continue;
      own.jobs = own.jobs.filter(({ id }) => this.#active.has(id));
      const { jobs, isForSmallest } = own;
      const [oldest] = jobs;
      if (oldest) return isForSmallest ? jobs.reduce((least, job) => (left(job) < left(least) ? job : least)) : oldest;
      this.#jobs.delete(client);
    }
    return undefined;
  }

  /** One native call. If it fails for several jobs together, each is retried alone. */
  async #compute(embedder: NativeEmbedder, items: Item[]): Promise<void> {
    const inputs = items.map(({ job, index }) => job.inputs[index]!);
    const tokens = new Int32Array(inputs.reduce((rows, { length }) => rows + length, 0));
    let at = 0;
    for (const input of inputs) {
      tokens.set(input, at);
      at += input.length;
    }
    let vectors: Float32Array;
    this.#calling = true;
    try {
      vectors = await embedder.embed(tokens, Int32Array.from(inputs, ({ length }) => length));
    } catch (error) {
      const jobs = [...new Set(items.map(({ job }) => job))].filter(({ id }) => this.#active.has(id));
      if (items.every(({ job }) => job === items[0]!.job)) return jobs.forEach(({ id }) => this.#fail(id, RecuaError.from(error)));
      for (const job of jobs) await this.#compute(embedder, items.filter((item) => item.job === job));
      return;
    } finally {
      this.#calling = false;
      this.#calls++;
    }
    const dimensions = vectors.length / items.length;
    for (const [i, { job, index }] of items.entries()) {
      if (!this.#active.has(job.id)) continue;
      if (job.done === 0) job.vectors = new Float32Array(job.inputs.length * dimensions);
      job.vectors.set(vectors.subarray(i * dimensions, (i + 1) * dimensions), index * dimensions);
      if (++job.done === job.inputs.length) {
        this.#end(job.id);
        this.#answer(job);
      }
    }
  }

  /** The embedder, with room for inputs of so many tokens. Called between two calls. */
  async #open(tokens: number): Promise<NativeEmbedder> {
    if (this.#closing) throw new RecuaError('shutting_down', 'The engine is stopping and takes no new work.');
    if (!this.#embedder || tokens > this.#room) {
      const room = this.#roomFor(tokens);
      if (room > usualTokens) await this.#loaded.ensureVectorRoom(room);
      await this.#opened?.close();
      this.#embedder = this.#opened = undefined;
      this.#room = room;
    }
    const opening = (this.#embedder ??= this.#loaded.model.createEmbedder({ ...this.#options, contextSize: this.#room }));
    try {
      return (this.#opened = await opening);
    } catch (error) {
      // Retry with the next request: there may be enough memory then.
      this.#embedder = undefined;
      throw error;
    }
  }

  /** A power of two, so that a context is opened few times. */
  #roomFor(tokens: number): number {
    const { contextSize } = this.#options;
    // Vectors of such a model depend on the size of the context, not only on the text.
    const depends = Object.keys(this.#loaded.model.metadata()).some((key) => key.endsWith('.rope.scaling.original_context_length'));
    let room = depends ? contextSize : usualTokens;
    while (room < tokens) room *= 2;
    return Math.min(room, contextSize);
  }

  #answer(job: Job): void {
    this.#outbox.push({
      id: job.id,
      kind: 'embedded',
      vectors: job.vectors,
      dimensions: job.vectors.length / job.inputs.length,
      tokenCounts: Int32Array.from(job.inputs, (input) => input.length),
    });
  }

  #fail(id: number, error: RecuaError): void {
    const accepted = this.#end(id);
    accepted?.cancelled.fill(1);
    accepted?.stop?.();
    this.#outbox.push({ id, kind: 'error', error: error.toPlain() });
  }
}
