// How much memory a model needs, from its metadata alone. Uses llama.cpp's own sums: weights and KV
// cache are exact for architectures with a regular layout and upper bounds for the rest; compute
// buffers are an estimate. Called by `show`, by `pull` to say what fits, and by `chat` for its
// context.
import { defaults, type Config } from '../../settings/config.js';
import { thisProcessor, weightsOnCpu, type Processor } from './cpu-weights.js';
import type { MetadataValue } from '../gguf/gguf.js';
import type { ModelFile } from '../gguf/model-file.js';
import { tensorTypes } from '../gguf/tensor-types.js';

export interface MemoryOptions {
  /** Tokens that one request can hold; 0 means the model's training size. */
  contextSize: number;
  /** Concurrent requests, each with its own context. */
  parallel: number;
  /** ggml type names of cached keys and values, e.g. 'f16', 'q8_0'. */
  cacheTypeK: string;
  cacheTypeV: string;
  /** Most tokens of one pass, never more than a step has; absent means the defaults. */
  batchSize?: number;
  microBatchSize?: number;
  flashAttention?: Config['flashAttention'];
  /** The processor's features; absent means this machine's. */
  processor?: Processor;
}

export interface MemoryNeed {
  /** Weights. If the CPU computes, including the copies that it makes of some. */
  weightsBytes: number;
  /** Keys and values of the context, and the states of recurrent layers. */
  kvBytes: number;
  /** `kvBytes` may be far above what llama.cpp takes. */
  kvIsBound: boolean;
  computeBytes: number;
  totalBytes: number;
}

/** Texts of one pass that computes vectors, as engine/process/load has it. */
const embedderSequences = 32;

/** A context's cells come in multiples of this. */
const cellStep = 256;

/**
 * Exact: weights, and the KV cache of models in which every layer attends (llama.cpp keeps the
 * whole context for sliding windows too, as Recua runs it). Upper bounds: KV of hybrid models that
 * do not state which layers are recurrent, and of latent attention.
 */
export function estimateMemory(model: ModelFile, options: MemoryOptions): MemoryNeed {
  const { contextSize, parallel, cacheTypeK, cacheTypeV, processor = thisProcessor() } = options;
  const shape = shapeOf(model);
  const trained = model.contextTrain > 0 ? model.contextTrain : defaults.contextSize;
  // The engine gives no request more than the training size.
  const wanted = contextSize > 0 ? Math.min(contextSize, model.contextTrain || Infinity) : trained;
  const cells = Math.ceil(wanted / cellStep) * cellStep * parallel;
  const weightsBytes = weightsOnCpu(model.parts.flatMap((part) => part.tensors), processor, shape.causal);
  const rows = shape.layers.map((layer) =>
    shape.causal ? bytesPerRow(layer.keyWidth, cacheTypeK) + bytesPerRow(layer.valueWidth, cacheTypeV) : 0,
  );
  const states = shape.layers.filter((layer) => layer.recurrent).length * shape.stateBytes * parallel;
  const kvBytes = Math.ceil(rows.reduce((sum, row) => sum + row * cells, 0) + states);
  const computeBytes = shape.causal ? estimateCompute(shape, cells, options) : estimateEncoding(shape, cells / parallel);
  return { weightsBytes, kvBytes, kvIsBound: shape.kvIsBound, computeBytes, totalBytes: weightsBytes + kvBytes + computeBytes };
}

/**
 * The largest context, a multiple of 256 up to the training size, with which a model fits; 0 if it
 * does not fit at all.
 */
export function largestContext(model: ModelFile, budgetBytes: number, options: Omit<MemoryOptions, 'contextSize'>): number {
  const most = model.contextTrain > 0 ? model.contextTrain : defaults.contextSize;
  const fits = (contextSize: number) => estimateMemory(model, { ...options, contextSize }).totalBytes <= budgetBytes;
  if (fits(most)) return most;
  let low = 0;
  let high = Math.ceil(most / cellStep);
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (fits(middle * cellStep)) low = middle;
    else high = middle;
  }
  return low * cellStep;
}

interface Layer {
  /** Values per token in the key and value cache; 0 for a layer without attention. */
  keyWidth: number;
  valueWidth: number;
  recurrent: boolean;
}

interface Shape {
  layers: readonly Layer[];
  causal: boolean;
  /** Which layers are recurrent is unknown, or attention is latent. */
  kvIsBound: boolean;
  /** Per recurrent layer and sequence. */
  stateBytes: number;
  embedding: number;
  /**
   * Widest activation between two matrices of a layer's attention, and of its feed-forward part.
   */
  attentionWidth: number;
  heads: number;
  forwardWidth: number;
  /** Width of what a layer's feed-forward part computes first, with its gate. */
  upWidth: number;
  vocabulary: number;
}

