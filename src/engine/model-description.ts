// An engine's description of its loaded model. Types only; messages of protocol.ts carry it.
import type { Device, Pooling } from '../addon/addon.js';
import type { Offload } from './protocol.js';

/** The loaded model, described once when it is ready. */
export interface ModelDescription {
  /** llama.cpp's one-line description, e.g. "llama 1B Q8_0". */
  description: string;
  /** Identifies the files as they were loaded (models/gguf): the same for the same files. */
  fingerprint: string;
  /** The file's name for it, e.g. "llama". */
  architecture: string;
  /** Quantization, e.g. "Q8_0". */
  fileType: string;
  /** Number of weights. */
  parameters: number;
  /** All tensors together. */
  sizeBytes: number;
  /** Tokens of the vocabulary. */
  vocabSize: number;
  /** llama.cpp's number for the kind of vocabulary. */
  vocabType: number;
  /** Dimensions of an embedding vector. */
  embeddingSize: number;
  /** Blocks of the network. */
  layers: number;
  /** Context length in training, in tokens; 0: the file states none that can be. */
  contextTrain: number;
  /** Effective tokens per request: the number that `context_length_exceeded` enforces. */
  contextSize: number;
  /**
   * The smallest context in which a chat is possible: its shortest prompt and one token of answer.
   * 0 if unknown, or if `contextSize` is so much larger that it does not matter.
   */
  leastContext: number;
  /** Requests that run at once. */
  parallel: number;
  /** How the vectors of a text's tokens become one. */
  pooling: Pooling;
  /** Whether the file or the settings have a chat template. */
  hasChatTemplate: boolean;
  /** Jinja source of the chat template, '' if there is none. */
  chatTemplate: string;
  /** It can chat and complete. */
  canGenerate: boolean;
  /** It can fill gaps in code. */
  canInfill: boolean;
  /** Text of the token that begins a text; '' if there is none. */
  bosText: string;
  /** Text of the token that ends a text; '' if there is none. */
  eosText: string;
  /** It gives embedding vectors. */
  canEmbed: boolean;
  /** It is a reranker. */
  canRerank: boolean;
  /** Available devices. */
  devices: Device[];
  /** The devices in use besides the CPU, and how many layers they compute. */
  offload: Offload;
  /** Memory that it takes on these devices together, as measured while it was loaded. */
  deviceBytes: number;
  /** ggml's backends in this build. */
  backends: string[];
  /** Version of llama.cpp. */
  llamaCpp: string;
  /** Notes for the user, e.g. that prefixes can't be shared with this architecture. */
  notes: string[];
}
