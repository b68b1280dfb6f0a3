// Reads the options of the library's methods into the engine's requests. Checks every number and
// rejects unknown names.
import { resolve } from 'node:path';
import { isInt32Array } from 'node:util/types';
import { answerSettings, type samplerSettings } from '../settings/answer.js';
import { defaults, engineConfigSettings, engineDefaults, type EngineConfig } from '../settings/config.js';
import type { OptionsOf } from '../settings/kinds.js';
import type { ChatRequest, CompletionRequest, Constraint, ModelDescription } from '../engine/protocol.js';
import { RecuaError } from '../errors.js';
import { checkName, Fields, isObject, wrongType, wrongValue } from '../request/fields.js';
import { refuseHalves } from '../request/half-characters.js';
import { readSampling, samplingNames } from '../request/sampling-fields.js';
import { maxTopLogprobs } from '../request/telling-fields.js';
import { readSettings } from '../request/setting-fields.js';
import { nearest } from '../models/names/nearest.js';
import { readMessages, toJson, type Message } from './messages.js';
import { isAbortSignal, shareable } from './reply.js';
import { jsonSchemaOf, type Schema } from './schema.js';
import { readTools, type ToolChoice, type Tools } from './tools.js';

/** How to load a model. */
export interface LoadOptions extends OptionsOf<typeof engineConfigSettings> {
  /**
   * `true` (the default) runs the model in its own process: if llama.cpp aborts, only that process
   * dies. Recua restarts it, and running answers continue. `false` runs the model in this process,
   * always without a sandbox: no process to start and no messages between processes, but an abort
   * in llama.cpp ends the program.
   */
  isolated?: boolean | undefined;
  /** Called while the model loads, with the fraction that is loaded, 0 to 1. */
  onProgress?: ((fraction: number) => void) | undefined;
  /**
   * Called with each log line from the start of loading. Once the model is loaded, its `log` event
   * gives the same lines.
   */
  onLog?: ((level: 'debug' | 'info' | 'warn' | 'error', text: string) => void) | undefined;
  /** Aborts loading; `loadModel` then rejects with `cancelled`. */
  signal?: AbortSignal | undefined;
}

/** Options for generating text. */
export interface GenerateOptions
  extends OptionsOf<typeof answerSettings>, OptionsOf<typeof samplerSettings> {
  /**
   * Mirostat 1 or 2. It replaces all other samplers, including the penalties, but not the
   * temperature; at temperature 0 it has no effect. Default 0: off.
   */
  mirostat?: 0 | 1 | 2 | undefined;
  /**
   * Seed of the sampler. The same seed, request and build give the same answer, except where
   * rounding decides: cached tokens, or other requests in the same step, change the last digits.
   * Only the low 32 bits of larger integers count. Default −1: random.
   */
  seed?: number | undefined;
  /**
   * Values added to the logits of tokens, −100 to 100. Keys are token ids or texts; a text stands
   * for each of its tokens. `false` bans a token.
   */
  logitBias?: Readonly<Record<number | string, number | false>> | undefined;
  /** Names of llama.cpp's samplers in the order to apply them. Default: llama.cpp's own order. */
  samplers?: readonly string[] | undefined;
  /** Texts that make DRY start over. Default: line breaks, `:`, `"` and `*`. */
  drySequenceBreakers?: readonly string[] | undefined;
  /** Continues past the model's end-of-sequence token. Default `false`. */
  ignoreEos?: boolean | undefined;
  /**
   * How many of the likeliest alternatives to report for each token, 0 to 20; the result then has
   * the log probability of every token in `logprobs`. Default: no log probabilities.
   */
  logprobs?: number | undefined;
  /** Text that ends the answer, or up to 16 such texts. The answer does not include it. */
  stop?: string | readonly string[] | undefined;
  /** GBNF grammar that the answer must follow. */
  grammar?: string | undefined;
  /** Aborts the answer, which then rejects with `cancelled`. */
  signal?: AbortSignal | undefined;
}

/** Options for completing a text. */
export interface CompleteOptions<S extends Schema | undefined = undefined> extends GenerateOptions {
  /**
   * The text must be JSON that follows this schema; the result has it parsed as `object`.
   * `warnings` lists keywords that Recua cannot enforce.
   */
  schema?: S;
}

/** Options for answering a conversation. */
export interface ChatOptions<S extends Schema | undefined = undefined> extends GenerateOptions {
  /**
   * The answer must be JSON that follows this schema; the result has it parsed as `object`.
   * `warnings` lists keywords that Recua cannot enforce.
   */
  schema?: S;
  /** Tools that the model may call, by name. */
  tools?: Tools | undefined;
  /**
   * Text that the answer is likely to repeat, such as a file with a small edit to make. Parts that
   * match come faster; the answer stays the same, up to rounding.
   */
  prediction?: string | undefined;
  /**
   * Which tools the model may call. `'required'` and a named tool bind only the first answer; after
   * tool results the model may answer without a call. Default `'auto'`.
   */
  toolChoice?: ToolChoice | undefined;
  /** Whether one answer may call several tools. Default: what the model's template says. */
  parallelToolCalls?: boolean | undefined;
  /**
   * How many times the library sends tool results back to the model. After that, it returns the
   * model's calls to the program. Default 8.
   */
  maxToolRounds?: number | undefined;
  /** `false` tells models that can think to answer immediately. Default `true`. */
  thinking?: boolean | undefined;
  /** More variables for the chat template. */
  templateOptions?: Readonly<Record<string, unknown>> | undefined;
}

