// The messages between the gateway process (engine/gateway/client) and the engine process
// (engine/process/host), and the internal form of requests and answers. Types only; knows nothing
// of OpenAI's format. engine/channel carries them.
import type { EngineConfig } from '../settings/config.js';
import type { PlainError } from '../errors.js';
import type { BegunAnswer } from './begun-answer.js';
import type { ModelDescription } from './model-description.js';
import type { PackedTokens } from './packed-tokens.js';
import type { Progress, Telling } from './telling.js';
import type { ToolSource } from './tools.js';

export type { BegunAnswer } from './begun-answer.js';
export type { InputRules, Tool, ToolSource } from './tools.js';
export type { ModelDescription } from './model-description.js';

/** How to load; fixed for the life of an engine process. The settings are in settings/engine.ts. */
export type EngineOptions = {
  modelPath: string;
  /**
   * The model's files that passed the gateway's check. The engine checks a file again before
   * loading if it has changed since.
   */
  checked?: readonly { path: string; mark: string }[] | undefined;
  /** Families of kernels that the weights need (engine/proof); absent: all are proved. */
  kernels?: readonly string[] | undefined;
  /** If layers may go to a GPU; absent: as many as are wanted are tried. */
  layerNeed?: LayerNeed | undefined;
  /** Absent: conversations end with the process. */
  sleep?: SleepPlace | undefined;
} & EngineConfig;

/** Where conversations are kept while their model is not loaded. */
export interface SleepPlace {
  /** The model's own folder. */
  folder: string;
  /** The folder with all models' folders, and the limit for all of them together. */
  root: string;
  limitBytes: number;
  /** Longest time for writing. */
  mostMs: number;
  /**
   * The folder outlives the gateway: conversations are also written whenever the engine is idle.
   */
  lasts?: boolean;
}

/** Bytes that a model's parts take on the device that computes them. */
export interface LayerNeed {
  /** Weights, keys and values, from the first layer to the last. */
  layersBytes: number[];
  /** Parts of no layer, which are offloaded together with the first offloaded layer. */
  outputBytes: number;
  /** Compute buffers, needed on each device that is used. */
  computeBytes: number;
  /** Keys and values of all layers together. */
  kvBytes: number;
  /** `kvBytes` may be far above what llama.cpp takes. */
  kvIsBound: boolean;
}

/** Where a model computes. */
export interface Offload {
  /** Names of the devices in use besides the CPU; empty if the CPU computes everything. */
  devices: string[];
  /** Layers on these devices, of `totalLayers`; the output counts as one. */
  layers: number;
  totalLayers: number;
}

/** A request's sampling. Every field is present: the caller has applied the defaults. */
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
  /** Biases each token of the text. */
  textBias?: { text: string; bias: number }[];
  ignoreEos: boolean;
  /** The answer does not end before this many tokens. */
  minTokens: number;
  /** The chain's samplers by llama.cpp's names; undefined: its default order. */
  samplers?: string[];
  dynatempRange: number;
  dynatempExponent: number;
  adaptiveTarget: number;
  adaptiveDecay: number;
  /** Every sampler keeps at least this many tokens. */
  minKeep: number;
  /** Texts at which DRY starts over; undefined: llama.cpp's defaults. */
  drySequenceBreakers?: string[];
}

export interface TextPart {
  type: 'text';
  text: string;
}

/** A message for chat templates: OpenAI's roles, text content, whole or in parts. */
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
   * GBNF. `param` is the request's field that it comes from, for errors; default 'grammar'.
   * `afterThoughts`: if the prompt opens a thinking block, the grammar applies after its end.
   */
  | { kind: 'grammar'; grammar: string; param?: string; afterThoughts?: boolean }
  /**
   * JSON schema text; `{"type":"object"}` is any object. A keyword that cannot be enforced is an
   * error if `strict`, else a warning. `param` is the request's field that it comes from, for
   * errors.
   */
  | { kind: 'schema'; schema: string; strict: boolean; param: string };

/** The client behind a request: the queue is fair among clients. */
export interface Asker {
  /** The name of the client's key, or its address. */
  client: string;
  /** Requests with a higher priority go first; usually 0. */
  priority: number;
  /** Only requests with the same salt share the prompt's KV; absent: those without a salt. */
  salt?: string;
  /**
   * It asks for another answer of a request of which one answer has begun: it has a place even if
   * the queue is full, waits without a limit and gives way to nobody.
   */
  follows?: boolean;
}

