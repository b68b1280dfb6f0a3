// Parses and checks the bodies of POST /api/chat and /api/generate → the engine's requests. Pure.
// Called by the dialect's routes. Unsupported fields that would change the answer are refused by
// name; options that only apply to loading are named in the answer's warnings.
import type { ChatMessage, ChatRequest, CompletionRequest, Constraint, Sampling } from '../../engine/protocol.js';
import type { Telling } from '../../engine/telling.js';
import { conflict, readConstraint, refuseBesideTools } from '../../request/constraint-fields.js';
import { checkName, Fields, int32Max, isObject, wrongType, wrongValue } from '../../request/fields.js';
import { checkAnswers } from '../../request/continuation.js';
import { readFunctions } from '../../request/function-tools.js';
import { readSampling } from '../../request/sampling-fields.js';
import { boundTold, readTopLogprobs } from '../../request/telling-fields.js';
import { readThoughts, thinkingOf } from '../../request/thinking-fields.js';
import { writeTools } from '../../request/tool-text.js';
import { unsupported } from '../../request/unsupported.js';
import type { ChatAsked, ChatContext } from '../exchange/dialect.js';
import { readMessages } from './messages.js';

const maxStops = 16;
const maxStopLength = 1_024;

export interface OllamaBody extends ChatAsked {
  warnings: readonly string[];
  tells: Telling;
}

/** Fields of both requests. */
interface Common {
  sampling: Sampling;
  maxTokens: number;
  stop: string[];
  constraint: Constraint;
  tells?: Telling;
}

export function readChat(body: Fields, context: ChatContext): OllamaBody {
  const { common, warnings } = readCommon(body, context);
  const tools = writeTools(readFunctions(body));
  const messages = readMessages(body);
  checkAnswers(messages);
  refuseBesideTools(common.constraint, { ...tools, toolChoice: 'auto' });
  const request: ChatRequest = {
    messages: JSON.stringify(messages), ...(body.boolean('truncate') ? { truncation: 'auto' as const } : {}), ...tools, toolChoice: 'auto', parallelToolCalls: undefined,
    ...common, ...readThink(body), ...withThoughts(body), template: '',
  };
  return { prompts: [[request]], stream: body.boolean('stream') ?? true, warnings, tells: common.tells ?? {} };
}

export function readGenerate(body: Fields, context: ChatContext): OllamaBody {
  refuse(body, 'suffix', (value) => value === '');
  refuse(body, 'template', (value) => value === '');
  refuse(body, 'context', (value) => Array.isArray(value) && value.length === 0);
  refuse(body, 'images', (value) => Array.isArray(value) && value.length === 0);
  const { common, warnings } = readCommon(body, context);
  const prompt = body.string('prompt') ?? '';
  const system = body.string('system');
  const stream = body.boolean('stream') ?? true;
  if (body.boolean('raw')) {
    const request: CompletionRequest = { prompt, ...common };
    return { prompts: [[request]], stream, warnings, tells: common.tells ?? {} };
  }
  const messages: ChatMessage[] = [...(system ? [{ role: 'system' as const, content: system }] : []), { role: 'user', content: prompt }];
  const request: ChatRequest = {
    messages: JSON.stringify(messages), messageSources: system ? ['system', 'prompt'] : ['prompt'], tools: '', toolSources: [], toolChoice: 'none', parallelToolCalls: undefined,
    ...common, ...readThink(body), ...withThoughts(body), template: '',
  };
  return { prompts: [[request]], stream, warnings, tells: common.tells ?? {} };
}

/** Ollama's options that apply to a loaded model as a whole. */
const ofLoading = ['num_gpu', 'main_gpu', 'num_thread', 'num_batch', 'use_mmap', 'use_mlock', 'numa', 'f16_kv'] as const;
/** Those that no setting of the server replaces. */
const without = ['low_vram', 'num_keep'] as const;

function readCommon(body: Fields, { defaults, model }: ChatContext): { common: Common; warnings: string[] } {
  const options = body.fields('options') ?? Fields.of({}, 'options');
  const sampling = readSampling(options, { ...defaults, vocabSize: model.vocabSize, contextSize: model.contextSize });
  const warnings = ofLoading.filter((name) => options.get(name) !== undefined)
    .map((name) => `options.${name} has no effect: it is set when the server starts.`);
  warnings.push(...without.filter((name) => options.get(name) !== undefined).map((name) => `options.${name} has no effect.`));
  const context = options.integer('num_ctx', { min: 1, max: int32Max });
  if (context !== undefined && context > model.contextSize) {
    warnings.push(`options.num_ctx is ${context}, but the context has ${model.contextSize} tokens: it is set when the server starts.`);
  }
  const top = readTopLogprobs(body);
  const tells: Telling = top === undefined ? {} : { logprobs: Math.min(top, model.vocabSize) };
  const maxTokens = boundTold(tells, readMaxTokens(options), defaults.maxTokens, model.contextSize);
  return {
    common: {
      sampling,
      maxTokens,
      stop: readStop(options),
      constraint: readAnyConstraint(body, options),
      ...(top === undefined ? {} : { tells }),
    },
    warnings,
  };
}

/** −1, −2 and 0 mean "as much as fits". */
function readMaxTokens(options: Fields): number | undefined {
  const most = options.integer('num_predict', { min: 0, max: int32Max, besides: [-1, -2] });
  return most !== undefined && most <= 0 ? int32Max : most;
}

function readStop(options: Fields): string[] {
  const stop = options.get('stop');
  if (stop === undefined) return [];
  if (typeof stop === 'string') return [checkName(stop, 'options.stop', maxStopLength)];
  return (options.array('stop', maxStops) ?? []).map((text, index) => checkName(text, `options.stop[${index}]`, maxStopLength));
}

/** Ollama's `format`, or the names of other dialects, which may also be in the options. */
function readAnyConstraint(body: Fields, options: Fields): Constraint {
  const constraint = readConstraint(body, { format: readFormat(body) });
  const option = readConstraint(options);
  if (constraint.kind === 'none' || option.kind === 'none') return constraint.kind === 'none' ? option : constraint;
  throw conflict(option.param ?? 'options', constraint.param ?? 'grammar');
}

function readFormat(body: Fields): Constraint {
  const format = body.get('format');
  if (format === undefined || format === '') return { kind: 'none' };
  const schema = format === 'json' ? { type: 'object' } : format;
  if (!isObject(schema) && schema !== true) throw wrongType('format', '"json" or a JSON schema', format);
  return { kind: 'schema', schema: JSON.stringify(schema), strict: false, param: 'format' };
}

const efforts = ['low', 'medium', 'high', 'max'] as const;

function readThink(body: Fields): Pick<ChatRequest, 'enableThinking' | 'templateKwargs'> {
  const think = body.get('think');
  if (think === undefined || typeof think === 'boolean') return thinkingOf({ enabled: think });
  const effort = efforts.find((word) => word === think);
  if (effort === undefined) throw wrongValue('think', `true, false or one of ${efforts.join(', ')}`, think);
  return thinkingOf({ effort });
}

function withThoughts(body: Fields): Pick<ChatRequest, 'thoughts'> {
  const thoughts = readThoughts(body);
  return thoughts ? { thoughts } : {};
}

function refuse(body: Fields, name: string, isNeutral: (value: unknown) => boolean): void {
  const value = body.get(name);
  if (value === undefined || isNeutral(value)) return;
  throw unsupported(name, value);
}
