// Attributes of a request's span, by OpenTelemetry's semantic conventions for GenAI and HTTP:
// numbers and the server's own names. They contain no text of prompts or answers. Stop strings and
// error messages are left out as well, since they may quote the request.
import type { Attributes } from '@opentelemetry/api';
import type { Request } from 'express';
import type { Facts } from '../http/facts.js';
import { reasonOf } from '../http/inner.js';
import { pathOf } from '../http/request-log.js';

/** Longer model names are truncated, since clients choose them. */
const mostLetters = 200;

/** Attributes that are known before any work. */
export function attributesOfRequest(req: Request): Attributes {
  const { socket } = req;
  return {
    'http.request.method': req.method,
    'url.path': pathOf(req),
    'url.scheme': req.protocol,
    'network.protocol.version': req.httpVersion,
    ...(socket.localAddress === undefined ? {} : { 'server.address': socket.localAddress, 'server.port': socket.localPort }),
    ...(reasonOf(req) === undefined ? {} : { 'recua.inner': true }),
  };
}

/** A code of errors.ts; undefined if the request succeeded. */
export function errorType({ code }: Facts, isCutOff: boolean, status: number): string | undefined {
  if (code !== undefined) return code;
  if (isCutOff) return 'cancelled';
  return status >= 400 ? String(status) : undefined;
}

/** Attributes that are known at the end. Undefined ones are left out. */
export function attributesOfFacts(facts: Facts): Attributes {
  const { operation, modelAsked, model, asked, answerId, finishes, promptTokens, completionTokens, cachedTokens, firstMs } = facts;
  if (operation === undefined) return { 'http.route': facts.route };
  return {
    'http.route': facts.route,
    'gen_ai.operation.name': operation,
    'gen_ai.provider.name': 'recua',
    'gen_ai.request.model': (modelAsked ?? model)?.slice(0, mostLetters),
    ...(asked ? attributesOfAsked(asked) : {}),
    'gen_ai.response.model': model,
    'gen_ai.response.id': answerId,
    'gen_ai.response.finish_reasons': finishes?.map(({ finishReason }) => finishReason),
    'gen_ai.response.time_to_first_chunk': asked?.stream && firstMs !== undefined ? firstMs / 1_000 : undefined,
    'gen_ai.usage.input_tokens': promptTokens,
    'gen_ai.usage.output_tokens': completionTokens,
    'gen_ai.usage.cache_read.input_tokens': cachedTokens,
    'gen_ai.usage.reasoning.output_tokens': finishes?.some(({ usage }) => usage.reasoningTokens !== undefined)
      ? finishes.reduce((sum, { usage }) => sum + (usage.reasoningTokens ?? 0), 0) : undefined,
  };
}

function attributesOfAsked({ stream, choices, maxTokens, sampling }: NonNullable<Facts['asked']>): Attributes {
  return {
    'gen_ai.request.stream': stream,
    'gen_ai.request.choice.count': choices === 1 ? undefined : choices,
    'gen_ai.request.max_tokens': maxTokens,
    'gen_ai.request.temperature': sampling.temperature,
    'gen_ai.request.top_p': sampling.topP,
    'gen_ai.request.top_k': sampling.topK,
    'gen_ai.request.frequency_penalty': sampling.frequencyPenalty,
    'gen_ai.request.presence_penalty': sampling.presencePenalty,
    'gen_ai.request.seed': sampling.seed,
  };
}
