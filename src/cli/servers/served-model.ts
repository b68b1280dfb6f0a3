// What a running server says about its models: an entry of GET /v1/models, in the command line's
// terms. Fields that an older server, or another program, leaves out are undefined or zero.
import type { ServerClient } from './server-client.js';

export interface ServedModel {
  /** The name that clients see. */
  id: string;
  aliases: readonly string[];
  /** `loaded`, `loading`, `unloading`, `failed`, `unloaded`, or a state of a newer server. */
  state: string;
  /** 0 to 1 while it loads. */
  fraction: number | undefined;
  /** Why its last load failed; '' if it did not. */
  reason: string;
  /** Memory that it uses, or is expected to use. */
  memoryBytes: number | undefined;
  /** Devices that it computes on, besides the CPU; undefined until it was loaded once. */
  devices: readonly string[] | undefined;
  /** Memory on these devices together. */
  deviceBytes: number | undefined;
  /** Layers on these devices. */
  layers: number | undefined;
  totalLayers: number | undefined;
  /** Tokens for each request. */
  contextSize: number | undefined;
  running: number;
  waiting: number;
  tokensPerSecond: number;
  pinned: boolean;
  /** Its server was started with this one model, and neither loads nor unloads models. */
  fixed: boolean;
  /** When it will be unloaded if it stays idle, on the clock of Date.now(). */
  expiresMs: number | undefined;
}

export async function modelsOf(client: ServerClient, stop?: AbortSignal): Promise<ServedModel[]> {
  const { data } = objectOf(await client.getJson('/v1/models', undefined, stop));
  if (!Array.isArray(data)) throw client.foreign();
  return data.map((one) => answered(client, one));
}

/** A model in a server's answer. Throws `server_unreachable` if it is none. */
export function answered(client: ServerClient, value: unknown): ServedModel {
  if (typeof objectOf(value)['id'] !== 'string') throw client.foreign();
  return readModel(value);
}

/** Throws `model_not_found` if the server has no model of that name, `ambiguous_model`. */
export async function modelOf(client: ServerClient, name: string): Promise<ServedModel> {
  return answered(client, await client.getJson(`/v1/models/${encodeURIComponent(name)}`));
}

function readModel(value: unknown): ServedModel {
  const {
    id,
    aliases,
    status,
    meta: details,
    memory_bytes: memory,
    pinned,
    fixed,
    expires_at: expires,
    context_length: context,
  } = objectOf(value);
  const { value: state, fraction, reason, running, waiting, tokens_per_second: speed } = objectOf(status);
  const meta = objectOf(details);
  const { message } = objectOf(reason);
  return {
    id: String(id),
    aliases: texts(aliases) ?? [],
    state: typeof state === 'string' ? state : 'loaded',
    fraction: number(fraction),
    reason: typeof message === 'string' ? message : '',
    memoryBytes: number(memory) || number(meta['size']),
    devices: texts(meta['devices']),
    deviceBytes: number(meta['device_memory_bytes']),
    layers: number(meta['n_gpu_layers']),
    totalLayers: number(meta['n_layers']),
    contextSize: number(context),
    running: number(running) ?? 0,
    waiting: number(waiting) ?? 0,
    tokensPerSecond: number(speed) ?? 0,
    pinned: pinned === true,
    fixed: fixed === true,
    // No date is later than the last one of JavaScript; one before 1970 is none.
    expiresMs: typeof expires === 'number' && expires >= 0 ? Math.min(expires * 1_000, 8.64e15) : undefined,
  };
}

/** Whether it has a process, which takes memory. */
export function isThere({ state }: ServedModel): boolean {
  return !['unloaded', 'sleeping', 'failed'].includes(state);
}

export function objectOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? value as Record<string, unknown> : {};
}

function number(value: unknown): number | undefined {
  return typeof value === 'number' ? value : undefined;
}

function texts(value: unknown): string[] | undefined {
  return Array.isArray(value) ? value.map(String) : undefined;
}
