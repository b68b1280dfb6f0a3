// A chat or completion in any dialect: body → engine → one JSON answer or a stream. The headers are
// sent when the engine has accepted the prompt, so that early failures have a real status. (Of
// several prompts, some may wait until others are answered; these are not waited for.) If that, or
// loading the model, takes long, they are sent earlier, and later failures are messages of the
// stream. A load balancer can ask to hold the headers until the first piece: as long as it has
// received nothing, it can send the request to another server.
import { setMaxListeners } from 'node:events';
import type { RequestHandler, Response } from 'express';
import type { Answer, Engine, Finish, Released } from '../../engine/api.js';
import type { Lease } from '../../engine/pool-api.js';
import type { Delta } from '../../engine/protocol.js';
import type { Telling } from '../../engine/telling.js';
import { WholeAnswer } from '../../engine/whole-answer.js';
import { RecuaError } from '../../errors.js';
import type { Fields } from '../../request/fields.js';
import { checkUnknown, readNear } from '../../request/unknown-fields.js';
import { freeBody, lendBody } from '../body/json-body.js';
import { holdMore } from '../body/reply-memory.js';
import { logError } from '../http/error-reply.js';
import type { Gateway } from '../http/gateway.js';
import { factsOf, noteAsked, noteFinishes } from '../http/facts.js';
import { Stream, type Frame } from '../http/stream.js';
import { anyModel, inference, openHeader, priorityOf, type Exchange } from './admission.js';
import { boundCopies } from './copies.js';
import { sendJson } from './send-json.js';
import { Siblings } from './siblings.js';
import type { AnswerWriter, AskedRest, ChatAsked, ChatContext, ChatDialect, EngineRequest } from './dialect.js';

export function chatRoute<Asked extends ChatAsked>(gateway: Gateway, dialect: ChatDialect<Asked>): RequestHandler {
  return inference(gateway, (res) => new ChatExchange(gateway, res, dialect));
}

/** Answers to one prompt. The first is running; the others begin when the prompt is evaluated. */
interface Group {
  first: Answer;
  /** Resolves if it waits until another answer of the exchange has ended. */
  waits: Promise<void>;
  /** Index of the first one among all answers. */
  index: number;
  rest: readonly EngineRequest[];
}

/** How often unread log probabilities are charged. */
const chargeMs = 500;
/** A piece that took longer than this to send was waiting for the client. */
const slowReaderMs = 5;

/** Sent after this time anyway, since proxies drop connections that are silent for a minute. */
const mostHeldMs = 55_000;

/** Receives each piece of the answers. */
type Sink = (delta: Delta, index: number) => Promise<void> | void;

class ChatExchange<Asked extends ChatAsked> implements Exchange {
  readonly #gateway: Gateway;
  readonly #res: Response;
  readonly #dialect: ChatDialect<Asked>;
  #groups: Group[] = [];
  #start: (request: EngineRequest, waits?: () => void) => Answer = () => { throw new Error('nothing began'); };
  /** Ends all answers when one has failed. */
  readonly #failed = new AbortController();
  #asked: AskedRest<Asked> | undefined;
  #writer: AnswerWriter | undefined;
  #stream: Stream | undefined;
  readonly #client: string;
  /** Warnings of the whole exchange, reported with the first answer. */
  #warnings: readonly string[] = [];
  /** Warnings about unknown fields. */
  #unknown: readonly string[] = [];
  #untilPing: NodeJS.Timeout | undefined;
  /** The answers that have begun, if requests may end their thinking. */
  #controlled: Answer[] | undefined;
  #leave = (): void => undefined;
  /** Gives back the memory of the answers that never began. */
  #startNoMore = (): void => undefined;
  /** The output that the client asked for; the page of running answers may need more. */
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

