// POST /v1/chat/completions: body → engine → one JSON answer or a stream of chunks. Route mounted
// by app. Headers wait until the engine has accepted the prompt, so that early failures have a real
// status; unless the model has to be loaded for long: then they go, and what fails later is an
// event.
import type { RequestHandler, Response } from 'express';
import type { Answer } from '../../engine/api.js';
import type { Lease } from '../../engine/pool-api.js';
import { WholeAnswer } from '../../engine/whole-answer.js';
import type { RecuaError } from '../../errors.js';
import { anyModel, inference, type Exchange } from './admission.js';
import { readChatRequest, type ChatBody } from './chat-request.js';
import { errorBody, logError } from '../http/error-reply.js';
import type { Fields } from '../../request/fields.js';
import type { Gateway } from '../http/gateway.js';
import { lendBody } from '../body/json-body.js';
import { ChatWriter } from './answer.js';
import { noteTokens } from '../http/request-log.js';
import { EventStream } from '../http/sse.js';

export function chatCompletions(gateway: Gateway): RequestHandler {
  return inference(gateway, (res) => new ChatExchange(gateway, res));
}

class ChatExchange implements Exchange {
  readonly #gateway: Gateway;
  readonly #res: Response;
  #answer: Answer | undefined;
  #asked: Pick<ChatBody, 'stream' | 'includeUsage'> = { stream: false, includeUsage: false };
  #writer: ChatWriter | undefined;
  #events: EventStream | undefined;
  #untilPing: NodeJS.Timeout | undefined;

  constructor(gateway: Gateway, res: Response) {
    this.#gateway = gateway;
    this.#res = res;
  }

  check(body: Fields): void {
    this.#read(body, '', anyModel);
  }

  wait(id: string): void {
    const { pingIntervalMs } = this.#gateway.config;
    if (!this.#asked.stream || pingIntervalMs <= 0) return;
    this.#untilPing = setTimeout(() => this.#open(this.#writerOf(id)), pingIntervalMs);
  }

  begin(body: Fields, { id, engine, model }: Lease, signal: AbortSignal): void {
    clearTimeout(this.#untilPing);
    const request = this.#read(body, id, model);
    this.#writerOf(id).fingerprint = `llama.cpp-${model.llamaCpp}`;
    const answer = engine.chat(request, signal, lendBody(this.#res));
    // The iterator throws the same error; nobody else waits on this promise before the iteration
    // ends.
    answer.finished.catch(() => undefined);
    answer.accepted.catch(() => undefined);
    this.#answer = answer;
  }

  async answer(): Promise<void> {
    const [answer, writer] = [this.#answer!, this.#writer!];
    await answer.accepted;
    if (this.#asked.stream) await this.#stream(answer, writer);
    else await this.#whole(answer, writer);
  }

  /**
   * After the first byte an error is an event, and the missing [DONE] says that the answer is not
   * whole.
   */
  fail(error: RecuaError): boolean {
    clearTimeout(this.#untilPing);
    if (!this.#events) return false;
    logError(this.#gateway.log, this.#res, error);
    this.#events.send(errorBody(error));
    this.#events.end();
    return true;
  }

  #read(body: Fields, id: string, model: Parameters<typeof readChatRequest>[1]['model']): ChatBody['request'] {
    const { request, stream, includeUsage } = readChatRequest(body, { defaults: this.#gateway.defaultsOf(id), model });
    this.#asked = { stream, includeUsage };
    return request;
  }

  #writerOf(id: string): ChatWriter {
    return (this.#writer ??= new ChatWriter({ model: id, includeUsage: this.#asked.includeUsage }));
  }

  #open(writer: ChatWriter): EventStream {
    const events = new EventStream(this.#res);
    this.#events = events;
    events.open({ afterMs: this.#gateway.config.pingIntervalMs, data: () => writer.chunk({}) });
    events.send(writer.chunk({ role: 'assistant', content: '' }));
    return events;
  }

  async #whole(answer: Answer, writer: ChatWriter): Promise<void> {
    const said = new WholeAnswer();
    for await (const delta of answer) said.add(delta);
    const finish = await answer.finished;
    noteTokens(this.#res, finish.usage.promptTokens, finish.usage.completionTokens);
    this.#res.json(writer.completion(said, finish));
  }

  async #stream(answer: Answer, writer: ChatWriter): Promise<void> {
    const events = this.#events ?? this.#open(writer);
    for await (const delta of answer) {
      for (const part of writer.deltas(delta)) events.send(writer.chunk(part));
      await events.writable();
    }
    const finish = await answer.finished;
    noteTokens(this.#res, finish.usage.promptTokens, finish.usage.completionTokens);
    events.send(writer.chunk({}, finish));
    if (this.#asked.includeUsage) events.send(writer.usageChunk(finish));
    events.send('[DONE]');
    events.end();
  }
}
