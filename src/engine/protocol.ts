// The messages between the gateway process (engine/gateway/client) and the engine process
// (engine/process/host), and the internal words for a request and its answer. Types only; knows
// nothing of OpenAI's wire. The channel is child_process IPC with 'advanced' serialization, so
// typed arrays cross as they are.
import type { EngineConfig } from '../settings/config.js';
import type { PlainError } from '../errors.js';
import type { BegunAnswer } from './begun-answer.js';
import type { ModelDescription } from './model-description.js';
import type { Progress, Telling, ToldToken } from './telling.js';
import type { ToolSource } from './tools.js';

export type { BegunAnswer } from './begun-answer.js';
export type { InputRules, Tool, ToolSource } from './tools.js';
export type { ModelDescription } from './model-description.js';

/**
 * How to load: fixed for the life of an engine process. The settings are those of
 * settings/engine.ts.
 */
export type EngineOptions = {
  modelPath: string;
  /**
   * The model's files that were found sound, as they were then; any that is another by now is
   * checked again before it is loaded.
   */
  checked?: readonly { path: string; mark: string }[] | undefined;
  /** Families of kernels that the weights need (engine/proof); without it all are proved. */
  kernels?: readonly string[] | undefined;
  /** For gpuLayers 'auto'; without it all layers are tried. */
  layerNeed?: LayerNeed | undefined;
  /** Without it conversations end with the process. */
  sleep?: SleepPlace | undefined;
} & EngineConfig;

/** Where conversations are kept while their model is not loaded. */
export interface SleepPlace {
  /** The model's own. */
  folder: string;
  /** The folder of all models' folders, and what they may hold together. */
  root: string;
  limitBytes: number;
  /** Longest time for writing them. */
  mostMs: number;
  /** It outlives the gateway: they are also written whenever nothing is to be done. */
  lasts?: boolean;
}

/** Bytes that a model's parts take on the device that computes them. */
export interface LayerNeed {
  /** Weights, keys and values, from the first layer to the last. */
  layersBytes: number[];
  /** What belongs to no layer and is offloaded with the first that is. */
  outputBytes: number;
  /** On each device, whatever it computes. */
  computeBytes: number;
}

/** Where a model computes. */
export interface Offload {
  /** Names of the devices beside the CPU that do; empty where the CPU does it all. */
  devices: string[];
  /** Layers on them, of so many; the output counts as one. */
  layers: number;
  totalLayers: number;
}

/** Sampling as a request states it; every field is present, defaults were applied by the caller. */
export interface Sampling {
  temperature: number;
  topK: number;
  topP: number;
  minP: number;
  typicalP: number;
  topNSigma: number;
  repeatPenalty: number;
  penaltyLastN: number;
  frequencyPenalty: number;
  presencePenalty: number;
  dryMultiplier: number;
  dryBase: number;
  dryAllowedLength: number;
  dryPenaltyLastN: number;
  xtcProbability: number;
  xtcThreshold: number;
  mirostat: 0 | 1 | 2;
  mirostatTau: number;
  mirostatEta: number;
  /** 32-bit; undefined draws a random one. */
  seed: number | undefined;
  /** -Infinity bans. */
  logitBias: { token: number; bias: number }[];
  /** Of each token of the texts. */
  textBias?: { text: string; bias: number }[];
  ignoreEos: boolean;
  /** No end before so many tokens. */
  minTokens: number;
  /** The chain's samplers by llama.cpp's names; undefined is its own order. */
  samplers?: string[];
  dynatempRange: number;
  dynatempExponent: number;
  adaptiveTarget: number;
  adaptiveDecay: number;
  /** Tokens that every sampler leaves at least. */
  minKeep: number;
  /** Texts at which DRY begins anew; undefined are llama.cpp's own. */
  drySequenceBreakers?: string[];
}

export interface TextPart {
  type: 'text';
  text: string;
}

/** A message as chat templates know it: OpenAI's roles, text content, whole or in parts. */
export interface ChatMessage {
  role: 'system' | 'user' | 'assistant' | 'tool';
  content: string | TextPart[] | null;
  name?: string;
  reasoning_content?: string;
  tool_call_id?: string;
  tool_calls?: { id: string; type: 'function'; function: { name: string; arguments: string } }[];
}

/** What constrains the answer's text. */
export type Constraint =
  | { kind: 'none' }
  /**
   * GBNF. `param` is the request's field that it comes from, for errors; 'grammar' without it.
   * `afterThoughts`: it holds from where a thinking block ends that the prompt has begun.
   */
  | { kind: 'grammar'; grammar: string; param?: string; afterThoughts?: boolean }
  /**
   * JSON schema text; `{"type":"object"}` is any object. A keyword that cannot be enforced is an
   * error where `strict`, else a warning. `param` is the request's field that it comes from, for
   * errors.
   */
  | { kind: 'schema'; schema: string; strict: boolean; param: string };

