// An answerer that uses a model of a running server: requests go there over HTTP, answers stream
// back. Opened by open.ts. The request states every value of the command line and its defaults, so
// that answers are the same as from an engine of this process.
import { randomInt } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import type { Answer } from '../../engine/api.js';
import { RunningAnswer } from '../../engine/gateway/answer.js';
import type { ChatRequest } from '../../engine/protocol.js';
import { RecuaError } from '../../errors.js';
import type { ErrorCode } from '../../errors.js';
import { ChatReader, chatPath, chatTokensPath, eventsOf, writeChatBody } from '../../server/openai/asking.js';
import { objectOf } from '../servers/served-model.js';
import { ServerClient } from '../servers/server-client.js';
import type { Answerer, Recovery, TokenCounts } from './answerer.js';
import type { RunningModel } from './running-models.js';

/** After these, the server or the model will not answer again. */
const gone: ReadonlySet<ErrorCode> = new Set(['server_unreachable', 'shutting_down', 'model_not_found']);
const lookMs = 200;

export class ServedModel implements Answerer {
  readonly name: string;
  readonly id: string;
  readonly description: string;
  readonly contextSize: number;
  readonly url: string;
  readonly key: string | undefined;
  readonly certificate: string | undefined;
  readonly place = undefined;
  /** The server keeps its KV cache itself. */
  readonly kv = undefined;
  readonly #client: ServerClient;
  /** Its name on the server. */
  readonly #served: string;

  constructor({ name, id }: { name: string; id: string }, { url, key, certificate, id: served, description, contextSize }: RunningModel) {
    this.name = name;
    this.id = id;
    this.description = description;
    this.contextSize = contextSize;
    this.url = url;
    this.key = key;
    this.certificate = certificate;
    this.#client = new ServerClient({ url, key, certificate });
    this.#served = served;
  }

  chat(request: ChatRequest, signal: AbortSignal): Answer {
    const left = new AbortController();
    const answer = new RunningAnswer(() => left.abort());
    void this.#answer(request, answer, AbortSignal.any([signal, left.signal]));
    return answer;
  }

  async count(request: ChatRequest, answer: string, signal: AbortSignal): Promise<TokenCounts | undefined> {
    const answers = Promise.all([
      this.#client.postJson(chatTokensPath, writeChatBody(request, this.#served), signal),
      this.#client.postJson('/tokenize', { model: this.#served, content: answer, parse_special: false }, signal),
    ]);
    const [prompt, text] = await answers.then((all) => all.map(objectOf), () => []);
    const [promptTokens, tokens] = [prompt?.['input_tokens'], text?.['tokens']];
    // A proxy in between may answer with anything.
    return typeof promptTokens === 'number' && Array.isArray(tokens) ? { promptTokens, completionTokens: tokens.length } : undefined;
  }

  async forget(): Promise<void> {
    // The server keeps nothing for this command alone, and evicts what is not used again.
  }

  async recover({ code }: RecuaError, signal: AbortSignal): Promise<Recovery> {
    if (gone.has(code)) return 'gone';
    if (code !== 'model_crashed') return 'unharmed';
    for (;;) {
      const model = await this.#client.getJson(`/v1/models/${this.#served.split('/').map(encodeURIComponent).join('/')}`).catch(() => undefined);
      if (!model) return 'gone';
      const { value, reason } = (model as { status?: { value?: string; reason?: { message: string } } }).status ?? {};
      if (value === 'failed') throw new RecuaError('model_unusable', reason?.message ?? 'The server cannot load the model again.');
      if (value !== 'loading') return 'back';
      await wait(lookMs, undefined, { signal }).catch((cause: unknown) => {
        throw new RecuaError('cancelled', 'Stopped while the model was loading.', { cause });
      });
    }
  }

  async close(): Promise<void> {
    // The server decides how long the model stays loaded.
  }

  async #answer(request: ChatRequest, answer: RunningAnswer, signal: AbortSignal): Promise<void> {
    // Drawn here, so that it can be reported: the response does not contain it.
    const seed = request.sampling.seed ?? randomInt(1, 2 ** 32 - 1);
    const body = writeChatBody({ ...request, sampling: { ...request.sampling, seed } }, this.#served);
    const askedMs = performance.now();
    let firstMs: number | undefined;
    try {
      const response = await this.#client.post(chatPath, body, signal);
      const reader = new ChatReader();
      for await (const event of eventsOf(response.body!)) {
        const delta = reader.read(event);
        if (!delta) continue;
        firstMs ??= performance.now();
        answer.push(delta);
      }
      const finish = reader.finish();
      if (!finish) throw this.#cutOff();
      // The wait before the prompt was read, including the network.
      const queueMs = Math.max(0, (firstMs ?? performance.now()) - askedMs - finish.timings.promptMs);
      answer.accept(finish.usage.promptTokens, 0);
      answer.end({ ...finish, seed, timings: { ...finish.timings, queueMs } });
    } catch (thrown) {
      answer.fail(signal.aborted ? new RecuaError('cancelled', 'The request was cancelled.', { cause: thrown }) : this.#failure(thrown));
    }
  }

  #failure(thrown: unknown): RecuaError {
    if (!(thrown instanceof RecuaError)) return this.#cutOff(thrown);
    if (thrown.code !== 'context_length_exceeded' || !thrown.message.includes('--ctx-size')) return thrown;
    const { code, message, param, details } = thrown;
    return new RecuaError(code, `${message} The running server ${this.url} answers here; with --local or -c, this command loads the model itself.`, { param, details, cause: thrown });
  }

  #cutOff(cause?: unknown): RecuaError {
    return new RecuaError('server_unreachable', `The server ${this.url} ended the connection before its answer was complete.`, { cause });
  }
}