/** Messages and tools are JSON texts, written once by the server and parsed once by native code. */
export interface ChatRequest {
  /** JSON of ChatMessage[]. */
  messages: string;
  /** JSON of Tool[]; '' for none. */
  tools: string;
  /** One per tool, in order. */
  toolSources: ToolSource[];
  toolChoice: 'auto' | 'required' | 'none';
  parallelToolCalls: boolean | undefined;
  constraint: Constraint;
  sampling: Sampling;
  /** Most tokens to generate; the context may leave room for fewer. */
  maxTokens: number;
  stop: string[];
  enableThinking: boolean;
  templateKwargs: Record<string, unknown>;
  thoughts?: ThoughtsRequest;
  /** Jinja source for this request alone; '': the template the engine was loaded with. */
  template: string;
  /**
   * If the last message is the assistant's: the part that the answer continues. Absent or 'auto':
   * its content, or its reasoning if there is no content.
   */
  continuation?: 'auto' | 'content' | 'reasoning_content' | 'none';
  /** False: the prompt ends after the messages, without the opening of an answer. */
  addGenerationPrompt?: boolean;
  /**
   * 'auto' drops turns from a prompt that does not fit; the answer's warnings say so. 'disabled':
   * the client could have asked for that, and the error says so.
   */
  truncation?: 'auto' | 'disabled';
  /** The request's field of each message, if it is not `messages[…]`. */
  messageSources?: string[];
  /** Time limit after the first token: the answer ends with the first line break beyond it. */
  generateMs?: number;
  /** Expected text of the answer, used as guesses: right ones make the answer faster. */
  prediction?: string;
  tells?: Telling;
  asker?: Asker;
}

/** Limits on thinking. If the template has no tags for it: no effect, and a warning. */
export interface ThoughtsRequest {
  /** Most tokens of a thinking block. */
  budget?: number;
  /** Text that ends the block when the budget is used up. */
  message?: string;
  /** `endThinking` may be called while the answer runs. */
  control?: boolean;
  /** The request's field of the budget, for warnings. */
  param?: string;
}

/** A chat as the model reads it. */
export interface Rendered {
  /** The template's text, without the token that the vocabulary adds before it. */
  prompt: string;
  /** Tokens of the prompt, even if they exceed the context. */
  tokenCount: number;
}

/** Code with a gap, and other files of the project. */
export interface Infill {
  prefix: string;
  suffix: string;
  extra: { filename: string; text: string }[];
}

/** Plain continuation of a text, without a template. */
export interface CompletionRequest {
  prompt: string | Int32Array;
  /** The code around the answer; the prompt, a text, is then the beginning of the middle. */
  infill?: Infill;
  constraint: Constraint;
  sampling: Sampling;
  /** 0: evaluates the prompt, generates nothing. */
  maxTokens: number;
  stop: string[];
  generateMs?: number;
  /** The first delta has the text of the prompt's tokens. */
  echo?: boolean;
  tells?: Telling;
  asker?: Asker;
}

export interface EmbedRequest {
  inputs: (string | Int32Array)[];
  asker?: Asker;
}

/** A reranker reads the query with each of the documents. */
export interface RerankRequest {
  query: string;
  documents: string[];
  asker?: Asker;
}

/** How an answer ended: by itself, at a limit, or with tool calls. */
export type FinishReason = 'stop' | 'length' | 'tool_calls';

/** Tokens of a request. */
export interface Usage {
  /** Tokens of the prompt, including the template. */
  promptTokens: number;
  /** Prompt tokens that were taken from the KV cache. */
  cachedTokens: number;
  /** Generated tokens. */
  completionTokens: number;
  /** Generated tokens of the reasoning; absent without reasoning. */
  reasoningTokens?: number;
  /** Tokens that were guessed ahead; absent if there were none and no prediction was given. */
  draftedTokens?: number;
  /** Guessed tokens that were right. */
  acceptedTokens?: number;
}

/** Milliseconds, measured in the engine process. */
export interface Timings {
  /** Wait before the first step. */
  queueMs: number;
  /** From the first step with this prompt to the first token. */
  promptMs: number;
  /** From the first token to the last. */
  generateMs: number;
}

/** A new piece of an answer. */
export interface Delta {
  content?: string;
  reasoning?: string;
  toolCalls?: { index: number; id?: string; name?: string; arguments?: string }[];
  /** The tokens of the text, if the request wants them. */
  tokens?: PackedTokens;
  /** Text of the prompt's tokens, and the tokens; with the first delta. */
  echo?: string;
  promptTokens?: PackedTokens[];
  progress?: Progress;
  soFar?: { usage: Usage; timings: Timings };
}

