// Parses and checks the body of POST /v1/chat/completions → the engine's ChatRequest. Pure. Called
// by the dialect's chat. Unsupported fields that would change the answer are refused by name.
import type { ChatRequest } from '../../engine/protocol.js';
import type { Telling } from '../../engine/telling.js';
import type { Fields } from '../../request/fields.js';
import { readMessages } from './messages.js';
import { readConstraint, refuseBesideTools } from '../../request/constraint-fields.js';
import { allowed, foreign, isEmptyArray, readCount, readMaxTokens, readSlot, readStop, readStreamOptions, refuseAll } from './answer-fields.js';
import { readContinuation } from '../../request/continuation.js';
import { readTools } from '../../request/function-tools.js';
import { readPriority } from '../../request/priority.js';
import { readSampling } from '../../request/sampling-fields.js';
import { boundTold, readGenerateMs, readPrediction, readTelling, readTopLogprobs } from '../../request/telling-fields.js';
import { readThinking, readThoughts } from '../../request/thinking-fields.js';
import { readTruncation, readVerbosity } from '../../request/chat-fields.js';
import type { ChatContext } from '../exchange/dialect.js';

export interface ChatBody {
  request: ChatRequest;
  /** As in the request. */
  tells: Telling;
  /** Number of answers. */
  count: number;
  customTools: readonly string[];
  stream: boolean;
  includeUsage: boolean;
  /** Pause after each chunk of the stream. */
  intervalMs: number;
  warnings: readonly string[];
}

/** Fields that would change the answer, each with a test for values that request nothing. */
const unsupported: Record<string, (value: unknown) => boolean> = {
  functions: isEmptyArray,
  function_call: (value) => value === 'none' || value === 'auto',
  audio: () => false,
  modalities: (value) => Array.isArray(value) && value.every((modality) => modality === 'text'),
  web_search_options: () => false,
  lora: isEmptyArray,
  n_indent: (value) => value === 0,
  reasoning_format: (value) => value === 'auto' || value === 'deepseek',
  parse_tool_calls: (value) => value === true,
  echo: (value) => value === false,
  grammar_lazy: (value) => value === false,
  grammar_triggers: isEmptyArray,
  generation_prompt: (value) => value === '',
  response_fields: isEmptyArray,
  ...foreign,
};

/** Admission has already read `model`. */
export function readChatRequest(body: Fields, { defaults, model }: ChatContext): ChatBody {
  refuseAll(body, unsupported);
  const sampling = readSampling(body, { ...defaults, vocabSize: model.vocabSize, contextSize: model.contextSize });
  const messages = readMessages(body);
  const { request: tools, custom } = readTools(body);
  const constraint = readConstraint(body);
  refuseBesideTools(constraint, tools);
  const thoughts = readThoughts(body);
  const stream = body.boolean('stream') ?? false;
  const tells = readTelling(body, readTopLogprobs(body), model.vocabSize, stream);
  const count = readCount(body);
  const maxTokens = boundTold(tells, readMaxTokens(body), defaults.maxTokens, model.contextSize, { answers: count });
  const warnings = [...readVerbosity(body), ...readSlot(body)];
  const streamed = readStreamOptions(body);
  body.allow(...allowed);
  body.boolean('store');
  return {
    request: {
      messages: JSON.stringify(messages), ...readContinuation(body, messages), ...readTruncation(body), ...tools, constraint, sampling,
      maxTokens, stop: readStop(body), ...readThinking(body, { enabled: body.boolean('enable_thinking'), effort: body.word('reasoning_effort', efforts) }), template: '',
      ...readGenerateMs(body), ...readPriority(body), ...readPrediction(body), ...(Object.keys(tells).length > 0 ? { tells } : {}),
      ...(thoughts ? { thoughts } : {}),
    },
    tells,
    count,
    customTools: custom,
    stream,
    ...streamed,
    warnings,
  };
}

const efforts = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const;
