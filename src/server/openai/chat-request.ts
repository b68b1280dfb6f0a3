// The body of POST /v1/chat/completions → the engine's ChatRequest, once, with everything checked.
// Pure. Called by chat-completions. What would change the answer and is not supported is refused by
// name; unknown fields are ignored.
import type { ChatRequest, Constraint, ModelDescription } from '../../engine/protocol.js';
import { RecuaError } from '../../errors.js';
import { checkName, describe, Fields, int32Max, wrongType, wrongValue } from '../../request/fields.js';
import { readMessages } from './messages.js';
import { readSampling, type RequestDefaults } from '../../request/sampling-fields.js';
import { readTools } from './tools.js';

const maxStops = 16;
const maxStopLength = 1_024;
/** Templates know a handful; llama.cpp compares each name with all others. */
const maxTemplateKwargs = 63;

export interface ChatContext {
  defaults: RequestDefaults;
  model: Pick<ModelDescription, 'vocabSize' | 'contextSize'>;
}

export interface ChatBody {
  request: ChatRequest;
  stream: boolean;
  includeUsage: boolean;
}

/** Fields that would change the answer, each with the values that ask for nothing. */
const unsupported: Record<string, (value: unknown) => boolean> = {
  logprobs: (value) => value === false,
  top_logprobs: (value) => value === 0,
  n_probs: (value) => value === 0,
  functions: isEmptyArray,
  function_call: (value) => value === 'none' || value === 'auto',
  audio: () => false,
  modalities: (value) => Array.isArray(value) && value.every((modality) => modality === 'text'),
  prediction: () => false,
  web_search_options: () => false,
  dynatemp_range: (value) => value === 0,
  samplers: isEmptyArray,
  lora: isEmptyArray,
  add_generation_prompt: (value) => value === true,
  continue_final_message: (value) => value === false,
  adaptive_target: isNegative,
  n_cmpl: (value) => value === 1,
  n_indent: (value) => value === 0,
  min_keep: (value) => value === 0,
  reasoning_budget_tokens: isNegative,
  thinking_budget_tokens: isNegative,
  reasoning_budget_message: (value) => value === '',
  reasoning_format: (value) => value === 'auto' || value === 'deepseek',
  reasoning_control: (value) => value === false,
  parse_tool_calls: (value) => value === true,
  echo: (value) => value === false,
  grammar_lazy: (value) => value === false,
  grammar_triggers: isEmptyArray,
  generation_prompt: (value) => value === '',
  return_tokens: (value) => value === false,
  return_progress: (value) => value === false,
  timings_per_token: (value) => value === false,
  post_sampling_probs: (value) => value === false,
  response_fields: isEmptyArray,
  verbosity: (value) => value === 'medium',
};

/** `model` is read by admission before. */
export function readChatRequest(body: Fields, { defaults, model }: ChatContext): ChatBody {
  refuseUnsupported(body);
  const sampling = readSampling(body, { ...defaults, vocabSize: model.vocabSize, contextSize: model.contextSize });
  if (sampling.dryMultiplier > 0) refuse(body, 'dry_sequence_breakers');
  const messages = JSON.stringify(readMessages(body));
  const tools = readTools(body);
  const constraint = readConstraint(body);
  if (constraint.kind === 'grammar' && tools.tools !== '' && tools.toolChoice !== 'none') {
    throw conflict('grammar', 'tools');
  }
  const generateMs = body.integer('t_max_predict_ms', { min: -1, max: Number.MAX_SAFE_INTEGER }) ?? 0;
  return {
    request: {
      messages, ...tools, constraint, sampling, maxTokens: readMaxTokens(body) ?? defaults.maxTokens, stop: readStop(body), ...readThinking(body), template: '',
      ...(generateMs > 0 ? { generateMs } : {}),
    },
    stream: body.boolean('stream') ?? false,
    includeUsage: body.fields('stream_options')?.boolean('include_usage') ?? false,
  };
}

/**
 * OpenAI's two names, of which the newer one counts, and llama-server's, with -1 for no bound but
 * the context.
 */
function readMaxTokens(body: Fields): number | undefined {
  const range = { min: 1, max: int32Max };
  const older = body.integer('max_tokens', range);
  const openAi = body.integer('max_completion_tokens', range) ?? older;
  const predict = body.integer('n_predict', { min: -1, max: int32Max });
  if (predict === undefined) return openAi;
  if (predict === 0) throw wrongValue('n_predict', `an integer from 1 to ${int32Max}, or -1`, predict);
  const most = predict < 0 ? int32Max : predict;
  if (openAi !== undefined && openAi !== most) throw conflict('n_predict', 'max_tokens');
  return most;
}

