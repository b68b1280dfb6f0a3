// The options of the library's methods, and what they are to the engine: every number checked, every name known.
import { defaults } from '../settings/config.js';
import type { ChatRequest, CompletionRequest, Constraint, EngineOptions, ModelDescription } from '../engine/protocol.js';
import { RecuaError } from '../errors.js';
import { checkName, Fields, int32Max, isObject, wrongType, wrongValue } from '../request/fields.js';
import { readSampling, samplingNames } from '../request/sampling-fields.js';
import { readMessages, type Message } from './messages.js';
import { isAbortSignal } from './reply.js';
import { jsonSchemaOf, type Schema } from './schema.js';
import { readTools, type ToolChoice, type Tools } from './tools.js';

/** How to load a model. */
export interface LoadOptions {
  /**
   * `true` (the default) runs the model in a process of its own: if llama.cpp aborts, that process dies alone, running answers reject
   * with `model_crashed`, and it is started again. `false` runs it in this process: nothing to start and nothing to send between
   * processes, but an abort of llama.cpp ends the program.
   */
  isolated?: boolean | undefined;
  /** Tokens that one conversation can hold, prompt and answer; 0 is what the model was trained on, which is also the most. Default 4096. */
  contextSize?: number | undefined;
  /** Answers that run at once, each with a context of its own; more wait. Default 4. */
  parallel?: number | undefined;
  /** Layers to compute on GPUs, −1 for all, `'auto'` for as many as fit. Default 0; with `device` or `requireGpu` it is `'auto'`. */
  gpuLayers?: number | 'auto' | undefined;
  /** GPUs to use, as `recua run --list-devices` names them, with commas between; `'none'` is the CPU alone. Default: all there are. */
  device?: string | undefined;
  /** Rejects with `gpu_unavailable` where no GPU would compute. Default `false`. */
  requireGpu?: boolean | undefined;
  /** MiB of memory for conversations that had to leave their context; 0 keeps none, −1, the default, is an eighth of all. */
  cacheRamMib?: number | undefined;
  /**
   * `'ngram-simple'` guesses tokens ahead from what the prompt and the answer repeat, and evaluates them together where that pays. The answers are
   * the same, and come faster where they quote or repeat. Default `'none'`.
   */
  specType?: 'none' | 'ngram-simple' | undefined;
  /** Most tokens guessed ahead at a time. Default 16. */
  specDraftMax?: number | undefined;
  /** Threads to generate with; 0, the default, is one per physical core. */
  threads?: number | undefined;
  /** Threads to read prompts with; 0, the default, is the same as `threads`. */
  threadsBatch?: number | undefined;
  /** Most tokens in one step of all answers together. Default 2048. */
  batchSize?: number | undefined;
  /** Most tokens in one forward pass. Default 512. */
  microBatchSize?: number | undefined;
  /** Longest wait of a running answer in milliseconds, from its fifth token on, while prompts are read. Default 250. */
  maxStallMs?: number | undefined;
  /** Default `'auto'`. */
  flashAttention?: 'auto' | 'on' | 'off' | undefined;
  /** Data type of cached keys: `'f16'` (the default), `'f32'`, `'bf16'`, `'q8_0'`, `'q4_0'`, `'q4_1'`, `'iq4_nl'`, `'q5_0'`, `'q5_1'`. */
  cacheTypeK?: string | undefined;
  /** Data type of cached values, as `cacheTypeK`. */
  cacheTypeV?: string | undefined;
  /** `false` reads the file into memory instead of mapping it. Default `true`. */
  mmap?: boolean | undefined;
  /** Keep the model from being swapped out. Default `false`. */
  mlock?: boolean | undefined;
  /** On a machine with several memory nodes: threads on all of them, on the one where the engine starts, or as numactl says. One choice for all models of a process. Default `'none'`. */
  numa?: 'none' | 'distribute' | 'isolate' | 'numactl' | undefined;
  /** Answers that may wait beyond those that run; more reject with `queue_full`. Default 512. */
  queueSize?: number | undefined;
  /** Jinja source instead of the file's own chat template. */
  chatTemplate?: string | undefined;
  /** How embeddings are pooled; `'auto'`, the default, takes what the file says, and mean where it says nothing. `'rank'` is for rerankers. */
  pooling?: 'auto' | 'none' | 'mean' | 'cls' | 'last' | 'rank' | undefined;
  /** Called while the model loads, with the part that is done, 0 to 1. */
  onProgress?: ((fraction: number) => void) | undefined;
  /** Called with lines of the log from the first moment on; the `log` event has the same once the model is there. */
  onLog?: ((level: 'debug' | 'info' | 'warn' | 'error', text: string) => void) | undefined;
  /** Aborts the loading, which then rejects with `cancelled`. */
  signal?: AbortSignal | undefined;
}

