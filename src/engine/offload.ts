// Chooses the devices for a model, and the number of its layers on them, from the settings and the
// devices that exist. Called by engine/process/load, and before a load to predict it
// (models/served).
import { isNoGpu } from '../settings/config.js';
import type { Device } from '../addon/addon.js';
import { RecuaError } from '../errors.js';
import type { EngineOptions, LayerNeed, Offload } from './protocol.js';

/** Result for an optional backend; the full type is in addon/backends.ts. */
export interface SkippedBackend {
  backend: string;
  /** '' if it came without a package. */
  package: string;
  loaded: boolean;
  reason: string;
}

export interface OffloadChoice extends Offload {
  /** For the native loader; -1: all. */
  gpuLayers: number;
  /** Notes for the user. */
  notes: string[];
}

type Wanted = Pick<EngineOptions, 'gpuLayers' | 'device' | 'requireGpu' | 'layerNeed'>;

/**
 * Left free on each device, as in llama-server: for the driver, the screen and errors of the
 * estimate.
 */
const reserveBytes = 1024 ** 3;

/**
 * Memory that models may take on each device: the free memory less the reserve. Devices that do not
 * report memory have no bound.
 */
export function deviceBudget(devices: readonly Device[]): Record<string, number> {
  const telling = devices.filter(({ kind, memoryTotalBytes }) => kind !== 'cpu' && memoryTotalBytes > 0);
  return Object.fromEntries(telling.map(({ name, memoryFreeBytes }) => [name, Math.max(0, memoryFreeBytes - reserveBytes)]));
}

/** Whether to load the optional backends at all. */
export function wantsGpu({ gpuLayers, device, requireGpu }: Wanted): boolean {
  return requireGpu || (!isNoGpu(device) && (gpuLayers !== 0 || device !== ''));
}

/**
 * @throws RecuaError `device_not_found`; `gpu_unavailable` if a GPU is required but would not be
 * used; `model_too_large` if the layers that are asked for by number do not fit.
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

/** The choice for a model whose layers are known; the output counts as a layer. */
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
    // The CPU is always used for what no other device computes.
    return found.kind === 'cpu' ? [] : [found];
  });
}

/** All GPUs, each with one backend only; integrated ones only if there is no other. */
function usualDevices(present: readonly Device[]): Device[] {
  const gpus = present.filter(({ kind }) => kind === 'gpu');
  const once = gpus.filter((one, at) => one.id === '' || gpus.findIndex(({ id }) => id === one.id) === at);
  const integrated = present.filter(({ kind }) => kind === 'igpu');
  return once.length > 0 ? once : integrated.filter(({ backend }) => backend === integrated[0]!.backend);
}

function chooseLayers(gpuLayers: EngineOptions['gpuLayers'], devices: readonly Device[], need: LayerNeed | undefined): { layers: number; notes: string[] } {
  const asked = gpuLayers === 'auto' ? -1 : gpuLayers;
  // A backend may not report its memory: then the load shows whether they fit.
  if (asked === 0 || !need || devices.some(({ memoryTotalBytes }) => memoryTotalBytes === 0)) return { layers: asked, notes: [] };
  const total = need.layersBytes.length + 1;
  const wanted = asked < 0 ? total : Math.min(asked, total);
  if (gpuLayers !== 'auto') {
    // Only what cannot succeed is refused: nothing is left free, and no upper bound counts.
    const least = need.kvIsBound ? withoutContext(need) : need;
    if (layersThatFit(least, freeBytes(least, devices, 0)) < wanted) throw tooLarge(wanted, devices, need);
    return { layers: asked, notes: [] };
  }
  const layers = layersThatFit(need, surelyFreeBytes(need, devices));
  if (layers === total) return { layers: -1, notes: [] };
  const what = layers === 0 ? 'no layer fits' : `${layers} of ${total} layers fit`;
  return { layers, notes: [`${describeAll(devices)}: ${what} into the free memory, the rest computes on the CPU. A smaller context, --cache-type-k and --cache-type-v or a smaller quantization make room.`] };
}

/** llama.cpp offloads the output first, then the layers from the last to the first. */
function inOrder({ outputBytes, layersBytes }: LayerNeed): number[] {
  return [outputBytes, ...layersBytes.toReversed()];
}

/** What all devices have beside the reserve; each needs its own compute buffers. */
function freeBytes({ computeBytes }: LayerNeed, devices: readonly Device[], reserve: number): number {
  return devices.reduce((sum, { memoryFreeBytes }) => sum + Math.max(0, memoryFreeBytes - reserve - computeBytes), 0);
}