const maxStops = 16;
const maxStopLength = 1_024;
/** Longer names are cut in messages. */
const longestName = 100;

const loadNames = [
  'isolated', ...Object.keys(engineConfigSettings), 'onProgress', 'onLog', 'signal',
];
const generateNames = [...samplingNames, 'maxTokens', 'logprobs', 'stop', 'grammar', 'schema', 'signal'];
const chatNames = [...generateNames, 'tools', 'toolChoice', 'parallelToolCalls', 'maxToolRounds', 'thinking', 'templateOptions', 'prediction'];

/**
 * The options as fields. Rejects unknown names: most are typos, and they would otherwise be
 * ignored.
 */
export function openOptions(options: object, known: readonly string[], path = ''): Fields {
  if (!isObject(options)) throw wrongType(path || 'options', 'an object', options);
  const wrong = Object.keys(options).find((name) => !known.includes(name));
  if (wrong !== undefined) {
    const near = wrong.length > longestName ? undefined : nearest(wrong, known);
    const advice = near === undefined ? `; expected one of ${known.join(', ')}.` : `. Did you mean ${near}?`;
    throw new RecuaError('invalid_value', `Unknown option ${wrong.slice(0, longestName)}${advice}`, { param: path === '' ? wrong : `${path}.${wrong}` });
  }
  return Fields.of(options, path);
}

export function readSignal(fields: Fields): AbortSignal | undefined {
  const signal = fields.get('signal');
  if (signal === undefined) return signal;
  if (isAbortSignal(signal)) return shareable(signal);
  throw wrongType('signal', 'an AbortSignal', signal);
}

/** Timers wait for 24 days at most; those of the engine add some minutes to this. */
const longestDrainMs = 20 * 86_400 * 1_000;

/** The option of `dispose`. */
export function drainOf(options: { drainMs?: number | undefined }): number {
  const drainMs = openOptions(options, ['drainMs']).get('drainMs') ?? 0;
  if (typeof drainMs !== 'number') throw wrongType('drainMs', 'a number of milliseconds', drainMs);
  if (!(drainMs >= 0)) throw wrongValue('drainMs', 'a number of milliseconds from 0', drainMs);
  return Math.min(drainMs, longestDrainMs);
}

export function closed(): RecuaError {
  return new RecuaError('closed', 'The model was disposed of.');
}

/** What `work` returns, or a rejection with what it throws. */
export function orReject<T>(work: () => Promise<T>): Promise<T> {
  try {
    return work();
  } catch (thrown) {
    return Promise.reject(RecuaError.from(thrown));
  }
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
  const isolated = fields.boolean('isolated') ?? true;
  if (!isolated && fields.get('sandbox') === 'on') throw new RecuaError('invalid_value', 'Expected "auto" or "off" for sandbox with isolated: false, got "on": there is no sandbox for the program\'s own process.', { param: 'sandbox' });
  return {
    isolated,
    onProgress: readFunction(fields, 'onProgress'),
    onLog: readFunction(fields, 'onLog'),
    signal: readSignal(fields),
    engine: { ...engineDefaults, ...readSettings(fields, engineConfigSettings) },
  };
}

interface Asked {
  /** For the first answer. */
  request: ChatRequest;
  /** For those after tool results. */
  allTools: Pick<ChatRequest, 'tools' | 'toolSources'>;
  maxToolRounds: number;
}

export function makeChatRequest(
  input: string | readonly Message[],
  options: ChatOptions<Schema | undefined>,
  model: ModelDescription,
): Asked {
  const fields = openOptions(options, chatNames);
  const { asked: tools, all: allTools } = readTools(fields);
  const constraint = readConstraint(fields);
  if (constraint.kind === 'grammar' && tools.tools !== '' && tools.toolChoice !== 'none') throw conflict('grammar', 'tools');
  const messages = JSON.stringify(readMessages(input));
  refuseHalves(messages, undefined, 'messages');
  refuseHalves(allTools.tools, undefined, 'tools');
  return {
    allTools,
    maxToolRounds: fields.integer('maxToolRounds', { min: 0, max: 1_000_000 }) ?? 8,
    request: {
      messages,
      ...tools,
      ...readGeneration(fields, model),
      constraint,
      enableThinking: fields.boolean('thinking') ?? true,
      templateKwargs: readTemplateOptions(fields),
      template: '',
      ...readPrediction(fields),
    },
  };
}