/** Who a request is from: requests that wait are taken in turn among clients. */
export interface Asker {
  /** Their key's name, or their address. */
  client: string;
  /** Those with a higher one go first; usually 0. */
  priority: number;
  /**
   * What was computed for its prompt serves those of the same salt alone; absent: for all without
   * one.
   */
  salt?: string;
}

/**
 * Messages and tools are JSON texts, written once by who reads the request and parsed once by
 * native code.
 */
export interface ChatRequest {
  /** Of ChatMessage[]. */
  messages: string;
  /** Of Tool[]; '' where there are none. */
  tools: string;
  /** One for each tool, in order. */
  toolSources: ToolSource[];
  toolChoice: 'auto' | 'required' | 'none';
  parallelToolCalls: boolean | undefined;
  constraint: Constraint;
  sampling: Sampling;
  /** Most tokens to generate; the context bounds it further. */
  maxTokens: number;
  stop: string[];
  enableThinking: boolean;
  templateKwargs: Record<string, unknown>;
  thoughts?: ThoughtsRequest;
  /** Jinja source for this request alone; '' is the one the engine was loaded with. */
  template: string;
  /**
   * What of a last message that is the assistant's is gone on with; absent is 'auto': its content,
   * or what it thought where there is only that.
   */
  continuation?: 'auto' | 'content' | 'reasoning_content' | 'none';
  /** False: nothing is written behind the messages for an answer to begin with. */
  addGenerationPrompt?: boolean;
  /** A prompt that does not fit is made of fewer turns, and the answer's warnings say so. */
  truncation?: 'auto';
  /** The request's field of each message, where it is not `messages[…]`. */
  messageSources?: string[];
  /**
   * Time to generate after the first token: the answer ends with the first line break beyond it.
   */
  generateMs?: number;
  /** What the answer may be like: guessed ahead, so that it comes faster where it comes true. */
  prediction?: string;
  tells?: Telling;
  asker?: Asker;
}

/** When thinking has to end. Without effect, and with a warning, where the template has no tags. */
export interface ThoughtsRequest {
  /** Tokens of a thinking block. */
  budget?: number;
  /** What the block ends with when it is used up. */
  message?: string;
  /** It may be told to end while the answer runs. */
  control?: boolean;
  /** The request's field of the budget, for warnings. */
  param?: string;
}

/** A chat as the model reads it. */
export interface Rendered {
  /** The template's text, without the token that the vocabulary puts before it. */
  prompt: string;
  /** Tokens of the prompt, more than the context holds if need be. */
  tokenCount: number;
}

/** Code with a gap, and other files of it. */
export interface Infill {
  prefix: string;
  suffix: string;
  extra: { filename: string; text: string }[];
}

/** Plain continuation of a text, no template. */
export interface CompletionRequest {
  prompt: string | Int32Array;
  /** What is around the answer; the prompt, a text, is its beginning then. */
  infill?: Infill;
  constraint: Constraint;
  sampling: Sampling;
  /** 0 evaluates the prompt, and generates nothing. */
  maxTokens: number;
  stop: string[];
  generateMs?: number;
  /** The text of the prompt's tokens is told, with the first delta. */
  echo?: boolean;
  tells?: Telling;
  asker?: Asker;
}

export interface EmbedRequest {
  inputs: (string | Int32Array)[];
}

/** A reranker reads the query with each of the documents. */
export interface RerankRequest {
  query: string;
  documents: string[];
}

/** How an answer ended: by itself, cut off, or with calls of tools. */
export type FinishReason = 'stop' | 'length' | 'tool_calls';

/** Tokens of a request. */
export interface Usage {
  /** Tokens of the prompt, template included. */
  promptTokens: number;
  /** Of the prompt tokens, those whose KV was already there. */
  cachedTokens: number;
  /** Tokens that were generated. */
  completionTokens: number;
  /** Of these, those that the model thought with; absent where it did not. */
  reasoningTokens?: number;
  /** Tokens that were guessed ahead; absent where there were none. */
  draftedTokens?: number;
  /** Of these, those that came true. */
  acceptedTokens?: number;
}

/** Milliseconds, measured in the engine process. */
export interface Timings {
  /** Waited before the first step. */
  queueMs: number;
  /** From the first step with this prompt to the first token. */
  promptMs: number;
  /** From the first token to the last. */
  generateMs: number;
}

