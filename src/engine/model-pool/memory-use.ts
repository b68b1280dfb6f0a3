// Memory available for models, and memory taken by an engine process. Used by pool.
import { readFileSync } from 'node:fs';
import { freemem } from 'node:os';
import { dirname, join } from 'node:path';

/** Left for the rest of the machine. */
const leastReserveBytes = 512 * 2 ** 20;
const reserveShare = 0.1;
const groupsFolder = '/sys/fs/cgroup';

/**
 * Memory available now without swapping, within this container's limits; undefined if unknown
 * (macOS reports unused memory, without the file cache that it could drop).
 */
export function freeBytes(): number | undefined {
  if (process.platform === 'darwin') return undefined;
  const own = /^0::(.*)$/m.exec(textOf('/proc/self/cgroup'))?.[1];
  return Math.min(freemem(), own === undefined ? Infinity : leftInGroup(join(groupsFolder, own)));
}

/** Default budget for models: the memory free now, less a reserve. */
export function memoryForModels(): { bytes: number; reserveBytes: number } {
  const free = freeBytes() ?? Math.min(process.availableMemory?.() ?? Infinity, freemem());
  const reserveBytes = Math.max(leastReserveBytes, free * reserveShare);
  return { bytes: Math.max(0, free - reserveBytes), reserveBytes };
}

/**
 * Memory left below the limits of a control group and its parents; Infinity without a limit. The
 * group counts cached file pages as used, but the system can drop them, so they count as free here.
 */
export function leftInGroup(folder: string, top = groupsFolder): number {
  const [most, used] = ['memory.max', 'memory.current'].map((name) => Number.parseInt(textOf(join(folder, name)), 10));
  const kept = [...textOf(join(folder, 'memory.stat')).matchAll(/^(?:in)?active_file (\d+)$/gm)].reduce((sum, [, bytes]) => sum + Number(bytes), 0);
  const left = most! >= 0 && used! >= 0 ? most! - used! + kept : Infinity;
  return folder === top || dirname(folder) === folder ? left : Math.min(left, leftInGroup(dirname(folder), top));
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

/** '' if there is no such file. */
function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
