// What an engine says of the model that it has loaded. Types only, as protocol's, whose messages
// carry it.
import type { Device, Pooling } from '../addon/addon.js';
import type { Offload } from './protocol.js';

/** What the loaded model is, told once when it is ready. */
export interface ModelDescription {
  /** llama.cpp's one-line description, e.g. "llama 1B Q8_0". */
  description: string;
  /** Of its files as they were loaded, by models/gguf: the same for the same files. */
  fingerprint: string;
  /** As the file names it, e.g. "llama". */
  architecture: string;
  /** Quantization, e.g. "Q8_0". */
  fileType: string;
  /** Numbers the model was trained to. */
  parameters: number;
  /** Of all tensors. */
  sizeBytes: number;
  /** Tokens of the vocabulary. */
  vocabSize: number;
  /** llama.cpp's number of the kind of vocabulary. */
  vocabType: number;
  /** Numbers of an embedding vector. */
  embeddingSize: number;
  /** Blocks of the network. */
  layers: number;
  /** Tokens the model was trained on at once. */
  contextTrain: number;
  /** Effective tokens per request: the number that `context_length_exceeded` enforces. */
  contextSize: number;
  /**
   * Tokens that the shortest chat and the first of its answer take; 0 where the context is far from
   * so small, or there is no telling.
   */
  leastContext: number;
  /** Requests that run at once. */
  parallel: number;
  /** How the vectors of a text's tokens become one. */
  pooling: Pooling;
  /** Whether the file, or who loaded it, gives a chat template. */
  hasChatTemplate: boolean;
  /** Its Jinja source, '' if there is none. */
  chatTemplate: string;
  /** It can chat and complete. */
  canGenerate: boolean;
  /** It can fill gaps in code. */
  canInfill: boolean;
  /** Texts of the tokens that begin and end a text; '' where there are none. */
  bosText: string;
  eosText: string;
  /** It gives embedding vectors. */
  canEmbed: boolean;
  /** It is a reranker. */
  canRerank: boolean;
  /** What there is to compute on. */
  devices: Device[];
  /** What of it is used. */
  offload: Offload;
  /** ggml's backends in this build. */
  backends: string[];
  /** Version of llama.cpp. */
  llamaCpp: string;
  /** Things the user should know, e.g. that prefixes can't be shared with this architecture. */
  notes: string[];
}
