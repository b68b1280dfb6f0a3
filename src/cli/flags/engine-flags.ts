// The flags that say how a model is loaded, for every command that starts an engine; and what they mean to it.
import { readFile } from 'node:fs/promises';
import { defaults } from '../../settings/config.js';
import type { Config } from '../../settings/config.js';
import type { EngineOptions } from '../../engine/protocol.js';
import { RecuaError } from '../../errors.js';
import { offloadWish } from '../../models/needs/layer-need.js';
import { checkedFiles } from '../../models/gguf/model-file.js';
import type { ModelFile } from '../../models/gguf/model-file.js';
import { choice, integer, integerOr, off, on, text } from './flags.js';
import type { Values } from './flags.js';

/** Counts that llama.cpp keeps in 32 bits. */
export const maxCount = 2 ** 31 - 1;

const cacheTypes = ['f16', 'f32', 'bf16', 'q8_0', 'q4_0', 'q4_1', 'iq4_nl', 'q5_0', 'q5_1'] as const;

export const engineFlags = {
  contextSize: integer(['--ctx-size', '-c', '--context-size'], 'n', 'Tokens one request can hold, prompt and answer; 0 is the model\'s training size',
    { fallback: defaults.contextSize, min: 0, max: maxCount }),
  gpuLayers: integerOr(['--gpu-layers', '-ngl', '--n-gpu-layers'], 'Layers to offload to GPUs; auto (meant by --device and --require-gpu) is as many as their free memory holds, all or -1 is every one',
    { fallback: defaults.gpuLayers, min: -1, max: 100_000, words: { auto: 'auto', all: -1 } }),
  device: text(['--device', '-dev'], 'names', 'GPUs to use, as --list-devices names them, with commas between; none is the CPU alone, and without the flag all are used'),
  requireGpu: on(['--require-gpu'], 'Fail where no GPU would compute, and say why'),
  threads: integer(['--threads', '-t'], 'n', 'Threads to generate with; 0 is one per physical core', { fallback: defaults.threads, min: 0, max: 1024 }),
  threadsBatch: integer(['--threads-batch', '-tb'], 'n', 'Threads to read prompts with; 0 is the same as --threads',
    { fallback: defaults.threadsBatch, min: 0, max: 1024 }),
  batchSize: integer(['--batch-size', '-b'], 'n', 'Most tokens in one step', { fallback: defaults.batchSize, min: 1, max: 1 << 20 }),
  microBatchSize: integer(['--ubatch-size', '-ub'], 'n', 'Most tokens in one forward pass', { fallback: defaults.microBatchSize, min: 1, max: 1 << 20 }),
  maxStallMs: integer(['--max-stall-ms'], 'ms', 'Longest wait of a running answer, from its fifth token on, while prompts are read, or what 64 of their tokens take; shorter is smoother, longer reads prompts sooner',
    { fallback: defaults.maxStallMs, min: 1, max: 60_000 }),
  flashAttention: choice(['--flash-attn', '-fa'], 'Flash attention', ['auto', 'on', 'off']),
  cacheTypeK: choice(['--cache-type-k', '-ctk'], 'Data type of cached keys', cacheTypes),
  cacheTypeV: choice(['--cache-type-v', '-ctv'], 'Data type of cached values', cacheTypes),
  cacheRamMib: integer(['--cache-ram', '-cram'], 'mib', 'Memory for conversations that had to leave their sequence; 0 keeps none, -1 is an eighth of all',
    { fallback: defaults.cacheRamMib, min: -1, max: 1 << 24 }),
  specType: choice(['--spec-type'], 'Guess tokens ahead; ngram-simple takes them from what the prompt and the answer repeat, and gives the same answers faster', ['none', 'ngram-simple']),
  specDraftMax: integer(['--spec-draft-n-max', '--spec-ngram-simple-size-m'], 'n', 'Most tokens guessed ahead at a time', { fallback: defaults.specDraftMax, min: 1, max: 64 }),
  mmap: off(['--no-mmap'], 'Read the file into memory instead of mapping it'),
  mlock: on(['--mlock'], 'Keep the model from being swapped out'),
  numa: choice(['--numa'], 'On a machine with several memory nodes, threads on all of them (distribute), on the one it starts on (isolate), or as numactl says', ['none', 'distribute', 'isolate', 'numactl']),
  pooling: choice(['--pooling'], 'How embeddings are pooled; auto takes what the file says', ['auto', 'none', 'mean', 'cls', 'last', 'rank']),
  chatTemplateFile: text(['--chat-template-file'], 'file', 'Jinja template to use instead of the model\'s own'),
} as const;

/** The part of a configuration that these flags give. */
export async function engineConfig(values: Values<typeof engineFlags>): Promise<Partial<Config>> {
  const { chatTemplateFile, ...same } = values;
  return { ...same, chatTemplate: chatTemplateFile === '' ? '' : await readTextFile(chatTemplateFile) };
}

/** `file` lets --gpu-layers auto tell how many layers fit, and an engine trust what was checked. */
export function engineOptions(modelPath: string, config: Config, file?: ModelFile): EngineOptions {
  const {
    contextSize, parallel, device, requireGpu, threads, threadsBatch, batchSize, microBatchSize, maxStallMs, flashAttention,
    cacheTypeK, cacheTypeV, cacheRamMib, specType, specDraftMax, mmap, mlock, numa, queueSize, chatTemplate, pooling,
  } = config;
  return {
    modelPath, checked: file && checkedFiles(file), ...offloadWish(config, file),
    contextSize, parallel, device, requireGpu, threads, threadsBatch, batchSize, microBatchSize, maxStallMs, flashAttention,
    cacheTypeK, cacheTypeV, cacheRamMib, specType, specDraftMax, mmap, mlock, numa, queueSize, chatTemplate, pooling,
  };
}

/** A text file named by a flag. */
export async function readTextFile(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (cause) {
    throw new RecuaError('file_unreadable', `${path} cannot be read: ${(cause as Error).message}`, { cause });
  }
}