/** What is new of an answer. */
export interface Delta {
  content?: string;
  reasoning?: string;
  toolCalls?: { index: number; id?: string; name?: string; arguments?: string }[];
  /** Tokens whose text came by now, where they are told. */
  tokens?: ToldToken[];
  /** Text of the prompt's tokens, and these, with the first delta. */
  echo?: string;
  promptTokens?: ToldToken[];
  progress?: Progress;
  soFar?: { usage: Usage; timings: Timings };
}

/** What happened to one request; `id` is the request's. */
export type EngineEvent =
  /**
   * The prompt is sound and fits; generation will start when a sequence is free. From here on an
   * error is a late one. `position` is its place among those that wait for one; 0 waits for none.
   */
  | { id: number; kind: 'accepted'; promptTokens: number; position: number; prompt?: Int32Array }
  /** Its first step begins. */
  | { id: number; kind: 'started' }
  | { id: number; kind: 'delta'; delta: Delta }
  | { id: number; kind: 'done'; finishReason: FinishReason; usage: Usage; timings: Timings; seed: number; stop?: string; warnings?: string[] }
  /** Inputs × dimensions; of a reranking, one row of scores per document. */
  | { id: number; kind: 'embedded'; vectors: Float32Array; dimensions: number; tokenCounts: Int32Array }
  | { id: number; kind: 'result'; value: unknown }
  | { id: number; kind: 'error'; error: PlainError };

/** What `saveState` wrote or `restoreState` read. */
export interface SavedState {
  /**
   * Tokens whose KV it covers; 0 where there was nothing to save, or the file does not serve here.
   */
  tokens: number;
  sizeBytes: number;
  /** Why a file that is there was not restored, in a sentence. */
  reason?: string;
}

/** A snapshot for /health and logs. */
export interface EngineStatus {
  running: number;
  waiting: number;
  /** Generated since the model was loaded, those of answers that were cancelled included. */
  tokens: number;
  /** Absent where the model only embeds. */
  kv?: KvUse;
}

/** Tokens whose keys and values lie in the context. */
export interface KvUse {
  /** Of requests at work. */
  used: number;
  /** Of conversations that nobody works on: they give way to whoever needs the room. */
  kept: number;
}

/** What is answered by events of the same id. */
export type RequestMessage =
  | { type: 'chat'; id: number; request: ChatRequest; begun?: BegunAnswer | undefined }
  | { type: 'complete'; id: number; request: CompletionRequest; begun?: BegunAnswer | undefined }
  | { type: 'embed'; id: number; request: EmbedRequest }
  | { type: 'rerank'; id: number; request: RerankRequest }
  | { type: 'render'; id: number; request: ChatRequest }
  | { type: 'tokenize'; id: number; text: string; addSpecial: boolean; parseSpecial: boolean }
  | { type: 'detokenize'; id: number; tokens: Int32Array; special: boolean }
  | { type: 'pieces'; id: number; tokens: Int32Array }
  | { type: 'save'; id: number; path: string }
  | { type: 'restore'; id: number; path: string }
  | { type: 'forget'; id: number };

/** How much a line of the log matters, least first. */
export const logLevels = ['debug', 'info', 'warn', 'error'] as const;
export type LogLevel = (typeof logLevels)[number];

/** Work of one part of an engine: `done` is another number whenever it went on. */
export interface Work {
  busy: boolean;
  done: number;
}

/**
 * Signs of life: of the loop and the thread that computes, and of the pool that prepares requests.
 */
export interface Pulse {
  compute: Work;
  pool: Work;
}

export type ToEngine =
  /**
   * Lines below the level stay where they are: llama.cpp has hundreds for each load, and each would
   * be a message.
   */
  | { type: 'load'; options: EngineOptions; logLevel: LogLevel }
  | RequestMessage
  | { type: 'cancel'; id: number }
  /** Of an answer whose request has `thoughts.control`; any other is left as it is. */
  | { type: 'endThinking'; id: number }
  /** Answered by a pulse, at once. */
  | { type: 'look' }
  /**
   * Finish what runs and end, having kept conversations where it `sleeps`; the parent's disconnect
   * means to end at once.
   */
  | { type: 'close'; sleeps: boolean };

export type FromEngine =
  | { type: 'progress'; fraction: number }
  | { type: 'ready'; model: ModelDescription }
  | { type: 'failed'; error: PlainError }
  | { type: 'log'; level: LogLevel; text: string }
  | { type: 'pulse'; pulse: Pulse }
  /**
   * All that one step brought, for all requests together. `generated` is a list of: a request's id,
   * its sampler's draws, a number of tokens, these tokens. No text is told before its tokens.
   */
  | { type: 'events'; events: EngineEvent[]; status: EngineStatus; generated?: Int32Array | undefined };
