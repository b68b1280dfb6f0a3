// What each layer of a model takes on its device, so that an engine can tell how many layers fit
// into free memory. Called by the commands that start an engine.
import { isNoGpu, type Config } from '../../settings/config.js';
import type { EngineOptions, LayerNeed } from '../../engine/protocol.js';
import { estimateMemory } from './memory.js';
import type { MemoryOptions } from './memory.js';
import type { ModelFile } from '../gguf/model-file.js';

/**
 * Resolves --gpu-layers: naming or requiring a GPU means it must compute. Without a model, all
 * layers are tried.
 */
export function offloadWish(
  { gpuLayers, device, requireGpu, ...memory }: MemoryOptions & Pick<Config, 'gpuLayers' | 'device' | 'requireGpu'>, model?: ModelFile,
): Pick<EngineOptions, 'gpuLayers' | 'layerNeed'> {
  const named = device.trim() !== '' && !isNoGpu(device);
  const wish = gpuLayers === 0 && (requireGpu || named) ? 'auto' : gpuLayers;
  return { gpuLayers: wish, layerNeed: model && wish !== 0 ? layerNeed(model, memory) : undefined };
}

/**
 * Weights are exact; the KV cache is spread evenly over the layers; compute buffers are an
 * estimate.
 */
export function layerNeed(model: ModelFile, options: MemoryOptions): LayerNeed {
  const { kvBytes, kvIsBound, computeBytes } = estimateMemory(model, options);
  const layersBytes = new Array<number>(model.layers).fill(model.layers > 0 ? Math.ceil(kvBytes / model.layers) : 0);
  let outputBytes = 0;
  let embeddingBytes = 0;
  let hasOutput = false;
  for (const { name, sizeBytes } of model.parts.flatMap((part) => part.tensors)) {
    const layer = Number(/^blk\.(\d+)\./.exec(name)?.[1] ?? -1);
    if (layer >= 0 && layer < layersBytes.length) layersBytes[layer]! += sizeBytes;
    else if (name.startsWith('token_embd.')) embeddingBytes += sizeBytes;
    else outputBytes += sizeBytes;
    hasOutput ||= name === 'output.weight';
  }
  // Token embeddings stay on the CPU, unless they are also the output matrix.
  return { layersBytes, outputBytes: outputBytes + (hasOutput ? 0 : embeddingBytes), computeBytes, kvBytes, kvIsBound };
}
