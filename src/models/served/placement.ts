// Predicts a model's RAM and memory on each device, for the budget that several models share: from
// its file, its settings and the devices, by the same rules as the engine. Pure.
import type { Device } from '../../addon/addon.js';
import { chooseOffload, settleOffload, wantsGpu } from '../../engine/offload.js';
import type { LayerNeed } from '../../engine/protocol.js';
import type { Config } from '../../settings/config.js';
import type { ModelFile } from '../gguf/model-file.js';
import { layerNeed, offloadWish } from '../needs/layer-need.js';
import { estimateMemory } from '../needs/memory.js';

export interface Placement {
  /** RAM. */
  needBytes: number;
  /** By device name. */
  deviceBytes: Record<string, number>;
}

/** `devices`: their state without any of these models. */
export function foreseePlacement(file: ModelFile, config: Config, devices: readonly Device[]): Placement {
  const { totalBytes, computeBytes } = estimateMemory(file, config);
  const need = layerNeed(file, config);
  const names = new Map(chosenDevices(need, file, config, devices).map(({ device, layers }) => [device, layers]));
  const layers = Math.max(0, ...names.values());
  if (layers === 0) return { needBytes: totalBytes, deviceBytes: {} };
  const offloaded = [need.outputBytes, ...need.layersBytes.toReversed()].slice(0, layers).reduce((sum, bytes) => sum + bytes, 0);
  const used = devices.filter(({ name }) => names.has(name));
  // llama.cpp splits the layers over the devices by their free memory.
  const free = used.reduce((sum, { memoryFreeBytes }) => sum + memoryFreeBytes, 0);
  const deviceBytes = Object.fromEntries(used.map(({ name, memoryFreeBytes }) => [
    name, Math.ceil(offloaded * (free > 0 ? memoryFreeBytes / free : 1 / used.length)) + need.computeBytes,
  ]));
  // If the output matrix is the token embeddings, it also stays in RAM.
  const isWhole = layers > need.layersBytes.length;
  const inMemory = totalBytes - offloaded + sharedOutput(file) - (isWhole ? computeBytes : 0);
  return { needBytes: Math.max(0, inMemory), deviceBytes };
}

function chosenDevices(need: LayerNeed, file: ModelFile, config: Config, devices: readonly Device[]): { device: string; layers: number }[] {
  const wish = offloadWish(config, file);
  // A number is taken as it is: the pool compares the need with its budget, and refuses.
  const wanted = { ...config, ...wish, layerNeed: wish.gpuLayers === 'auto' ? need : undefined };
  if (devices.length === 0 || !wantsGpu(wanted)) return [];
  try {
    const choice = chooseOffload(wanted, devices, []);
    const { layers } = settleOffload(choice, need.layersBytes.length);
    return choice.devices.map((device) => ({ device, layers }));
  } catch {
    // The load reports device errors, since it knows the reason.
    return [];
  }
}

function sharedOutput(file: ModelFile): number {
  const tensors = file.parts.flatMap((part) => part.tensors);
  if (tensors.some(({ name }) => name === 'output.weight')) return 0;
  return tensors.filter(({ name }) => name.startsWith('token_embd.')).reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
}
