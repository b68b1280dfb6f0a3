// Compute devices: `--list-devices` of the commands that load a model, and the sentence that says
// where a model computes.
import type { ModelDescription } from '../engine/protocol.js';
import { RecuaError } from '../errors.js';
import { sizeText } from '../models/byte-size.js';
import { takeSurvey } from '../engine/gateway/survey.js';
import { machineMemory } from '../system/machine-memory.js';
import type { Survey } from '../engine/gateway/survey.js';
import { misuse, on, perCall } from './flags/flags.js';
import { print, say, toJson } from './terminal/output.js';

export const deviceListing = {
  listDevices: perCall(on(['--list-devices'], 'List the devices that can compute, and exit')),
} as const;

/** For commands that otherwise print no JSON. */
export const deviceListingJson = perCall(on(['--json'], 'With --list-devices, print JSON'));

/** Throws `invalid_usage` if `--json` is given for anything else than devices. */
export function refuseJson(json: boolean): void {
  if (json) throw misuse('--json belongs to --list-devices: a server prints no JSON. For its log as JSON: --log-format json.');
}

export async function listDevices(json: boolean): Promise<number> {
  const survey = await takeSurvey();
  if (survey.failure) throw RecuaError.fromPlain(survey.failure);
  await print(json ? toJson({ devices: deviceObjects(survey), skipped: skippedObjects(survey) }) : await deviceTable(survey));
  if (!json) for (const { backend, reason } of survey.optional.filter(({ loaded }) => !loaded)) say(`The ${backend} backend is not used: ${reason}.`);
  return 0;
}

async function deviceTable({ devices }: Pick<Survey, 'devices'>): Promise<string> {
  const { rows } = await import('./terminal/rows.js');
  return rows([
    ['NAME', 'KIND', 'MEMORY', 'FREE', 'DESCRIPTION'],
    ...devices.map((device) => (
      [device.name, device.kind, memory(device.memoryTotalBytes), device.memoryTotalBytes > 0 ? sizeText(freeBytes(device)) : '', device.description])),
  ]);
}

/** ggml counts all of the machine's memory as free for the processor. */
export function freeBytes({ kind, memoryFreeBytes }: Pick<Survey['devices'][number], 'kind' | 'memoryFreeBytes'>): number {
  return kind === 'cpu' ? machineMemory().availableBytes : memoryFreeBytes;
}

function memory(bytes: number): string {
  return bytes > 0 ? sizeText(bytes) : 'unknown';
}

export function deviceObjects({ devices }: Pick<Survey, 'devices'>): object[] {
  return devices.map((device) => {
    const { name, kind, description, backend, id, memoryTotalBytes: total } = device;
    return {
      name, kind, description, backend, id: id === '' ? null : id,
      memory_total_bytes: total > 0 ? total : null, memory_free_bytes: total > 0 ? freeBytes(device) : null,
    };
  });
}

function skippedObjects({ optional }: Pick<Survey, 'optional'>): object[] {
  return optional.filter(({ loaded }) => !loaded).map(({ backend, package: name, file, reason }) => ({ backend, package: name === '' ? null : name, file, reason }));
}

/** Where a loaded model computes: a sentence without its period. */
export function placeText({ offload, devices }: Pick<ModelDescription, 'offload' | 'devices'>): string {
  if (offload.devices.length === 0) return 'Computes on the CPU';
  const names = offload.devices.map((name) => {
    const description = devices.find((one) => one.name === name)?.description;
    return description === undefined ? name : `${name} (${description})`;
  });
  return `Computes on ${names.join(' and ')}: ${offload.layers} of ${offload.totalLayers} layers`;
}
