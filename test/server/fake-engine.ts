// An Engine without a model: answers by script, counts its requests, and can load, fail, crash and
// hang on command. Used by all tests of server/. Keeps the contract of engine/api: deltas merge
// while nobody reads, and aborts end the work.
import type { Answer, Embedded, Engine, EngineState, Finish, Released, Reranked } from '#recua/engine/api.js';
import type { ChatMessage, ChatRequest, CompletionRequest, Delta, EmbedRequest, ModelDescription, Rendered, RerankRequest } from '#recua/engine/protocol.js';
import { notGenerating, notPooled } from '#recua/engine/capabilities.js';
import { RecuaError } from '#recua/errors.js';

/** The text of an answer; throwing ends it with that error. */
export type Script = (request: ChatRequest, signal: AbortSignal) => AsyncIterable<Delta>;

export const description: ModelDescription = {
  description: 'fake 1K F32', fingerprint: 'f1', architecture: 'fake', fileType: 'F32', parameters: 1_000, sizeBytes: 4_000,
  vocabSize: 100, vocabType: 2, embeddingSize: 8, layers: 1, contextTrain: 4_096, contextSize: 1_024, leastContext: 0, parallel: 4,
  pooling: 'mean', hasChatTemplate: true, chatTemplate: '{% if tools %}{% endif %}', canGenerate: true, canInfill: false, bosText: '<s>', eosText: '</s>', canEmbed: true, canRerank: false,
  devices: [], offload: { devices: [], layers: 0, totalLayers: 3 }, deviceBytes: 0, backends: [], llamaCpp: 'fake', notes: [],
};

const textOf = ({ content }: ChatMessage): string => (typeof content === 'string' ? content : (content ?? []).map(({ text }) => text).join('\n'));

export const messagesOf = ({ messages }: ChatRequest): ChatMessage[] => JSON.parse(messages) as ChatMessage[];

/** Repeats the last message, word by word. */
export async function* echo(request: ChatRequest): AsyncGenerator<Delta> {
  const last = messagesOf(request).at(-1);
  const text = last ? textOf(last) : '';
  for (const word of text.match(/\s*\S+|\s+$/g) ?? []) {
    await new Promise(setImmediate);
    yield { content: word };
  }
}

/** Sends nothing until its client or the server ends it. */
export async function* hang(_request: ChatRequest, signal: AbortSignal): AsyncGenerator<Delta> {
  await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
}

export class FakeEngine implements Engine {
  state: EngineState = { state: 'ready', model: description, status: { running: 0, waiting: 0, tokens: 0 } };
  tokensPerSecond = 0;
  crashes = 0;
  readonly pid = undefined;
  script: Script = echo;
  /** The reported state of the queue. */
  position = 0;
  /** Refuses every prompt before it is accepted. */
  early: RecuaError | undefined;
  /** Holds prompts back until resolved, like the queue of a busy engine. */
  acceptAfter: Promise<void> = Promise.resolve();
  /** How many requests run at once. Others are refused, as by a full queue. */
  places = Infinity;
  finish: Partial<Finish> = {};
  readonly requests: ChatRequest[] = [];
  readonly embedded: EmbedRequest[] = [];
  readonly running = new Set<FakeAnswer>();
  cancelled = 0;
  /** Deltas made, and deltas left after merging. */
  produced = 0;
  delivered = 0;

  async ready(): Promise<ModelDescription> {
    return description;
  }

  chat(request: ChatRequest, signal = new AbortController().signal, released: Released = () => undefined): Answer {
    this.requests.push(request);
    const answer = new FakeAnswer(this);
    this.running.add(answer);
    // Like a real engine: held while it waits, released when it begins or is cancelled.
    void Promise.race([answer.accepted, answer.finished]).catch(() => undefined).then(released);
    void this.#run(answer, request, signal);
    return answer;
  }

