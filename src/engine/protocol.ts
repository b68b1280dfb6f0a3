// The messages between the gateway process (engine/client) and the engine process (engine/host),
// and the internal words for a request and its answer. Types only; knows nothing of OpenAI's wire.
// The channel is child_process IPC with 'advanced' serialisation, so typed arrays cross as they are.
import type { Config } from '../config.js';
import type { PlainError } from '../errors.js';
import type { Device, Pooling } from '../addon.js';

/** How to load: fixed for the life of an engine process. Each setting is explained in config.ts. */
export type EngineOptions = {
  modelPath: string;
  /** For gpuLayers 'auto'; without it all layers are tried. */
  layerNeed?: LayerNeed | undefined;
} & Pick<Config,
  | 'contextSize' | 'parallel' | 'gpuLayers' | 'device' | 'requireGpu' | 'threads' | 'threadsBatch' | 'batchSize' | 'microBatchSize' | 'flashAttention'
  | 'cacheTypeK' | 'cacheTypeV' | 'mmap' | 'mlock' | 'queueSize' | 'chatTemplate' | 'pooling'>;

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
  logitBias: { token: number; bias: number }[];
  ignoreEos: boolean;
}

/** A message as chat templates know it: OpenAI's roles, text content. */
export interface ChatMessage {
  role: 'system' | 'user' | 'assistant' | 'tool';
  content: string | null;
  name?: string;
  reasoning_content?: string;
  tool_call_id?: string;
  tool_calls?: { id: string; type: 'function'; function: { name: string; arguments: string } }[];
}

export interface Tool {
  type: 'function';
  function: { name: string; description?: string; parameters?: object; strict?: boolean };
}

/** What constrains the answer's text. */
export type Constraint =
  | { kind: 'none' }
  | { kind: 'grammar'; grammar: string }
  /** JSON schema text; `{"type":"object"}` is any object. */
  | { kind: 'schema'; schema: string };

export interface ChatRequest {
  messages: ChatMessage[];
  tools: Tool[];
  toolChoice: 'auto' | 'required' | 'none';
  parallelToolCalls: boolean | undefined;
  constraint: Constraint;
  sampling: Sampling;
  /** Most tokens to generate; the context bounds it further. */
  maxTokens: number;
  stop: string[];
  enableThinking: boolean;
  templateKwargs: Record<string, unknown>;
  /** Jinja source for this request alone; '' is the one the engine was loaded with. */
  template: string;
}

/** Plain continuation of a text, no template. */
export interface CompletionRequest {
  prompt: string | Int32Array;
  constraint: Constraint;
  sampling: Sampling;
  maxTokens: number;
  stop: string[];
}

export interface EmbedRequest {
  inputs: (string | Int32Array)[];
}

export type FinishReason = 'stop' | 'length' | 'tool_calls';

export interface Usage {
  promptTokens: number;
  /** Of the prompt tokens, those whose KV was already there. */
  cachedTokens: number;
  completionTokens: number;
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
}

/** What happened to one request; `id` is the request's. */
export type EngineEvent =
  /** The prompt is sound and fits; generation will start when a sequence is free. From here on an error is a late one. */
  | { id: number; kind: 'accepted'; promptTokens: number }
  /** Its first step begins: until then a crash of the engine process is none of its doing, and it can run again. */
  | { id: number; kind: 'started' }
  | { id: number; kind: 'delta'; delta: Delta }
  | { id: number; kind: 'done'; finishReason: FinishReason; usage: Usage; timings: Timings; seed: number; warnings?: string[] }
  | { id: number; kind: 'embedded'; vectors: Float32Array; dimensions: number; tokenCounts: Int32Array }
  | { id: number; kind: 'result'; value: unknown }
  | { id: number; kind: 'error'; error: PlainError };

/** What the loaded model is, told once when it is ready. */
export interface ModelDescription {
  description: string;
  architecture: string;
  fileType: string;
  parameters: number;
  sizeBytes: number;
  vocabSize: number;
  vocabType: number;
  embeddingSize: number;
  layers: number;
  contextTrain: number;
  /** Effective tokens per request: the number that `context_length_exceeded` enforces. */
  contextSize: number;
  parallel: number;
  pooling: Pooling;
  hasChatTemplate: boolean;
  chatTemplate: string;
  canGenerate: boolean;
  canEmbed: boolean;
  /** All there are. */
  devices: Device[];
  offload: Offload;
  backends: string[];
  llamaCpp: string;
  /** Things the user should know, e.g. that prefixes can't be shared with this architecture. */
  notes: string[];
}

/** What `saveState` wrote or `restoreState` read. */
export interface SavedState {
  /** Tokens whose KV it covers; 0 where there was nothing to save, or the file does not serve here. */
  tokens: number;
  sizeBytes: number;
  /** Why a file that is there was not restored, in a sentence. */
  reason?: string;
}

/** A snapshot for /health and logs. */
export interface EngineStatus {
  running: number;
  waiting: number;
}

export type ToEngine =
  | { type: 'load'; options: EngineOptions }
  | { type: 'chat'; id: number; request: ChatRequest }
  | { type: 'complete'; id: number; request: CompletionRequest }
  | { type: 'embed'; id: number; request: EmbedRequest }
  | { type: 'tokenize'; id: number; text: string; addSpecial: boolean; parseSpecial: boolean }
  | { type: 'save'; id: number; path: string }
  | { type: 'restore'; id: number; path: string }
  | { type: 'forget'; id: number }
  | { type: 'cancel'; id: number }
  /** Finish what runs and end; the parent's disconnect means the same at once. */
  | { type: 'close' };

export type FromEngine =
  | { type: 'progress'; fraction: number }
  | { type: 'ready'; model: ModelDescription }
  | { type: 'failed'; error: PlainError }
  | { type: 'log'; level: 'debug' | 'info' | 'warn' | 'error'; text: string }
  /** All that one step brought, for all requests together. */
  | { type: 'events'; events: EngineEvent[]; status: EngineStatus };
