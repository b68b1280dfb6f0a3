// A chat or completion in any dialect: body → engine → one JSON answer or a stream. Headers wait
// until the engine has accepted the prompt, so that early failures have a real status; unless that
// takes long, or loading the model does: then they go, and what fails later is a message of the
// stream. A balancer asks that they wait for the first piece: it can send a request of which it has
// not heard to another server.
import type { RequestHandler, Response } from 'express';
import type { Answer, Engine, Finish, Released } from '../../engine/api.js';
import type { Lease } from '../../engine/pool-api.js';
import type { Delta } from '../../engine/protocol.js';
import type { Telling } from '../../engine/telling.js';
import { WholeAnswer } from '../../engine/whole-answer.js';
import { RecuaError } from '../../errors.js';
import type { Fields } from '../../request/fields.js';
import { idlePriority } from '../../request/priority.js';
import { checkUnknown } from '../../request/unknown-fields.js';
import { lendBody } from '../body/json-body.js';
import { logError } from '../http/error-reply.js';
import type { Gateway } from '../http/gateway.js';
import { factsOf, noteAsked, noteFinishes } from '../http/facts.js';
import { IdleWork, reasonOf } from '../http/inner.js';
import { Stream } from '../http/stream.js';
import { anyModel, inference, type Exchange } from './admission.js';
import type { AnswerWriter, AskedRest, ChatAsked, ChatContext, ChatDialect, EngineRequest } from './dialect.js';

export function chatRoute<Asked extends ChatAsked>(gateway: Gateway, dialect: ChatDialect<Asked>): RequestHandler {
  return inference(gateway, (res) => new ChatExchange(gateway, res, dialect));
}

/** Answers to one prompt: the first is under way, the others begin when that is read. */
interface Group {
  first: Answer;
  /** Of the first, among all answers. */
  index: number;
  rest: readonly EngineRequest[];
}

/** A piece that took so long to be taken waited for the client. */
const slowReaderMs = 5;

/** What a balancer asks of a stream: no byte of it before its first piece. */
const openHeader = 'x-stream-opens';
/** Then, however: programs on the way give up what is silent for a minute. */
const mostHeldMs = 55_000;

/** What is done with each piece of the answers. */
type Sink = (delta: Delta, index: number) => Promise<void> | void;

class ChatExchange<Asked extends ChatAsked> implements Exchange {
  readonly #gateway: Gateway;
  readonly #res: Response;
  readonly #dialect: ChatDialect<Asked>;
  #groups: Group[] = [];
  #start: (request: EngineRequest) => Answer = () => { throw new Error('nothing began'); };
  /** Ends all answers where one failed. */
  readonly #failed = new AbortController();
  #asked: AskedRest<Asked> | undefined;
  #writer: AnswerWriter | undefined;
  #stream: Stream | undefined;
  readonly #client: string;
  /** Of the whole exchange: the first answer tells them. */
  #warnings: readonly string[] = [];
  /** Of fields that nobody reads. */
  #unknown: readonly string[] = [];
  #untilPing: NodeJS.Timeout | undefined;
  /** Those that were begun, where others may tell them to end their thinking. */
  #controlled: Answer[] | undefined;
  #leave = (): void => undefined;
  /** What the client wants to be told; the page that shows what runs may want more. */
  #tells: Telling = {};
  #model = '';
  /** Whether the headers wait for the first piece. */
  readonly #isHeld: boolean;

  /** Throws `invalid_value`. */
  constructor(gateway: Gateway, res: Response, dialect: ChatDialect<Asked>) {
    this.#gateway = gateway;
    this.#res = res;
    this.#dialect = dialect;
    this.#client = gateway.clientOf(res);
    factsOf(res).operation = dialect.operation;
    this.#isHeld = readsHeld(res);
  }

  check(body: Fields): void {
    this.#read(body, '', anyModel);
  }

  wait(id: string): void {
    this.#openLater(() => this.#writerOf(id));
  }

