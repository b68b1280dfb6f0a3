// How much memory this machine has. Used by commands that say what fits, and by the page.
import { existsSync } from 'node:fs';
import { freemem, totalmem } from 'node:os';

export interface MachineMemory {
  totalBytes: number;
  /** Memory available without swapping, as the system estimates it. */
  availableBytes: number;
  /** False on macOS: `availableBytes` leaves out the file cache, which the system can drop. */
  countsCache: boolean;
}

/** Without /proc, Node.js gives 0 for the available memory. */
const tellsAvailable = process.platform !== 'linux' || existsSync('/proc/meminfo');

/** The machine's memory, or a container's limit if that is lower. */
export function machineMemory(): MachineMemory {
  const limit = process.constrainedMemory?.() ?? 0;
  // Without a limit the system reports 0 or a number beyond any memory.
  const totalBytes = limit > 0 ? Math.min(limit, totalmem()) : totalmem();
  return {
    totalBytes,
    availableBytes: Math.min(tellsAvailable ? process.availableMemory?.() ?? Infinity : Infinity, freemem(), totalBytes),
    countsCache: process.platform !== 'darwin',
  };
}