function shapeOf(model: ModelFile): Shape {
  const metadata = model.parts[0].metadata;
  const value = (key: string) => metadata.get(`${model.architecture}.${key}`);
  const number = (key: string, otherwise = 0) => largest(value(key)) ?? otherwise;
  const embedding = model.embeddingSize;
  const heads = number('attention.head_count', 0);
  const perHead = heads > 0 ? embedding / heads : 0;
  const keyLength = number('attention.key_length', perHead);
  const valueLength = number('attention.value_length', perHead);
  const isRecurrent = metadata.has(`${model.architecture}.ssm.state_size`) || metadata.has(`${model.architecture}.wkv.head_size`)
    || metadata.has(`${model.architecture}.shortconv.l_cache`);
  const interval = number('full_attention_interval');
  const kvHeads = value('attention.head_count_kv') ?? value('attention.head_count');
  // Each layer of Nemotron-H is one of three kinds; those with a width are feed-forward.
  const isForward = (index: number) => model.architecture.startsWith('nemotron_h') && (itemOf(value('feed_forward_length'), index) ?? 0) > 0;
  const layers = Array.from({ length: model.layers }, (_, index): Layer => {
    const ofLayer = isForward(index) || (interval > 0 && (index + 1) % interval !== 0) ? 0 : itemOf(kvHeads, index) ?? heads;
    // A list of head counts with a 0 shows which layers are recurrent; without one, all may be.
    return {
      keyWidth: ofLayer * keyLength,
      valueWidth: ofLayer * valueLength,
      recurrent: isRecurrent && !isForward(index) && (ofLayer === 0 || !saysWhich(kvHeads, interval)),
    };
  });
  return {
    layers,
    kvIsBound: (isRecurrent && !saysWhich(kvHeads, interval)) || metadata.has(`${model.architecture}.attention.kv_lora_rank`),
    causal: metadata.get(`${model.architecture}.attention.causal`) !== false,
    stateBytes: 4 * (convolutionState(number, embedding) + matrixState(number, embedding)),
    embedding,
    heads,
    attentionWidth: Math.max(embedding, heads * Math.max(keyLength, valueLength)),
    forwardWidth: Math.max(number('feed_forward_length'), number('expert_feed_forward_length') * number('expert_used_count') + number('expert_shared_feed_forward_length'), number('ssm.inner_size')),
    upWidth: model.parts.flatMap(({ tensors }) => tensors).filter(({ name }) => /^blk\.0\.ffn_(up|gate)\.weight$/.test(name)).reduce((sum, { shape }) => sum + (shape[1] ?? 0), 0),
    vocabulary: model.vocabSize,
  };
}

/** llama_hparams::n_embd_r: what recurrent layers keep of the last tokens. */
function convolutionState(number: (key: string, otherwise?: number) => number, embedding: number): number {
  if (number('wkv.head_size') > 0) return number('token_shift_count', 2) * embedding;
  if (number('shortconv.l_cache') > 0) return embedding * (number('shortconv.l_cache') - 1);
  return Math.max(0, number('ssm.conv_kernel') - 1) * (number('ssm.inner_size') + 2 * number('ssm.group_count') * number('ssm.state_size'));
}

/** llama_hparams::n_embd_s: the state itself. */
function matrixState(number: (key: string) => number, embedding: number): number {
  return number('wkv.head_size') > 0 ? embedding * number('wkv.head_size') : number('ssm.state_size') * number('ssm.inner_size');
}

/**
 * What the graph of one pass holds at once. With flash attention: the mask in half precision, three
 * activations of the attention's width and three of the feed-forward's, and a row of logits per
 * sequence. Without it: the mask in single precision, and each head's weights for all cells. Within
 * a few percent for plain transformers.
 */
function estimateCompute(shape: Shape, cells: number, options: MemoryOptions): number {
  const { parallel, batchSize = defaults.batchSize, microBatchSize = defaults.microBatchSize, flashAttention = 'auto' } = options;
  const tokens = Math.min(microBatchSize, Math.max(batchSize, parallel), cells);
  const perCell = flashAttention === 'off' ? 4 + 4 * shape.heads : 2;
  const attention = perCell * tokens * cells / parallel;
  const activations = 4 * tokens * 3 * (shape.attentionWidth + shape.forwardWidth);
  return Math.ceil(attention + activations + 4 * shape.vocabulary * parallel);
}

/**
 * The same for a model that sees a whole input at once, so that one pass holds all of it: the mask
 * in half precision, three activations of the attention's width and those of one feed-forward part,
 * and each token's share in the vectors.
 */
function estimateEncoding(shape: Shape, tokens: number): number {
  return Math.ceil(2 * tokens * tokens + 4 * tokens * (3 * shape.attentionWidth + shape.upWidth + embedderSequences));
}

function bytesPerRow(width: number, typeName: string): number {
  const type = [...tensorTypes.values()].find(({ name }) => name === typeName.toUpperCase()) ?? { blockElements: 1, blockBytes: 2 };
  return width / type.blockElements * type.blockBytes;
}

function saysWhich(kvHeads: MetadataValue | undefined, interval: number): boolean {
  return interval > 0 || (typeof kvHeads === 'object' && 'items' in kvHeads && kvHeads.items.some((item) => Number(item) === 0)) || Number(kvHeads) === 0;
}

/** A layer's value from a list, or the one value for all layers. */
function itemOf(value: MetadataValue | undefined, index: number): number | undefined {
  if (typeof value === 'object') return 'items' in value ? finite(value.items[index]) : undefined;
  return finite(value);
}

function largest(value: MetadataValue | undefined): number | undefined {
  if (typeof value === 'object') return 'items' in value && value.items.length > 0 ? Math.max(...value.items.map((item) => finite(item) ?? 0)) : undefined;
  return finite(value);
}

function finite(value: MetadataValue | undefined): number | undefined {
  const number = typeof value === 'number' || typeof value === 'bigint' ? Number(value) : NaN;
  return Number.isFinite(number) && number >= 0 ? number : undefined;
}
