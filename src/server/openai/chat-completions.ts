// POST /v1/chat/completions: body → engine → one JSON answer or a stream of chunks.
// Route mounted by app. Headers wait until the engine has accepted the prompt, so that early failures have a real status.
import type { Request, RequestHandler, Response } from 'express';
import type { Answer } from '../../engine/api.js';
import { WholeAnswer } from '../../engine/whole-answer.js';
import { readChatRequest, readModelName } from './chat-request.js';
import { errorBody, logError } from '../http/error-reply.js';
import { Fields } from '../../request/fields.js';
import { readyModel, type Gateway } from '../http/gateway.js';
import { lendBody, takeBody } from '../body/json-body.js';
import { checkModel } from './models.js';
import { ChatWriter } from './answer.js';
import { noteTokens } from '../http/request-log.js';
import { EventStream } from '../http/sse.js';
import { failureOf } from '../http/traffic.js';

export function chatCompletions(gateway: Gateway): RequestHandler {
  return async (req: Request, res: Response) => {
    const { answer, signal, writer, stream, includeUsage } = begin(gateway, req, res);
    try {
      await answer.accepted;
      if (stream) await streamAnswer(gateway, res, answer, writer, signal, includeUsage);
      else await wholeAnswer(res, answer, writer);
    } catch (thrown) {
      throw failureOf(thrown, signal);
    }
  };
}

/** Hands the request to the engine. What it is given is nowhere in the result: the engine says when the text is gone. */
function begin({ engine, config, served, traffic }: Gateway, req: Request, res: Response) {
  const model = readyModel(engine);
  const body = Fields.of(takeBody(req));
  checkModel(served, readModelName(body));
  const { request, stream, includeUsage } = readChatRequest(body, { config, model });
  const signal = traffic.enter(res);
  const writer = new ChatWriter({ model: served.id, fingerprint: `llama.cpp-${model.llamaCpp}`, includeUsage });
  const answer = engine.chat(request, signal, lendBody(res));
  // The iterator throws the same error; nobody else waits on this promise before the iteration ends.
  answer.finished.catch(() => undefined);
  answer.accepted.catch(() => undefined);
  return { answer, signal, writer, stream, includeUsage };
}

async function wholeAnswer(res: Response, answer: Answer, writer: ChatWriter): Promise<void> {
  const said = new WholeAnswer();
  for await (const delta of answer) said.add(delta);
  const finish = await answer.finished;
  noteTokens(res, finish.usage.promptTokens, finish.usage.completionTokens);
  res.json(writer.completion(said, finish));
}

/** Never throws: after the first byte an error is an event, and the missing [DONE] says that the answer is not whole. */
async function streamAnswer(
  { config, log }: Gateway, res: Response, answer: Answer, writer: ChatWriter, signal: AbortSignal, includeUsage: boolean,
): Promise<void> {
  const events = new EventStream(res);
  events.open({ afterMs: config.pingIntervalMs, data: () => writer.chunk({}) });
  events.send(writer.chunk({ role: 'assistant', content: '' }));
  try {
    for await (const delta of answer) {
      for (const part of writer.deltas(delta)) events.send(writer.chunk(part));
      await events.writable();
    }
    const finish = await answer.finished;
    noteTokens(res, finish.usage.promptTokens, finish.usage.completionTokens);
    events.send(writer.chunk({}, finish));
    if (includeUsage) events.send(writer.usageChunk(finish));
    events.send('[DONE]');
  } catch (thrown) {
    const error = failureOf(thrown, signal);
    logError(log, res, error);
    events.send(errorBody(error));
  } finally {
    events.end();
  }
}
