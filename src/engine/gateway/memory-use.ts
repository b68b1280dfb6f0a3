// What there is of memory for models, and what an engine process takes. Used by
// engine/gateway/pool.
import { readFileSync } from 'node:fs';
import { freemem } from 'node:os';

/** Kept for all else that the machine does. */
const leastReserveBytes = 512 * 2 ** 20;
const reserveShare = 0.1;

/**
 * What models may take where nobody says: what is free now, in this container if it is one, less a
 * reserve.
 */
export function memoryForModels(): number {
  const free = Math.min(process.availableMemory?.() ?? Infinity, freemem());
  return Math.max(0, free - Math.max(leastReserveBytes, free * reserveShare));
}

/**
 * Memory that a process holds, pages of mapped files included; undefined where the system does not
 * say.
 */
export function residentBytes(pid: number | undefined): number | undefined {
  if (pid === undefined) return undefined;
  try {
    const kib = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
    return kib === undefined ? undefined : Number(kib) * 1024;
  } catch {
    return undefined;
  }
}
