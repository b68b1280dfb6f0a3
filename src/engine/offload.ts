// Which devices a model is given to, and how many of its layers: from what was asked for and what
// there is. Called by engine/process/load, and before a load to foresee it (models/served).
import { isNoGpu } from '../settings/config.js';
import type { Device } from '../addon/addon.js';
import { RecuaError } from '../errors.js';
import type { EngineOptions, LayerNeed, Offload } from './protocol.js';

/** What became of an optional backend: addon/backends.ts has it whole. */
export interface SkippedBackend {
  backend: string;
  /** '' where it came without one. */
  package: string;
  loaded: boolean;
  reason: string;
}

export interface OffloadChoice extends Offload {
  /** What the native loader is told: -1 is all. */
  gpuLayers: number;
  /** What the user should know about it. */
  notes: string[];
}

type Wanted = Pick<EngineOptions, 'gpuLayers' | 'device' | 'requireGpu' | 'layerNeed'>;

/**
 * What llama-server leaves free on each device, for the driver, the screen and what an estimate
 * misses.
 */
const reserveBytes = 1024 ** 3;

/**
 * What models may have of each device: what is free, less the reserve; one that does not tell has
 * no bound.
 */
export function deviceBudget(devices: readonly Device[]): Record<string, number> {
  const telling = devices.filter(({ kind, memoryTotalBytes }) => kind !== 'cpu' && memoryTotalBytes > 0);
  return Object.fromEntries(telling.map(({ name, memoryFreeBytes }) => [name, Math.max(0, memoryFreeBytes - reserveBytes)]));
}

/** Whether the optional backends are worth loading at all. */
export function wantsGpu({ gpuLayers, device, requireGpu }: Wanted): boolean {
  return requireGpu || (!isNoGpu(device) && (gpuLayers !== 0 || device !== ''));
}

/**
 * @throws RecuaError `device_not_found`; `gpu_unavailable` where a GPU is required and would not be
 * used.
 */
export function chooseOffload(wanted: Wanted, present: readonly Device[], skipped: readonly SkippedBackend[]): OffloadChoice {
  const { gpuLayers, device, requireGpu, layerNeed } = wanted;
  const chosen = chooseDevices(present, device, skipped);
  const { layers, notes } = chosen.length === 0 ? { layers: 0, notes: [] } : chooseLayers(gpuLayers, chosen, layerNeed);
  const devices = layers === 0 ? [] : chosen.map(({ name }) => name);
  const choice = { devices, gpuLayers: layers, layers, totalLayers: 0, notes };
  if (requireGpu && devices.length === 0) throw required(wanted, chosen, present, skipped, notes);
  if (devices.length === 0) notes.push(...whyNone(wanted, chosen, skipped));
  return choice;
}

/** As the model has it, now that its layers are known; the output counts as one. */
export function settleOffload({ devices, gpuLayers }: OffloadChoice, layersOfModel: number): Offload {
  const totalLayers = layersOfModel + 1;
  const layers = devices.length === 0 ? 0 : gpuLayers < 0 ? totalLayers : Math.min(gpuLayers, totalLayers);
  return { devices, layers, totalLayers };
}

function chooseDevices(present: readonly Device[], wanted: string, skipped: readonly SkippedBackend[]): Device[] {
  if (isNoGpu(wanted)) return [];
  if (wanted.trim() === '') return usualDevices(present);
  const names = [...new Set(wanted.split(',').map((name) => name.trim()).filter((name) => name !== ''))];
  return names.flatMap((name) => {
    const found = present.find((one) => one.name.toLowerCase() === name.toLowerCase());
    if (!found) throw unknownDevice(name, present, skipped);
    // The CPU computes whatever no other device does.
    return found.kind === 'cpu' ? [] : [found];
  });
}

/** All GPUs, each by one backend only; integrated ones where there is no other. */
function usualDevices(present: readonly Device[]): Device[] {
  const gpus = present.filter(({ kind }) => kind === 'gpu');
  const once = gpus.filter((one, at) => one.id === '' || gpus.findIndex(({ id }) => id === one.id) === at);
  const integrated = present.filter(({ kind }) => kind === 'igpu');
  return once.length > 0 ? once : integrated.filter(({ backend }) => backend === integrated[0]!.backend);
}