  async #run(answer: FakeAnswer, request: ChatRequest, signal: AbortSignal): Promise<void> {
    const aborted = new Promise<never>((_, reject) => {
      const abort = (): void => reject(new RecuaError('cancelled', 'Aborted.'));
      if (signal.aborted) abort();
      else signal.addEventListener('abort', abort, { once: true });
    });
    aborted.catch(() => this.cancelled++);
    try {
      if (this.running.size > this.places) throw new RecuaError('queue_full', 'The queue is full.');
      await Promise.race([this.acceptAfter, aborted]);
      this.#refuse(notGenerating(this.#model));
      answer.accept(messagesOf(request).length, this.position);
      const deltas = this.script(request, signal)[Symbol.asyncIterator]();
      for (let tokens = 0; ; tokens++) {
        if (tokens >= request.maxTokens) return answer.end({ finishReason: 'length' }, tokens);
        const next = await Promise.race([deltas.next(), aborted]);
        if (next.done) return answer.end({}, tokens);
        this.produced++;
        answer.push(next.value);
      }
    } catch (error) {
      answer.fail(RecuaError.from(error));
    } finally {
      this.running.delete(answer);
    }
  }

  /** The engine process dies: running answers end with model_crashed. */
  crash(): void {
    this.crashes++;
    this.state = { state: 'restarting', fraction: 0 };
    for (const answer of this.running) answer.fail(new RecuaError('model_crashed', 'The engine process died.'));
  }

  async embed(request: EmbedRequest, signal?: AbortSignal, released: Released = () => undefined): Promise<Embedded> {
    this.embedded.push(request);
    released();
    if (this.script === hang) {
      await new Promise((_, reject) => signal?.addEventListener('abort', () => {
        this.cancelled++;
        reject(new RecuaError('cancelled', 'Aborted.'));
      }));
    }
    this.#refuse(notPooled(this.#model, request));
    return {
      vectors: request.inputs.map((input) => unitVector(typeof input === 'string' ? input.length : input.reduce((a, b) => a + b, 0))),
      tokenCounts: Int32Array.from(request.inputs, (input) => input.length),
    };
  }

  /** Longer documents score higher. */
  async rerank(request: RerankRequest): Promise<Reranked> {
    this.#refuse(notPooled(this.#model, request));
    const { documents } = request;
    return {
      scores: Float32Array.from(documents, (text) => text.length / 8),
      tokenCounts: Int32Array.from(documents, (text) => text.length),
    };
  }

  get #model(): ModelDescription {
    return this.state.state === 'ready' ? this.state.model : description;
  }

  #refuse(refusal: RecuaError | undefined): void {
    const error = refusal ?? this.early;
    if (error) throw error;
  }

  /** Treats the prompt as a chat with one message. */
  complete({ prompt, ...request }: CompletionRequest, signal?: AbortSignal, released?: Released): Answer {
    const content = typeof prompt === 'string' ? prompt : prompt.join(' ');
    return this.chat({ ...chatOf(content), ...request }, signal, released);
  }

  saveState(): Promise<never> { return Promise.reject(new Error('not of this fake')); }
  restoreState(): Promise<never> { return Promise.reject(new Error('not of this fake')); }
  forget(): Promise<void> { return Promise.resolve(); }

  async render(request: ChatRequest, _signal?: AbortSignal, released: Released = () => undefined): Promise<Rendered> {
    released();
    this.#refuse(notGenerating(this.#model));
    const all = messagesOf(request);
    return { prompt: all.map(textOf).join('\n'), tokenCount: all.length };
  }

  async pieces(tokens: Int32Array): Promise<Uint8Array[]> {
    return Array.from(tokens, () => Uint8Array.of(0x78));
  }

  async tokenize(text: string): Promise<Int32Array> {
    return Int32Array.from(text, () => 1);
  }

  async detokenize(tokens: Int32Array): Promise<string> {
    return 'x'.repeat(tokens.length);
  }

  async close(): Promise<void> {
    this.state = { state: 'closed' };
  }
}

