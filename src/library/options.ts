// The options of the library's methods, and what they are to the engine: every number checked,
// every name known.
import { answerSettings, type samplerSettings } from '../settings/answer.js';
import { defaults, engineConfigSettings, engineDefaults, type EngineConfig } from '../settings/config.js';
import type { OptionsOf } from '../settings/kinds.js';
import type { ChatRequest, CompletionRequest, Constraint, ModelDescription } from '../engine/protocol.js';
import { RecuaError } from '../errors.js';
import { checkName, Fields, isObject, wrongType, wrongValue } from '../request/fields.js';
import { readSampling, samplingNames } from '../request/sampling-fields.js';
import { maxTopLogprobs } from '../request/telling-fields.js';
import { readSettings } from '../request/setting-fields.js';
import { readMessages, type Message } from './messages.js';
import { isAbortSignal } from './reply.js';
import { jsonSchemaOf, type Schema } from './schema.js';
import { readTools, type ToolChoice, type Tools } from './tools.js';

/** How to load a model. */
export interface LoadOptions extends OptionsOf<typeof engineConfigSettings> {
  /**
   * `true` (the default) runs the model in a process of its own: if llama.cpp aborts, that process
   * dies alone, it is started again, and running answers go on. `false` runs the model in this
   * process: nothing to start and nothing to send between processes, but an abort of llama.cpp ends
   * the program.
   */
  isolated?: boolean | undefined;
  /** Called while the model loads, with the part that is done, 0 to 1. */
  onProgress?: ((fraction: number) => void) | undefined;
  /**
   * Called with lines of the log from the first moment on; the `log` event has the same once the
   * model is there.
   */
  onLog?: ((level: 'debug' | 'info' | 'warn' | 'error', text: string) => void) | undefined;
  /** Aborts the loading, which then rejects with `cancelled`. */
  signal?: AbortSignal | undefined;
}

/** How text is generated. */
export interface GenerateOptions
  extends OptionsOf<typeof answerSettings>, OptionsOf<typeof samplerSettings> {
  /** Mirostat 1 or 2 instead of the other samplers; 0, the default, is off. */
  mirostat?: 0 | 1 | 2 | undefined;
  /**
   * The same seed, request and build give the same answer. Of larger integers the low 32 bits
   * count. Default: drawn at random.
   */
  seed?: number | undefined;
  /**
   * Added to the logits of tokens, −100 to 100, by token id or by text, which stands for each of
   * its tokens; `false` bans.
   */
  logitBias?: Readonly<Record<number | string, number | false>> | undefined;
  /** llama.cpp's samplers by name in the order in which they apply, instead of its own order. */
  samplers?: readonly string[] | undefined;
  /** Texts at which DRY begins anew. Default: line breaks, `:`, `"` and `*`. */
  drySequenceBreakers?: readonly string[] | undefined;
  /** Go on where the model would end. Default `false`. */
  ignoreEos?: boolean | undefined;
  /**
   * The result tells how likely each token was, with so many of the likeliest tokens beside it, 0
   * to 20. Default: it does not.
   */
  logprobs?: number | undefined;
  /** Text that ends the answer and is left out of it, or up to 16 of those. */
  stop?: string | readonly string[] | undefined;
  /** GBNF grammar that the answer has to follow. */
  grammar?: string | undefined;
  /** Aborts the answer, which then rejects with `cancelled`. */
  signal?: AbortSignal | undefined;
}

/** How to complete a text. */
export interface CompleteOptions<S extends Schema | undefined = undefined> extends GenerateOptions {
  /**
   * The text has to be JSON that follows this; it comes parsed as `object`. What cannot be enforced
   * is among the `warnings`.
   */
  schema?: S;
}

/** How to answer a conversation. */
export interface ChatOptions<S extends Schema | undefined = undefined> extends GenerateOptions {
  /**
   * The answer has to be JSON that follows this; it comes parsed as `object`. What cannot be
   * enforced is among the `warnings`.
   */
  schema?: S;
  /** Tools that the model may call, by name. */
  tools?: Tools | undefined;
  /**
   * What the answer may be like, such as a text that is to be changed a little: where that comes
   * true, the same answer comes faster.
   */
  prediction?: string | undefined;
  /** Default `'auto'`. It holds for the first answer; after results of tools the model is free. */
  toolChoice?: ToolChoice | undefined;
  /** Whether one answer may call several tools. Default: as the model's template has it. */
  parallelToolCalls?: boolean | undefined;
  /**
   * How often the model is asked again with the results of tools before its calls are left to the
   * program. Default 8.
   */
  maxToolRounds?: number | undefined;
  /** `false` tells models that can think to answer at once. Default `true`. */
  thinking?: boolean | undefined;
  /** Further variables for the chat template. */
  templateOptions?: Readonly<Record<string, unknown>> | undefined;
}

const maxStops = 16;
const maxStopLength = 1_024;

const loadNames = [
  'isolated', ...Object.keys(engineConfigSettings), 'onProgress', 'onLog', 'signal',
];
const generateNames = [...samplingNames, 'maxTokens', 'logprobs', 'stop', 'grammar', 'schema', 'signal'];
const chatNames = [...generateNames, 'tools', 'toolChoice', 'parallelToolCalls', 'maxToolRounds', 'thinking', 'templateOptions', 'prediction'];