  wait(body: Fields, id: string): void {
    if (!this.#asked?.stream) return;
    // A stream that opens before the model is loaded may repeat the model's defaults.
    this.#read(body, id, anyModel);
    this.#openLater(() => this.#writerOf(id));
  }

  /** Opens the stream after a while in any case, since clients give up on silent streams. */
  #openLater(writer: () => AnswerWriter): void {
    const { pingIntervalMs } = this.#gateway.config;
    if (!this.#asked?.stream || this.#stream || pingIntervalMs <= 0) return;
    clearTimeout(this.#untilPing);
    this.#untilPing = setTimeout(() => this.#open(writer()), this.#isHeld ? mostHeldMs : pingIntervalMs);
  }

  begin(body: Fields, lease: Lease, signal: AbortSignal, warnings: readonly string[]): void {
    clearTimeout(this.#untilPing);
    const { id, engine, model } = lease;
    const prompts = this.#read(body, id, model);
    // The model is free once it has computed all answers, however slowly the client reads them.
    const count = prompts.flat().length;
    const ended = afterAll(() => lease.release(), count);
    this.#warnings = [...this.#asked?.warnings ?? [], ...this.#unknown, ...warnings];
    this.#writerOf(id).computedBy?.(model, factsOf(this.#res).loadMs ?? 0);
    const either = AbortSignal.any([signal, this.#failed.signal]);
    // Each of its answers listens.
    setMaxListeners(0, either);
    if (prompts.some(([request]) => request && 'thoughts' in request && request.thoughts?.control)) this.#controlled = [];
    const released = this.#dialect.keepsBody ? () => undefined : lendBody(this.#res);
    const siblings = new Siblings(count, (request, stop, gone) => start(engine, request, stop, gone), either, released);
    this.#startNoMore = () => siblings.close();
    const salt = this.#gateway.saltOf(this.#res);
    const answers = (factsOf(this.#res).answers ??= []);
    this.#start = (request, waits) => {
      const priority = priorityOf(this.#gateway, this.#res, request.asker?.priority ?? 0);
      const asked = { ...request, asker: { client: this.#client, priority, ...(salt === undefined ? {} : { salt }) } };
      const isWatched = this.#gateway.running.isWatched || this.#gateway.countsTokens(this.#res);
      const answer = siblings.begin(isWatched ? watched(asked) : asked, waits);
      answers.push(answer);
      answer.finished.then(ended, ended);
      this.#controlled?.push(answer);
      return answer;
    };
    const writer = this.#writer!;
    const begunMs: number[] = [];
    Object.assign(factsOf(this.#res), { generates: true, answerId: writer.id, begunMs });
    noteAsked(this.#res, prompts[0]![0]!, { stream: this.#asked!.stream, choices: count });
    this.#tells = prompts[0]?.[0]?.tells ?? {};
    this.#model = id;
    if (writer.id !== undefined) {
      const by = this.#gateway.ownerOf(this.#res).name;
      this.#leave = this.#gateway.live.add(writer.id, { answers: this.#controlled ?? [], hasControl: this.#controlled !== undefined, by });
    }
    let index = 0;
    for (const [request, ...rest] of prompts) {
      begunMs[index] = performance.now();
      let nowWaits = (): void => undefined;
      const waits = new Promise<void>((resolve) => (nowWaits = resolve));
      this.#groups.push({ first: this.#start(request!, nowWaits), waits, index, rest });
      index += 1 + rest.length;
    }
  }

  async answer(): Promise<void> {
    const writer = this.#writer!;
    try {
      this.#openLater(() => writer);
      const accepted = await Promise.all(this.#groups.map(({ first, waits }) => Promise.race([first.accepted, waits])));
      if (!this.#isHeld) clearTimeout(this.#untilPing);
      const promptTokens = accepted.length === 1 ? accepted[0]!.promptTokens : undefined;
      const position = Math.max(...accepted.map((one) => one?.position ?? 0));
      if (position > 0 && !this.#res.headersSent) this.#res.set('X-Queue-Position', String(position));
      if (promptTokens !== undefined) writer.accepted?.(promptTokens);
      if (this.#asked!.stream) await this.#write(writer, promptTokens);
      else await this.#whole(writer);
    } catch (thrown) {
      // The other answers end too, but their errors are not the cause.
      this.#failed.abort(RecuaError.from(thrown));
      throw this.#failed.signal.reason;
    } finally {
      this.#leave();
      this.#startNoMore();
    }
  }

  /** After the first byte, an error is a message, since a stream that just ends looks complete. */
  fail(error: RecuaError): boolean {
    clearTimeout(this.#untilPing);
    this.#leave();
    this.#startNoMore();
    if (!this.#stream) return false;
    logError(this.#gateway.log, this.#res, error);
    const stream = this.#stream;
    stream.quiet();
    const sending = this.#sendLast(stream, this.#writer!.failure(error, String(this.#res.getHeader('x-request-id'))));
    if (sending) sending.then(() => stream.end(), () => this.#res.destroy());
    else stream.end();
    return true;
  }

  /** The last frames of a response repeat all log probabilities. */
  #sendLast(stream: Stream, frames: readonly Frame[]): Promise<void> | undefined {
    if (this.#tells.logprobs !== undefined) return stream.sendInTurns(frames);
    stream.send(...frames);
    return undefined;
  }

  #read(body: Fields, id: string, model: ChatContext['model']): ChatAsked['prompts'] {
    const { prompts, ...asked } = readNear(body, () => this.#dialect.read(body, { defaults: this.#gateway.defaultsOf(id), model }));
    boundCopies(prompts);
    // The writer of a stream that opened while the model loads holds this object.
    this.#asked = Object.assign(this.#asked ?? {}, asked);
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
    const reply = await writer.whole(finishes.map((_, index) => said[index] ?? new WholeAnswer()), finishes);
    freeBody(this.#res);
    await sendJson(this.#res, reply);
  }

  async #write(writer: AnswerWriter, promptTokens: number | undefined): Promise<void> {
    const opened = (): Stream => this.#stream ?? this.#open(writer, promptTokens);
    const send = (frames: Frame[] | Generator<Frame>): Promise<void> | undefined => {
      // Several frames may each repeat all log probabilities.
      if (!Array.isArray(frames) || (this.#tells.logprobs !== undefined && frames.length > 1)) return opened().sendInTurns(frames);
      opened().send(...frames);
      return opened().writable();
    };
    if (!this.#isHeld) opened();
    const finishes = await this.#charging(() => this.#all(
      (delta, index) => {
        opened();
        return send(writer.deltas(delta, index));
      },
      (finish, index) => send(writer.ended?.(finish, index) ?? []),
    ));
    noteFinishes(this.#res, finishes);
    // A ping would come between the last frames.
    opened().quiet();
    await this.#sendLast(opened(), await writer.ending(finishes));
    opened().end();
  }

  /** Meanwhile, log probabilities that the client does not read count as part of the reply. */
  async #charging<Result>(work: () => Promise<Result>): Promise<Result> {
    if (this.#tells.logprobs === undefined) return await work();
    const timer = setInterval(() => {
      holdMore(this.#res, (factsOf(this.#res).answers ?? []).reduce((sum, { unreadBytes }) => sum + unreadBytes, 0));
    }, chargeMs);
    try {
      return await work();
    } finally {
      clearInterval(timer);
      holdMore(this.#res, 0);
    }
  }

  /** Runs all answers to the end. Results are in the order of their indices. */
  async #all(sink: Sink, ended?: (finish: Finish, index: number) => Promise<void> | undefined): Promise<Finish[]> {
    const { meter } = factsOf(this.#res);
    const { begunMs = [] } = factsOf(this.#res);
    const { stream, intervalMs: asked = 0 } = this.#asked!;
    const intervalMs = stream ? asked : 0;
    const sharing = (factsOf(this.#res).sharing ??= []);
    const follow = async (answer: Answer, index: number, begun?: () => void): Promise<Finish> => {
      const followed = this.#gateway.running.follow(String(this.#res.getHeader('x-request-id')), this.#model, this.#gateway.askedBy(this.#res));
      if (!begun) sharing.push(answer);
      answer.accepted.then(({ promptTokens }) => followed.accepted(promptTokens), () => undefined);
      const pause = pauseOf(answer, intervalMs);
      let beforeMs: number | undefined;
      let end: Finish;
      try {
        for await (const told of answer) {
          followed.add(told);
          const delta = this.#wanted(told);
          if (!delta) continue;
          begun?.();
          if (meter && says(delta)) {
            const nowMs = performance.now();
            if (beforeMs !== undefined) meter.gap(nowMs - beforeMs);
            else meter.first();
            const taken = sink(delta, index);
            // A gap that the client asked for, or that a slow client causes, says nothing about the
            // engine.
            beforeMs = intervalMs > 0 ? undefined : nowMs;
            if (taken) {
              const askedMs = performance.now();
              await taken;
              if (performance.now() - askedMs > slowReaderMs) beforeMs = undefined;
            }
          } else await sink(delta, index);
          await pause();
        }
        end = await answer.finished;
        followed.finished(end);
      } finally {
        followed.leave();
      }
      const finish = index === 0 && this.#warnings.length > 0 ? { ...end, warnings: [...end.warnings, ...this.#warnings] } : end;
      await ended?.(finish, index);
      return finish;
    };
    const groups = this.#groups.map(async ({ first, index, rest }) => {
      const others: Promise<Finish>[] = [];
      // With the first token of the first answer, the prompt is evaluated for all.
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

  /** Removes what only the page asked for; undefined if nothing is left. */
  #wanted(told: Delta): Delta | undefined {
    if (!told.progress && !told.soFar) return told;
    const { progress, soFar, ...delta } = told;
    if (progress && this.#tells.progress) Object.assign(delta, { progress });
    if (soFar && this.#tells.timings) Object.assign(delta, { soFar });
    return Object.keys(delta).length === 0 ? undefined : delta;
  }
}

/** Whether the delta has a part of the answer, not just of its prompt. */
function says({ content, reasoning, toolCalls }: Delta): boolean {
  return content !== undefined || reasoning !== undefined || toolCalls !== undefined;
}

/** A function that waits that long, or until the answer is complete. */
function pauseOf(answer: Answer, ms: number): () => Promise<void> | undefined {
  if (ms === 0) return () => undefined;
  let isOver = false;
  let wake = (): void => undefined;
  const over = (): void => {
    isOver = true;
    wake();
  };
  answer.finished.then(over, over);
  return () => (isOver ? undefined : new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, ms);
    wake = () => {
      clearTimeout(timer);
      resolve();
    };
  }));
}

/** The request with progress reports added. */
function watched(request: EngineRequest): EngineRequest {
  return { ...request, tells: { ...request.tells, progress: true, timings: true } };
}

function start(engine: Engine, request: EngineRequest, signal: AbortSignal, released: Released): Answer {
  const answer = 'prompt' in request ? engine.complete(request, signal, released) : engine.chat(request, signal, released);
  // The iterator throws the same error, and nothing else awaits these before the iteration ends.
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

/** Calls `released` on the last of `times` calls. */
function afterAll(released: Released, times: number): Released {
  return () => {
    if (--times === 0) released();
  };
}
