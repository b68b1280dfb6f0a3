// What there is of memory for models, and what an engine process takes. Used by
// engine/gateway/pool.
import { readFileSync } from 'node:fs';
import { freemem } from 'node:os';
import { dirname, join } from 'node:path';

/** Kept for all else that the machine does. */
const leastReserveBytes = 512 * 2 ** 20;
const reserveShare = 0.1;
const groupsFolder = '/sys/fs/cgroup';

/**
 * What can be had now without swapping, in this container if it is one; undefined where the system
 * does not tell (macOS counts what nobody uses, without the files that it could drop).
 */
export function freeBytes(): number | undefined {
  if (process.platform === 'darwin') return undefined;
  const own = /^0::(.*)$/m.exec(textOf('/proc/self/cgroup'))?.[1];
  return Math.min(freemem(), own === undefined ? Infinity : leftInGroup(join(groupsFolder, own)));
}

/**
 * What models may take where nobody says: what is free now, less a reserve.
 */
export function memoryForModels(): { bytes: number; reserveBytes: number } {
  const free = freeBytes() ?? Math.min(process.availableMemory?.() ?? Infinity, freemem());
  const reserveBytes = Math.max(leastReserveBytes, free * reserveShare);
  return { bytes: Math.max(0, free - reserveBytes), reserveBytes };
}

/**
 * What is left below the limits of a control group and those around it; Infinity without a limit.
 * Pages of files that were read count as used there, though the system drops them as it needs.
 */
export function leftInGroup(folder: string, top = groupsFolder): number {
  const [most, used] = ['memory.max', 'memory.current'].map((name) => Number.parseInt(textOf(join(folder, name)), 10));
  const kept = [...textOf(join(folder, 'memory.stat')).matchAll(/^(?:in)?active_file (\d+)$/gm)].reduce((sum, [, bytes]) => sum + Number(bytes), 0);
  const left = most! >= 0 && used! >= 0 ? most! - used! + kept : Infinity;
  return folder === top || dirname(folder) === folder ? left : Math.min(left, leftInGroup(dirname(folder), top));
}

/**
 * Memory that a process holds, pages of mapped files included; undefined where the system does not
 * say.
 */
export function residentBytes(pid: number | undefined): number | undefined {
  return statusBytes(pid, 'VmRSS');
}

/** The same without pages of files, which the system counts as free. */
export function ownBytes(pid: number | undefined): number | undefined {
  return statusBytes(pid, 'RssAnon');
}

function statusBytes(pid: number | undefined, key: string): number | undefined {
  const kib = pid === undefined ? undefined : new RegExp(`^${key}:\\s+(\\d+) kB`, 'm').exec(textOf(`/proc/${pid}/status`))?.[1];
  return kib === undefined ? undefined : Number(kib) * 1024;
}

/** '' where there is none. */
function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