/** An event of one request; `id` is the request's. */
export type EngineEvent =
  /**
   * The prompt is valid and fits; generation starts when a sequence is free. Any error from here on
   * comes late, in the stream. `position` is the place in the queue; 0: it need not wait.
   */
  | { id: number; kind: 'accepted'; promptTokens: number; position: number; prompt?: Int32Array }
  /** Its first step begins. */
  | { id: number; kind: 'started' }
  | { id: number; kind: 'delta'; delta: Delta }
  | { id: number; kind: 'done'; finishReason: FinishReason; usage: Usage; timings: Timings; seed: number; stop?: string; warnings?: string[] }
  /** Inputs × dimensions; for a reranking, one row of scores per document. */
  | { id: number; kind: 'embedded'; vectors: Float32Array; dimensions: number; tokenCounts: Int32Array }
  | { id: number; kind: 'result'; value: unknown }
  | { id: number; kind: 'error'; error: PlainError };

/** What `saveState` wrote or `restoreState` read. */
export interface SavedState {
  /** Tokens whose KV it covers; 0 if there was nothing to save, or the file cannot be used here. */
  tokens: number;
  sizeBytes: number;
  /** Why nothing was saved or restored, as a sentence. `isBusy`: later it may be. */
  reason?: string;
  isBusy?: boolean;
}

/** A snapshot for /health and logs. */
export interface EngineStatus {
  running: number;
  waiting: number;
  /** Tokens generated since the model was loaded, including those of cancelled answers. */
  tokens: number;
  /** Absent if the model only embeds. */
  kv?: KvUse;
}

/** Tokens whose keys and values are in the context. */
export interface KvUse {
  /** Of running requests. */
  used: number;
  /** Of idle conversations, which give way to requests that need the room. */
  kept: number;
}

/** Requests; events with the same id answer them. */
export type RequestMessage =
  | { type: 'chat'; id: number; request: ChatRequest; begun?: BegunAnswer | undefined }
  | { type: 'complete'; id: number; request: CompletionRequest; begun?: BegunAnswer | undefined }
  | { type: 'embed'; id: number; request: EmbedRequest }
  | { type: 'rerank'; id: number; request: RerankRequest }
  | { type: 'render'; id: number; request: ChatRequest }
  | { type: 'tokenize'; id: number; text: string; addSpecial: boolean; parseSpecial: boolean; asker?: Asker | undefined }
  | { type: 'detokenize'; id: number; tokens: Int32Array; special: boolean; asker?: Asker | undefined }
  | { type: 'pieces'; id: number; tokens: Int32Array }
  | { type: 'save'; id: number; path: string }
  | { type: 'restore'; id: number; path: string }
  | { type: 'forget'; id: number };

/** Log levels, least important first. */
export const logLevels = ['debug', 'info', 'warn', 'error'] as const;
export type LogLevel = (typeof logLevels)[number];

/** Work of one part of an engine: `done` changes whenever it makes progress. */
export interface Work {
  busy: boolean;
  done: number;
}

/** Signs of life of the loop and the compute thread, and of the pool that prepares requests. */
export interface Pulse {
  compute: Work;
  pool: Work;
}

export type ToEngine =
  /**
   * Log lines below the level are not sent: llama.cpp writes hundreds for each load, and each would
   * be a message. `version`: the gateway's, since a newer Recua may have been installed meanwhile.
   */
  | { type: 'load'; version: string; options: EngineOptions; logLevel: LogLevel }
  | RequestMessage
  | { type: 'cancel'; id: number }
  /** For an answer whose request has `thoughts.control`; no effect on others. */
  | { type: 'endThinking'; id: number }
  /** Answered at once, with a pulse. */
  | { type: 'look' }
  /**
   * Finish running requests, write conversations to files if `sleeps`, and exit. If the parent
   * disconnects, the process exits at once.
   */
  | { type: 'close'; sleeps: boolean };

export type FromEngine =
  | { type: 'progress'; fraction: number }
  | { type: 'ready'; model: ModelDescription }
  | { type: 'failed'; error: PlainError }
  | { type: 'log'; level: LogLevel; text: string }
  | { type: 'pulse'; pulse: Pulse }
  /**
   * All events of one step, for all requests together. `generated` is a list of: a request's id,
   * its sampler's draws, a number of tokens, these tokens. No text is sent before its tokens.
   */
  | { type: 'events'; events: EngineEvent[]; status: EngineStatus; generated?: Int32Array | undefined };