function refuseUnsupported(body: Fields): void {
  const n = body.integer('n', { min: 1, max: 128 });
  if (n !== undefined && n > 1) refuse(body, 'n', 'send one request per answer');
  for (const [name, isNeutral] of Object.entries(unsupported)) {
    const value = body.get(name);
    if (value !== undefined && !isNeutral(value)) refuse(body, name);
  }
}

function refuse(body: Fields, name: string, instead = 'leave it out'): void {
  const value = body.get(name);
  if (value === undefined) return;
  throw new RecuaError('unsupported_parameter', `${name} is not supported, got ${describe(value)}; ${instead}.`, { param: name });
}

function isNegative(value: unknown): boolean {
  return typeof value === 'number' && value < 0;
}

function isEmptyArray(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0;
}

function conflict(one: string, other: string): RecuaError {
  return new RecuaError('invalid_value', `Expected ${one} or ${other}, got both; leave one out.`, { param: one });
}

function readStop(body: Fields): string[] {
  const stop = body.get('stop');
  if (stop === undefined) return [];
  if (typeof stop === 'string') return [checkName(stop, 'stop', maxStopLength)];
  if (!Array.isArray(stop)) throw wrongType('stop', 'a string or an array of strings', stop);
  const stops = body.array('stop', maxStops) ?? [];
  return stops.map((text, index) => checkName(text, `stop[${index}]`, maxStopLength));
}

function readConstraint(body: Fields): Constraint {
  const grammar = body.string('grammar');
  const bare = body.object('json_schema');
  const format = readResponseFormat(body);
  if (bare !== undefined && format !== undefined) throw conflict('json_schema', 'response_format');
  const given = bare === undefined ? format : { schema: bare, strict: false, param: 'json_schema' };
  if (grammar) {
    if (given !== undefined) throw conflict('grammar', 'a JSON schema');
    return { kind: 'grammar', grammar };
  }
  return given === undefined ? { kind: 'none' } : { kind: 'schema', ...given, schema: JSON.stringify(given.schema) };
}

/**
 * The schema that `response_format` asks for; undefined for plain text. As with OpenAI, it is
 * strict only where the request says so.
 */
function readResponseFormat(body: Fields): { schema: object; strict: boolean; param: string } | undefined {
  const format = body.fields('response_format');
  if (format === undefined) return undefined;
  const type = format.word('type', ['text', 'json_object', 'json_schema']);
  switch (type) {
    case 'text':
      return undefined;
    case 'json_object':
      return { schema: format.object('schema') ?? { type: 'object' }, strict: false, param: format.param('schema') };
    case 'json_schema': {
      const given = Fields.of(format.get('json_schema'), format.param('json_schema'));
      given.string('name');
      const strict = given.boolean('strict') ?? false;
      const schema = given.object('schema');
      if (schema === undefined) throw wrongType(given.param('schema'), 'an object', undefined);
      return { schema, strict, param: given.param('schema') };
    }
    default:
      throw wrongType(format.param('type'), '"text", "json_object" or "json_schema"', undefined);
  }
}

const efforts = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const;

/**
 * The most specific word wins: chat_template_kwargs, then enable_thinking, then reasoning_effort.
 */
function readThinking(body: Fields): Pick<ChatRequest, 'enableThinking' | 'templateKwargs'> {
  const { enable_thinking: inKwargs, ...templateKwargs } = body.object('chat_template_kwargs') ?? {};
  const names = Object.keys(templateKwargs).length;
  if (names > maxTemplateKwargs) {
    throw new RecuaError('invalid_value', `Expected at most ${maxTemplateKwargs} names in chat_template_kwargs, got ${names}.`, { param: 'chat_template_kwargs' });
  }
  if (inKwargs !== undefined && inKwargs !== null && typeof inKwargs !== 'boolean') {
    throw wrongType('chat_template_kwargs.enable_thinking', 'true or false', inKwargs);
  }
  const effort = body.word('reasoning_effort', efforts);
  if (effort !== undefined && effort !== 'none' && !Object.hasOwn(templateKwargs, 'reasoning_effort')) {
    templateKwargs['reasoning_effort'] = effort;
  }
  const enableThinking = inKwargs ?? body.boolean('enable_thinking') ?? effort !== 'none';
  return { enableThinking, templateKwargs };
}