function chatOf(content: string): Omit<ChatRequest, keyof Omit<CompletionRequest, 'prompt'>> {
  return {
    messages: JSON.stringify([{ role: 'user', content }]), tools: '', toolSources: [], toolChoice: 'none', parallelToolCalls: undefined,
    enableThinking: false, templateKwargs: {}, template: '',
  };
}

function unitVector(seed: number): Float32Array {
  const raw = Array.from({ length: description.embeddingSize }, (_, at) => Math.sin(seed + at + 1));
  const length = Math.hypot(...raw);
  return Float32Array.from(raw, (value) => value / length);
}

class FakeAnswer implements Answer {
  readonly accepted: Promise<{ promptTokens: number; position: number }>;
  readonly finished: Promise<Finish>;
  used: Answer['used'];
  readonly #engine: FakeEngine;
  readonly #accept = deferred<{ promptTokens: number; position: number }>();
  readonly #finish = deferred<Finish>();
  #promptTokens = 0;
  readonly #pending: Delta[] = [];
  #ended = false;
  #error: RecuaError | undefined;
  #wake: () => void = () => undefined;

  constructor(engine: FakeEngine) {
    this.#engine = engine;
    this.accepted = this.#accept.promise;
    this.finished = this.#finish.promise;
    // Only the code under test may be blamed for unhandled promises.
    this.accepted.catch(() => undefined);
  }

  get unreadBytes(): number {
    return this.#pending.reduce((sum, { tokens }) => sum + (tokens?.bytes.length ?? 0), 0);
  }

  endThinking(): void {}

  accept(promptTokens: number, position = 0): void {
    this.#promptTokens = promptTokens;
    this.used = { promptTokens, completionTokens: 0 };
    this.#accept.resolve({ promptTokens, position });
  }

  push(delta: Delta): void {
    if (this.#ended) return;
    if (delta.soFar) this.used = delta.soFar.usage;
    const last = this.#pending.at(-1);
    if (last && !(last.tokens && delta.tokens)) this.#pending[this.#pending.length - 1] = merge(last, delta);
    else this.#pending.push(delta);
    this.#wake();
  }

  end(finish: Partial<Finish>, completionTokens: number): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#finish.resolve({
      finishReason: 'stop',
      usage: { promptTokens: this.#promptTokens, cachedTokens: 0, completionTokens },
      timings: { queueMs: 0, promptMs: 2, generateMs: 4 }, seed: 1, warnings: [],
      ...finish, ...this.#engine.finish,
    });
    this.#wake();
  }

  fail(error: RecuaError): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#error = error;
    this.#accept.reject(error);
    this.#finish.reject(error);
    this.#wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Delta> {
    for (;;) {
      const delta = this.#pending.shift();
      if (delta) {
        this.#engine.delivered++;
        yield delta;
      } else if (this.#ended) {
        if (this.#error) throw this.#error;
        return;
      } else {
        await new Promise<void>((resolve) => (this.#wake = resolve));
      }
    }
  }
}

function merge(a: Delta, b: Delta): Delta {
  const merged: Delta = {};
  if (a.content !== undefined || b.content !== undefined) merged.content = (a.content ?? '') + (b.content ?? '');
  if (a.reasoning !== undefined || b.reasoning !== undefined) merged.reasoning = (a.reasoning ?? '') + (b.reasoning ?? '');
  if (a.tokens ?? b.tokens) merged.tokens = (a.tokens ?? b.tokens)!;
  if (a.toolCalls || b.toolCalls) merged.toolCalls = [...(a.toolCalls ?? []), ...(b.toolCalls ?? [])];
  if (a.soFar ?? b.soFar) merged.soFar = (b.soFar ?? a.soFar)!;
  return merged;
}

function deferred<Value>(): { promise: Promise<Value>; resolve: (value: Value) => void; reject: (error: unknown) => void } {
  let resolve!: (value: Value) => void;
  let reject!: (error: unknown) => void;
  const promise = new Promise<Value>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
}
