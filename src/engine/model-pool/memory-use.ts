// Memory available for models, and memory taken by an engine process. Used by pool.
import { textOf } from '../../system/group-memory.js';
import { machineMemory } from '../../system/machine-memory.js';

/** Left for the rest of the machine. */
const leastReserveBytes = 512 * 2 ** 20;
const reserveShare = 0.1;

/**
 * Memory available now without swapping, within this container's limits; undefined if unknown
 * (macOS reports unused memory, without the file cache that it could drop).
 */
export function freeBytes(): number | undefined {
  const { availableBytes, countsCache } = machineMemory();
  return countsCache ? availableBytes : undefined;
}

/** Default budget for models: the memory free now, less a reserve. */
export function memoryForModels(): { bytes: number; reserveBytes: number } {
  const free = machineMemory().availableBytes;
  const reserveBytes = Math.max(leastReserveBytes, free * reserveShare);
  return { bytes: Math.max(0, free - reserveBytes), reserveBytes };
}

/** A process's memory, including pages of mapped files; undefined if unknown. */
export function residentBytes(pid: number | undefined): number | undefined {
  return statusBytes(pid, 'VmRSS');
}

/** The same without file pages, which the system counts as free. */
export function ownBytes(pid: number | undefined): number | undefined {
  return statusBytes(pid, 'RssAnon');
}

/**
 * What processes have yet to take of the memory that they count for. The system counts it as free.
 */
export function promisedBytes(counted: readonly { pid: number | undefined; needBytes: number }[]): number {
  return counted.reduce((sum, { pid, needBytes }) => sum + Math.max(0, needBytes - (ownBytes(pid) ?? 0)), 0);
}

function statusBytes(pid: number | undefined, key: string): number | undefined {
  const kib = pid === undefined ? undefined : new RegExp(`^${key}:\\s+(\\d+) kB`, 'm').exec(textOf(`/proc/${pid}/status`))?.[1];
  return kib === undefined ? undefined : Number(kib) * 1024;
}