/**
 * The options as fields. A name that is not known would be ignored otherwise, and is most often a
 * mistyped one.
 */
export function openOptions(options: object, known: readonly string[], path = ''): Fields {
  if (!isObject(options)) throw wrongType(path || 'options', 'an object', options);
  const wrong = Object.keys(options).find((name) => !known.includes(name));
  if (wrong !== undefined) throw new RecuaError('invalid_value', `Unknown option ${wrong.slice(0, 100)}; expected one of ${known.join(', ')}.`, { param: path === '' ? wrong : `${path}.${wrong}` });
  return Fields.of(options, path);
}

export function readSignal(fields: Fields): AbortSignal | undefined {
  const signal = fields.get('signal');
  if (signal === undefined || isAbortSignal(signal)) return signal;
  throw wrongType('signal', 'an AbortSignal', signal);
}

export function readFunction<F>(fields: Fields, name: string): F | undefined {
  const value = fields.get(name);
  if (value === undefined || typeof value === 'function') return value as F | undefined;
  throw wrongType(name, 'a function', value);
}

interface LoadWish extends Pick<LoadOptions, 'onProgress' | 'onLog' | 'signal'> {
  engine: EngineConfig;
  isolated: boolean;
}

export function readLoadOptions(options: LoadOptions): LoadWish {
  const fields = openOptions(options, loadNames);
  return {
    isolated: fields.boolean('isolated') ?? true,
    onProgress: readFunction(fields, 'onProgress'),
    onLog: readFunction(fields, 'onLog'),
    signal: readSignal(fields),
    engine: { ...engineDefaults, ...readSettings(fields, engineConfigSettings) },
  };
}

export function makeChatRequest(input: string | readonly Message[], options: ChatOptions<Schema | undefined>, model: ModelDescription): { request: ChatRequest; maxToolRounds: number } {
  const fields = openOptions(options, chatNames);
  const tools = readTools(fields);
  const constraint = readConstraint(fields);
  if (constraint.kind === 'grammar' && tools.tools !== '' && tools.toolChoice !== 'none') throw conflict('grammar', 'tools');
  return {
    maxToolRounds: fields.integer('maxToolRounds', { min: 0, max: 1_000_000 }) ?? 8,
    request: {
      messages: JSON.stringify(readMessages(input)),
      ...tools,
      ...readGeneration(fields, model),
      constraint,
      enableThinking: fields.boolean('thinking') ?? true,
      templateKwargs: fields.object('templateOptions') ?? {},
      template: '',
      ...readPrediction(fields),
    },
  };
}

function readPrediction(fields: Fields): { prediction?: string } {
  const prediction = fields.string('prediction') ?? '';
  return prediction === '' ? {} : { prediction };
}

export function makeCompletionRequest(prompt: string | Int32Array, options: CompleteOptions<Schema | undefined>, model: ModelDescription): CompletionRequest {
  if (typeof prompt !== 'string' && !(prompt instanceof Int32Array)) throw wrongType('prompt', 'a text or tokens in an Int32Array', prompt);
  const fields = openOptions(options, generateNames);
  return { prompt, ...readGeneration(fields, model), constraint: readConstraint(fields) };
}

function readGeneration(fields: Fields, model: ModelDescription) {
  const sampling = readSampling(fields, { temperature: defaults.temperature, vocabSize: model.vocabSize, contextSize: model.contextSize }, true);
  const logprobs = fields.integer('logprobs', { min: 0, max: maxTopLogprobs });
  return {
    sampling, maxTokens: fields.integer('maxTokens', answerSettings.maxTokens) ?? defaults.maxTokens, stop: readStop(fields),
    ...(logprobs === undefined ? {} : { tells: { logprobs: Math.min(logprobs, model.vocabSize) } }),
  };
}

function readStop(fields: Fields): string[] {
  const stop = fields.get('stop');
  if (typeof stop === 'string') return [checkName(stop, 'stop', maxStopLength)];
  if (stop !== undefined && !Array.isArray(stop)) throw wrongType('stop', 'a text or an array of texts', stop);
  return (fields.array('stop', maxStops) ?? []).map((text, index) => checkName(text, `stop[${index}]`, maxStopLength));
}

function readConstraint(fields: Fields): Constraint {
  const grammar = fields.string('grammar');
  const schema = fields.get('schema');
  if (schema !== undefined && grammar) throw conflict('grammar', 'schema');
  if (grammar) return { kind: 'grammar', grammar };
  if (schema === undefined) return { kind: 'none' };
  if (!isObject(schema) && typeof schema !== 'function') throw wrongType('schema', 'a schema', schema);
  return { kind: 'schema', schema: JSON.stringify(jsonSchemaOf(schema as Schema, 'schema')), strict: false, param: 'schema' };
}

function conflict(one: string, other: string): RecuaError {
  return new RecuaError('invalid_value', `Expected ${one} or ${other}, got both; leave one out.`, { param: one });
}

/** Texts that say something, for embedding and reranking. */
export function readTexts(value: unknown, param: string): string[] {
  if (!Array.isArray(value)) throw wrongType(param, 'an array of texts', value);
  return (value as unknown[]).map((text, index) => readText(text, `${param}[${index}]`));
}

export function readText(text: unknown, param: string): string {
  if (typeof text !== 'string') throw wrongType(param, 'a text', text);
  if (text === '') throw wrongValue(param, 'a text that is not empty', text);
  return text;
}