function chooseLayers(gpuLayers: EngineOptions['gpuLayers'], devices: readonly Device[], need: LayerNeed | undefined): { layers: number; notes: string[] } {
  if (gpuLayers !== 'auto') return { layers: gpuLayers, notes: [] };
  // A backend that does not tell its memory is taken at its word: the load says whether it was
  // enough.
  if (!need || devices.some(({ memoryTotalBytes }) => memoryTotalBytes === 0)) return { layers: -1, notes: [] };
  // Each device computes for itself, and a layer is not cut in two where one device is full.
  const largest = Math.max(0, ...need.layersBytes);
  let left = devices.reduce((sum, { memoryFreeBytes }) => sum + Math.max(0, memoryFreeBytes - reserveBytes - need.computeBytes), 0) - largest * (devices.length - 1);
  let layers = 0;
  // llama.cpp gives the output away first, then the layers from the last to the first.
  for (const bytes of [need.outputBytes, ...need.layersBytes.toReversed()]) {
    left -= bytes;
    if (left < 0) break;
    layers++;
  }
  const total = need.layersBytes.length + 1;
  if (layers === total) return { layers: -1, notes: [] };
  const what = layers === 0 ? 'no layer fits' : `${layers} of ${total} layers fit`;
  return { layers, notes: [`${describeAll(devices)}: ${what} into the free memory, the rest computes on the CPU. A smaller context, --cache-type-k and --cache-type-v or a smaller quantization make room.`] };
}

/** Why no GPU computes, where somebody may expect one to. */
function whyNone({ gpuLayers, device }: Wanted, chosen: readonly Device[], skipped: readonly SkippedBackend[]): string[] {
  if (isNoGpu(device)) return [];
  const notes: string[] = [];
  if (gpuLayers === 0 && chosen.length > 0) notes.push(`${describeAll(chosen)} could compute but is not used, since --gpu-layers is 0; auto uses it.`);
  else if (gpuLayers === 0) {
    const packages = skipped.filter((one) => one.package !== '').map((one) => one.package);
    if (packages.length > 0) notes.push(`${packages.join(' and ')} is installed but not used, since --gpu-layers is 0; auto uses it.`);
  } else if (gpuLayers !== 'auto' && chosen.length === 0) notes.push(`Layers were to go to a GPU (${gpuLayers}), but there is none that can be used; all run on the CPU. recua doctor tells why.`);
  return notes;
}

function unknownDevice(name: string, present: readonly Device[], skipped: readonly SkippedBackend[]): RecuaError {
  const there = present.map((one) => `${one.name} (${one.description})`).join(', ');
  return new RecuaError('device_not_found', `There is no device ${JSON.stringify(name)}. This machine has: ${there || 'none'}; none means the CPU alone.${reasons(skipped)}`);
}

function required({ gpuLayers, device }: Wanted, chosen: readonly Device[], present: readonly Device[], skipped: readonly SkippedBackend[], notes: readonly string[]): RecuaError {
  const why = isNoGpu(device) ? `--device ${device} excludes them all.`
    : gpuLayers === 0 ? '--gpu-layers is 0.'
      : chosen.length > 0 ? notes.join(' ')
        : skipped.length > 0 ? 'None of the GPU backends can be used.'
          : `No GPU backend is installed; the devices are: ${present.map(({ name }) => name).join(', ')}. recua doctor tells which package fits this machine.`;
  return new RecuaError('gpu_unavailable', `A GPU is required (--require-gpu), but none would compute: ${why}${reasons(skipped)}`);
}

function reasons(skipped: readonly SkippedBackend[]): string {
  return skipped.filter(({ loaded }) => !loaded).map((one) => `\n  ${skippedText(one)}`).join('');
}

/** One line for logs and errors. */
export function skippedText({ backend, package: name, reason }: SkippedBackend): string {
  return `The ${backend} backend${name === '' ? '' : ` (${name})`} is not used: ${reason}.`;
}

function describeAll(devices: readonly Device[]): string {
  return devices.map(({ name, description }) => `${name} (${description})`).join(', ');
}