  /** Clients give up a stream of which nothing is heard, so it begins however long it takes. */
  #openLater(writer: () => AnswerWriter): void {
    const { pingIntervalMs } = this.#gateway.config;
    if (!this.#asked?.stream || this.#stream || pingIntervalMs <= 0) return;
    clearTimeout(this.#untilPing);
    this.#untilPing = setTimeout(() => this.#open(writer()), this.#isHeld ? mostHeldMs : pingIntervalMs);
  }

  begin(body: Fields, { id, engine, model }: Lease, signal: AbortSignal, warnings: readonly string[]): void {
    clearTimeout(this.#untilPing);
    const prompts = this.#read(body, id, model);
    this.#warnings = [...this.#asked?.warnings ?? [], ...this.#unknown, ...warnings];
    this.#writerOf(id).computedBy?.(model);
    const released = this.#dialect.keepsBody ? () => undefined : afterAll(lendBody(this.#res), prompts.flat().length);
    const either = AbortSignal.any([signal, this.#failed.signal]);
    if (prompts.some(([request]) => request && 'thoughts' in request && request.thoughts?.control)) this.#controlled = [];
    const salt = this.#gateway.saltOf(this.#res);
    this.#start = (request) => {
      const priority = isIdleWork(this.#res) ? idlePriority : Math.min(request.asker?.priority ?? 0, this.#gateway.mostPriority(this.#res));
      const asked = { ...request, asker: { client: this.#client, priority, ...(salt === undefined ? {} : { salt }) } };
      const answer = start(engine, this.#gateway.running.isWatched || this.#gateway.countsTokens(this.#res) ? watched(asked) : asked, either, released);
      this.#controlled?.push(answer);
      return answer;
    };
    const writer = this.#writer!;
    const begunMs: number[] = [];
    Object.assign(factsOf(this.#res), { generates: true, answerId: writer.id, begunMs });
    noteAsked(this.#res, prompts[0]![0]!, { stream: this.#asked!.stream, choices: prompts.flat().length });
    this.#tells = prompts[0]?.[0]?.tells ?? {};
    this.#model = id;
    if (writer.id !== undefined) this.#leave = this.#gateway.live.add(writer.id, { answers: this.#controlled ?? [], hasControl: this.#controlled !== undefined });
    let index = 0;
    for (const [request, ...rest] of prompts) {
      begunMs[index] = performance.now();
      this.#groups.push({ first: this.#start(request!), index, rest });
      index += 1 + rest.length;
    }
  }

  async answer(): Promise<void> {
    const writer = this.#writer!;
    try {
      this.#openLater(() => writer);
      const accepted = await Promise.all(this.#groups.map(({ first }) => first.accepted));
      if (!this.#isHeld) clearTimeout(this.#untilPing);
      const promptTokens = accepted.reduce((sum, one) => sum + one.promptTokens, 0);
      const position = Math.max(...accepted.map((one) => one.position));
      if (position > 0 && !this.#res.headersSent) this.#res.set('X-Queue-Position', String(position));
      if (this.#asked!.stream) await this.#write(writer, promptTokens);
      else await this.#whole(writer);
    } catch (thrown) {
      // The others end; what they say of that is not why.
      this.#failed.abort(RecuaError.from(thrown));
      throw this.#failed.signal.reason;
    } finally {
      this.#leave();
    }
  }

  /** After the first byte an error is a message: a stream that just ends would look whole. */
  fail(error: RecuaError): boolean {
    clearTimeout(this.#untilPing);
    this.#leave();
    if (!this.#stream) return false;
    logError(this.#gateway.log, this.#res, error);
    this.#stream.send(...this.#writer!.failure(error));
    this.#stream.end();
    return true;
  }

  #read(body: Fields, id: string, model: ChatContext['model']): ChatAsked['prompts'] {
    const { prompts, ...asked } = this.#dialect.read(body, { defaults: this.#gateway.defaultsOf(id), model });
    this.#asked = asked;
    this.#unknown = checkUnknown(body);
    return prompts;
  }

  #writerOf(id: string): AnswerWriter {
    return (this.#writer ??= this.#dialect.writer(this.#asked!, id));
  }

  #open(writer: AnswerWriter, promptTokens?: number): Stream {
    clearTimeout(this.#untilPing);
    const stream = new Stream(this.#res, this.#dialect.framing);
    this.#stream = stream;
    stream.open({ afterMs: this.#gateway.config.pingIntervalMs, frame: () => writer.ping() });
    stream.send(...writer.opening(promptTokens));
    return stream;
  }

  async #whole(writer: AnswerWriter): Promise<void> {
    const said: WholeAnswer[] = [];
    const finishes = await this.#all((delta, index) => (said[index] ??= new WholeAnswer()).add(delta));
    noteFinishes(this.#res, finishes);
    this.#res.json(await writer.whole(finishes.map((_, index) => said[index] ?? new WholeAnswer()), finishes));
  }

  async #write(writer: AnswerWriter, promptTokens: number): Promise<void> {
    const opened = (): Stream => this.#stream ?? this.#open(writer, promptTokens);
    if (!this.#isHeld) opened();
    const finishes = await this.#all(
      (delta, index) => {
        const stream = opened();
        stream.send(...writer.deltas(delta, index));
        return stream.writable();
      },
      (finish, index) => opened().send(...writer.ended?.(finish, index) ?? []),
    );
    noteFinishes(this.#res, finishes);
    const ending = await writer.ending(finishes);
    opened().send(...ending);
    opened().end();
  }

  /** All answers to the end, in the order of their indices. */
  async #all(sink: Sink, ended?: (finish: Finish, index: number) => void): Promise<Finish[]> {
    const { meter } = factsOf(this.#res);
    const { begunMs = [] } = factsOf(this.#res);
    const spent = (factsOf(this.#res).spent ??= []);
    const follow = async (answer: Answer, index: number, begun?: () => void): Promise<Finish> => {
      const followed = this.#gateway.running.follow(String(this.#res.getHeader('x-request-id')), this.#model);
      answer.accepted.then(({ promptTokens }) => {
        followed.accepted(promptTokens);
        spent[index] = promptTokens;
      }, () => undefined);
      let beforeMs: number | undefined;
      let end: Finish;
      try {
        for await (const told of answer) {
          followed.add(told);
          if (told.soFar) spent[index] = told.soFar.usage.promptTokens + told.soFar.usage.completionTokens;
          const delta = this.#wanted(told);
          if (!delta) continue;
          begun?.();
          if (meter && says(delta)) {
            const nowMs = performance.now();
            if (beforeMs !== undefined) meter.gap(nowMs - beforeMs);
            else meter.first();
            const taken = sink(delta, index);
            beforeMs = nowMs;
            if (taken) {
              const askedMs = performance.now();
              await taken;
              // What a slow reader made wait is no measure of the engine.
              if (performance.now() - askedMs > slowReaderMs) beforeMs = undefined;
            }
          } else await sink(delta, index);
        }
        end = await answer.finished;
        followed.finished(end);
      } finally {
        followed.leave();
      }
      const finish = index === 0 && this.#warnings.length > 0 ? { ...end, warnings: [...end.warnings, ...this.#warnings] } : end;
      ended?.(finish, index);
      return finish;
    };
    const groups = this.#groups.map(async ({ first, index, rest }) => {
      const others: Promise<Finish>[] = [];
      // From its first token on the first has the prompt evaluated, for all.
      const startOthers = (): void => {
        for (const request of rest.slice(others.length)) {
          begunMs[index + 1 + others.length] = performance.now();
          const other = follow(this.#start(request), index + 1 + others.length);
          other.catch((thrown: unknown) => this.#failed.abort(RecuaError.from(thrown)));
          others.push(other);
        }
      };
      const finish = await follow(first, index, startOthers);
      startOthers();
      return [finish, ...await Promise.all(others)];
    });
    return (await Promise.all(groups)).flat();
  }

  /** Without what nobody but the page asked for; undefined where nothing is left. */
  #wanted(told: Delta): Delta | undefined {
    if (!told.progress && !told.soFar) return told;
    const { progress, soFar, ...delta } = told;
    if (progress && this.#tells.progress) Object.assign(delta, { progress });
    if (soFar && this.#tells.timings) Object.assign(delta, { soFar });
    return Object.keys(delta).length === 0 ? undefined : delta;
  }
}

/** Something of an answer, not of its prompt. */
function says({ content, reasoning, toolCalls }: Delta): boolean {
  return content !== undefined || reasoning !== undefined || toolCalls !== undefined;
}

/** Tells how far it is, too. */
function watched(request: EngineRequest): EngineRequest {
  return { ...request, tells: { ...request.tells, progress: true, timings: true } };
}

function start(engine: Engine, request: EngineRequest, signal: AbortSignal, released: Released): Answer {
  const answer = 'prompt' in request ? engine.complete(request, signal, released) : engine.chat(request, signal, released);
  // The iterator throws the same error; nobody else waits on these before the iteration ends.
  answer.finished.catch(() => undefined);
  answer.accepted.catch(() => undefined);
  return answer;
}

function readsHeld({ req }: Response): boolean {
  const given = req.headers[openHeader];
  if (given !== undefined && given !== 'first-piece') {
    throw new RecuaError('invalid_value', `Expected first-piece for the header ${openHeader}, got ${JSON.stringify(given)}.`, { param: openHeader });
  }
  return given !== undefined;
}

function isIdleWork({ req }: Response): boolean {
  return reasonOf(req) instanceof IdleWork;
}

/** Calls back when it was called so often. */
function afterAll(released: Released, times: number): Released {
  return () => {
    if (--times === 0) released();
  };
}