/** How text is generated. */
export interface GenerateOptions {
  /** Most tokens to generate. Default 2048. */
  maxTokens?: number | undefined;
  /** 0 always takes the likeliest token. Default 0.7. */
  temperature?: number | undefined;
  /** Keep this many of the likeliest tokens; 0 is off. Default 40. */
  topK?: number | undefined;
  /** Keep the likeliest tokens that add up to this probability; 1 is off. Default 0.95. */
  topP?: number | undefined;
  /** Drop tokens below this share of the likeliest one's probability; 0 is off. Default 0.05. */
  minP?: number | undefined;
  /** Locally typical sampling; 1, the default, is off. */
  typicalP?: number | undefined;
  /** Keep tokens within so many standard deviations of the best; −1, the default, is off. */
  topNSigma?: number | undefined;
  /** Penalty on tokens that came already; 1, the default, is off. */
  repeatPenalty?: number | undefined;
  /** Tokens the penalties look back at; −1 is the whole context. Default 64. */
  penaltyLastN?: number | undefined;
  /** Penalty for each time that a token came, −2 to 2. Default 0. */
  frequencyPenalty?: number | undefined;
  /** Penalty on tokens that came at all, −2 to 2. Default 0. */
  presencePenalty?: number | undefined;
  /** DRY, against repeated phrases; 0, the default, is off. */
  dryMultiplier?: number | undefined;
  /** Default 1.75. */
  dryBase?: number | undefined;
  /** Default 2. */
  dryAllowedLength?: number | undefined;
  /** Default −1, the whole context. */
  dryPenaltyLastN?: number | undefined;
  /** XTC, which drops the likeliest tokens at times; 0, the default, is off. */
  xtcProbability?: number | undefined;
  /** Default 0.1. */
  xtcThreshold?: number | undefined;
  /** Mirostat 1 or 2 instead of the samplers above; 0, the default, is off. */
  mirostat?: 0 | 1 | 2 | undefined;
  /** Default 5. */
  mirostatTau?: number | undefined;
  /** Default 0.1. */
  mirostatEta?: number | undefined;
  /** The same seed, request and build give the same answer. Of larger integers the low 32 bits count. Default: drawn at random. */
  seed?: number | undefined;
  /** Added to the logits of tokens, by token id, −100 to 100. */
  logitBias?: Readonly<Record<number, number>> | undefined;
  /** Go on where the model would end. Default `false`. */
  ignoreEos?: boolean | undefined;
  /** Text that ends the answer and is left out of it, or up to 16 of those. */
  stop?: string | readonly string[] | undefined;
  /** GBNF grammar that the answer has to follow. */
  grammar?: string | undefined;
  /** Aborts the answer, which then rejects with `cancelled`. */
  signal?: AbortSignal | undefined;
}

/** How to complete a text. */
export interface CompleteOptions<S extends Schema | undefined = undefined> extends GenerateOptions {
  /** The text has to be JSON that follows this; it comes parsed as `object`. What cannot be enforced is among the `warnings`. */
  schema?: S;
}

/** How to answer a conversation. */
export interface ChatOptions<S extends Schema | undefined = undefined> extends GenerateOptions {
  /** The answer has to be JSON that follows this; it comes parsed as `object`. What cannot be enforced is among the `warnings`. */
  schema?: S;
  /** Tools that the model may call, by name. */
  tools?: Tools | undefined;
  /** Default `'auto'`. It holds for the first answer; after results of tools the model is free. */
  toolChoice?: ToolChoice | undefined;
  /** Whether one answer may call several tools. Default: as the model's template has it. */
  parallelToolCalls?: boolean | undefined;
  /** How often the model is asked again with the results of tools before its calls are left to the program. Default 8. */
  maxToolRounds?: number | undefined;
  /** `false` tells models that can think to answer at once. Default `true`. */
  thinking?: boolean | undefined;
  /** Further variables for the chat template. */
  templateOptions?: Readonly<Record<string, unknown>> | undefined;
}

const cacheTypes = ['f16', 'f32', 'bf16', 'q8_0', 'q4_0', 'q4_1', 'iq4_nl', 'q5_0', 'q5_1'];
const maxStops = 16;
const maxStopLength = 1_024;

const loadNames = [
  'isolated', 'contextSize', 'parallel', 'gpuLayers', 'device', 'requireGpu', 'cacheRamMib', 'specType', 'specDraftMax', 'threads', 'threadsBatch', 'batchSize', 'microBatchSize', 'maxStallMs', 'flashAttention', 'cacheTypeK',
  'cacheTypeV', 'mmap', 'mlock', 'numa', 'queueSize', 'chatTemplate', 'pooling', 'onProgress', 'onLog', 'signal',
];
const generateNames = [...samplingNames, 'maxTokens', 'stop', 'grammar', 'schema', 'signal'];
const chatNames = [...generateNames, 'tools', 'toolChoice', 'parallelToolCalls', 'maxToolRounds', 'thinking', 'templateOptions'];