/** A layer cannot be split between two devices, so the end of each may stay empty. */
function surelyFreeBytes(need: LayerNeed, devices: readonly Device[]): number {
  return freeBytes(need, devices, reserveBytes) - Math.max(0, ...need.layersBytes) * (devices.length - 1);
}

function layersThatFit(need: LayerNeed, bytes: number): number {
  let left = bytes;
  let layers = 0;
  for (const bytes of inOrder(need)) {
    left -= bytes;
    if (left < 0) break;
    layers++;
  }
  return layers;
}

function withoutContext(need: LayerNeed): LayerNeed {
  const each = need.kvBytes / Math.max(1, need.layersBytes.length);
  return { ...need, layersBytes: need.layersBytes.map((bytes) => Math.max(0, bytes - each)) };
}

function tooLarge(wanted: number, devices: readonly Device[], need: LayerNeed): RecuaError {
  const total = need.layersBytes.length + 1;
  const all = inOrder(need).slice(0, wanted).reduce((sum, bytes) => sum + bytes, 0);
  const context = need.kvBytes / Math.max(1, total - 1) * Math.min(wanted, total - 1);
  const rows = Object.entries({ weights: all - context, context, computing: need.computeBytes * devices.length });
  const free = devices.reduce((sum, { memoryFreeBytes }) => sum + memoryFreeBytes, 0);
  const fitting = layersThatFit(need, surelyFreeBytes(need, devices));
  return new RecuaError('model_too_large', `${wanted} of ${total} layers do not fit into the memory of ${describeAll(devices)}:\n`
    + rows.map(([label, bytes]) => `  ${label.padEnd(9)} ${memoryText(bytes).padStart(9)}\n`).join('')
    + `  together  ${memoryText(rows.reduce((sum, [, bytes]) => sum + bytes, 0)).padStart(9)}, ${memoryText(free)} free\n`
    + `${fitting > 0 ? `With --gpu-layers auto, ${fitting} layers go there. ` : ''}A smaller --ctx-size or --parallel, --cache-type-k and --cache-type-v or a smaller quantization make room.`);
}

/** Memory, in tables of errors. */
export function memoryText(bytes: number): string {
  return bytes >= 2 ** 30 ? `${(bytes / 2 ** 30).toFixed(1)} GiB` : `${Math.ceil(bytes / 2 ** 20)} MiB`;
}

/** Notes on why no GPU computes, if the user may expect one to. */
function whyNone({ gpuLayers, device }: Wanted, chosen: readonly Device[], skipped: readonly SkippedBackend[]): string[] {
  if (isNoGpu(device)) return [];
  const notes: string[] = [];
  if (gpuLayers === 0 && chosen.length > 0) notes.push(`${describeAll(chosen)} could compute but is not used, since --gpu-layers is 0; auto uses it.`);
  else if (gpuLayers === 0) {
    const packages = skipped.filter((one) => one.package !== '').map((one) => one.package);
    if (packages.length > 0) notes.push(`${packages.join(' and ')} is installed but not used, since --gpu-layers is 0; auto uses it.`);
  } else if (gpuLayers !== 'auto' && chosen.length === 0) notes.push(`Layers were to go to a GPU (${gpuLayers < 0 ? 'all' : gpuLayers}), but no GPU can be used; all run on the CPU. recua doctor tells why.`);
  return notes;
}

function unknownDevice(name: string, present: readonly Device[], skipped: readonly SkippedBackend[]): RecuaError {
  const there = present.map((one) => `${one.name} (${one.description})`).join(', ');
  return new RecuaError('device_not_found', `There is no device ${JSON.stringify(name)}. This machine has only: ${there || 'no device'}. For the CPU alone: --device none. recua doctor says why a GPU is missing.${reasons(skipped)}`);
}

function required(
  { gpuLayers, device }: Wanted,
  chosen: readonly Device[],
  present: readonly Device[],
  skipped: readonly SkippedBackend[],
  notes: readonly string[],
): RecuaError {
  const why = isNoGpu(device)
    ? `--device ${device} excludes them all.`
    : gpuLayers === 0
      ? '--gpu-layers is 0.'
      : chosen.length > 0
        ? notes.join(' ')
        : skipped.length > 0
          ? 'None of the GPU backends can be used.'
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