/** As JSON: other values, such as functions, cannot be sent to an engine process. */
function readTemplateOptions(fields: Fields): Record<string, unknown> {
  const given = Object.entries(fields.object('templateOptions') ?? {});
  return Object.fromEntries(given.map(([name, value]) => {
    const param = fields.param(`templateOptions.${name}`);
    const json = toJson(value, param);
    refuseHalves(json, undefined, param);
    const plain: unknown = JSON.parse(json);
    if (isDeeper(plain, mostLevels)) throw wrongValue(param, `a value of at most ${mostLevels} levels`, plain);
    return [name, plain];
  }));
}

/**
 * The engine's limit is 128, with the object around all options. A message of thousands of levels
 * could not even be sent there.
 */
const mostLevels = 127;

/** Whether objects and arrays are nested over so many levels. */
function isDeeper(value: unknown, levels: number): boolean {
  return typeof value === 'object' && value !== null && (levels === 0 || Object.values(value).some((one) => isDeeper(one, levels - 1)));
}

function readPrediction(fields: Fields): { prediction?: string } {
  const prediction = fields.string('prediction') ?? '';
  return prediction === '' ? {} : { prediction };
}

export function makeCompletionRequest(
  prompt: string | Int32Array | null,
  options: CompleteOptions<Schema | undefined>,
  model: ModelDescription,
): CompletionRequest {
  if (typeof prompt !== 'string' && !isInt32Array(prompt)) throw wrongType('prompt', 'a text or tokens in an Int32Array', prompt);
  const fields = openOptions(options, generateNames);
  return { prompt, ...readGeneration(fields, model), constraint: readConstraint(fields) };
}

function readGeneration(fields: Fields, model: ModelDescription) {
  const sampling = readSampling(
    fields,
    { temperature: defaults.temperature, vocabSize: model.vocabSize, contextSize: model.contextSize },
    true,
  );
  const logprobs = fields.integer('logprobs', { min: 0, max: maxTopLogprobs });
  return {
    sampling, maxTokens: fields.integer('maxTokens', answerSettings.maxTokens) ?? defaults.maxTokens, stop: readStop(fields),
    ...(logprobs === undefined ? {} : { tells: { logprobs: Math.min(logprobs, model.vocabSize) } }),
  };
}

function readStop(fields: Fields): string[] {
  const stop = fields.get('stop');
  if (stop !== undefined && typeof stop !== 'string' && !Array.isArray(stop)) throw wrongType('stop', 'a text or an array of texts', stop);
  const texts = typeof stop === 'string' ? [checkName(stop, 'stop', maxStopLength)]
    : Array.from(fields.array('stop', maxStops) ?? [], (text, index) => checkName(text, `stop[${index}]`, maxStopLength));
  refuseHalves(JSON.stringify(texts), texts, 'stop');
  return texts;
}

function readConstraint(fields: Fields): Constraint {
  const grammar = fields.string('grammar');
  const schema = fields.get('schema');
  if (schema !== undefined && grammar) throw conflict('grammar', 'schema');
  if (grammar) return { kind: 'grammar', grammar };
  if (schema === undefined) return { kind: 'none' };
  if (!isObject(schema) && typeof schema !== 'function') throw wrongType('schema', 'a schema', schema);
  const json = toJson(jsonSchemaOf(schema as Schema, 'schema'), 'schema');
  refuseHalves(json, undefined, 'schema');
  return { kind: 'schema', schema: json, strict: false, param: 'schema' };
}

function conflict(one: string, other: string): RecuaError {
  return new RecuaError('invalid_value', `Expected ${one} or ${other}, got both; leave one out.`, { param: one });
}

/** As long as any system allows. */
const mostPathLength = 32_767;

/** The path of a file, made absolute. */
export function readPath(value: unknown): string {
  const path = checkName(value, 'path', mostPathLength);
  if (path.includes('\0')) throw wrongValue('path', 'a path without a NUL character', path);
  return resolve(path);
}

/** Non-empty texts, for embedding and reranking. */
export function readTexts(value: unknown, param: string): string[] {
  if (!Array.isArray(value)) throw wrongType(param, 'an array of texts', value);
  const texts = Array.from(value as unknown[], (text, index) => readText(text, `${param}[${index}]`));
  const characters = texts.reduce((sum, { length }) => sum + length, 0);
  if (characters > mostCharacters) throw wrongValue(param, `texts of at most ${mostCharacters} characters together (pass them in several calls)`, value);
  return texts;
}

/** With two bytes each, half of what one message to an engine process may have. */
const mostCharacters = 2 ** 28;

/** Texts to embed, whose vectors of `size` numbers come in one message. */
export function readEmbedded(value: unknown, size: number): string[] {
  const texts = readTexts(value, 'texts');
  const most = Math.floor(mostNumbers / Math.max(1, size));
  if (texts.length > most) throw wrongValue('texts', `at most ${most} texts (pass them in several calls)`, value);
  return texts;
}

/** With four bytes each, half of what that message may have. */
const mostNumbers = 2 ** 27;

export function readText(text: unknown, param: string): string {
  if (typeof text !== 'string') throw wrongType(param, 'a text', text);
  if (text === '') throw wrongValue(param, 'a text that is not empty', text);
  return text;
}