/** The options as fields. A name that is not known would be ignored otherwise, and is most often a mistyped one. */
export function openOptions(options: object, known: readonly string[]): Fields {
  if (!isObject(options)) throw wrongType('options', 'an object', options);
  const wrong = Object.keys(options).find((name) => !known.includes(name));
  if (wrong !== undefined) throw new RecuaError('invalid_value', `Unknown option ${wrong.slice(0, 100)}; expected one of ${known.join(', ')}.`, { param: wrong });
  return Fields.of(options);
}

export function readSignal(fields: Fields): AbortSignal | undefined {
  const signal = fields.get('signal');
  if (signal === undefined || isAbortSignal(signal)) return signal;
  throw wrongType('signal', 'an AbortSignal', signal);
}

function readFunction<F>(fields: Fields, name: string): F | undefined {
  const value = fields.get(name);
  if (value === undefined || typeof value === 'function') return value as F | undefined;
  throw wrongType(name, 'a function', value);
}

export function readLoadOptions(options: LoadOptions): { engine: Omit<EngineOptions, 'modelPath'>; isolated: boolean } & Pick<LoadOptions, 'onProgress' | 'onLog' | 'signal'> {
  const fields = openOptions(options, loadNames);
  const count = (name: keyof typeof defaults & keyof LoadOptions, min: number, max = int32Max) => fields.integer(name, { min, max }) ?? (defaults[name] as number);
  return {
    isolated: fields.boolean('isolated') ?? true,
    onProgress: readFunction(fields, 'onProgress'),
    onLog: readFunction(fields, 'onLog'),
    signal: readSignal(fields),
    engine: {
      contextSize: count('contextSize', 0),
      parallel: count('parallel', 1, 256),
      gpuLayers: options.gpuLayers === 'auto' ? 'auto' : count('gpuLayers', -1, 100_000),
      device: fields.string('device') ?? defaults.device,
      requireGpu: fields.boolean('requireGpu') ?? defaults.requireGpu,
      cacheRamMib: count('cacheRamMib', -1, 1 << 24),
      specType: fields.word('specType', ['none', 'ngram-simple']) ?? defaults.specType,
      specDraftMax: count('specDraftMax', 1, 64),
      threads: count('threads', 0, 1024),
      threadsBatch: count('threadsBatch', 0, 1024),
      batchSize: count('batchSize', 1, 1 << 20),
      microBatchSize: count('microBatchSize', 1, 1 << 20),
      maxStallMs: count('maxStallMs', 1, 60_000),
      queueSize: count('queueSize', 0, 1_000_000),
      flashAttention: fields.word('flashAttention', ['auto', 'on', 'off']) ?? defaults.flashAttention,
      cacheTypeK: fields.word('cacheTypeK', cacheTypes) ?? defaults.cacheTypeK,
      cacheTypeV: fields.word('cacheTypeV', cacheTypes) ?? defaults.cacheTypeV,
      mmap: fields.boolean('mmap') ?? defaults.mmap,
      mlock: fields.boolean('mlock') ?? defaults.mlock,
      numa: fields.word('numa', ['none', 'distribute', 'isolate', 'numactl']) ?? defaults.numa,
      chatTemplate: fields.string('chatTemplate') ?? '',
      pooling: fields.word('pooling', ['auto', 'none', 'mean', 'cls', 'last', 'rank']) ?? defaults.pooling,
    },
  };
}

export function makeChatRequest(input: string | readonly Message[], options: ChatOptions<Schema | undefined>, model: ModelDescription): { request: ChatRequest; maxToolRounds: number } {
  const fields = openOptions(options, chatNames);
  const tools = readTools(fields);
  const constraint = readConstraint(fields);
  if (constraint.kind === 'grammar' && tools.tools.length > 0 && tools.toolChoice !== 'none') throw conflict('grammar', 'tools');
  return {
    maxToolRounds: fields.integer('maxToolRounds', { min: 0, max: 1_000_000 }) ?? 8,
    request: {
      messages: readMessages(input),
      ...tools,
      ...readGeneration(fields, model),
      constraint,
      enableThinking: fields.boolean('thinking') ?? true,
      templateKwargs: fields.object('templateOptions') ?? {},
      template: '',
    },
  };
}

export function makeCompletionRequest(prompt: string | Int32Array, options: CompleteOptions<Schema | undefined>, model: ModelDescription): CompletionRequest {
  if (typeof prompt !== 'string' && !(prompt instanceof Int32Array)) throw wrongType('prompt', 'a text or tokens in an Int32Array', prompt);
  const fields = openOptions(options, generateNames);
  return { prompt, ...readGeneration(fields, model), constraint: readConstraint(fields) };
}

function readGeneration(fields: Fields, model: ModelDescription) {
  const sampling = readSampling(fields, { temperature: defaults.temperature, vocabSize: model.vocabSize, contextSize: model.contextSize }, true);
  return { sampling, maxTokens: fields.integer('maxTokens', { min: 1, max: int32Max }) ?? defaults.maxTokens, stop: readStop(fields) };
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
