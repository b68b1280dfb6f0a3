// How much memory this machine has. Used by commands that say what fits, and by the page.
import { freemem, totalmem } from 'node:os';

export interface MachineMemory {
  totalBytes: number;
  /** Memory available without swapping, as the system estimates it. */
  availableBytes: number;
  /** False on macOS: `availableBytes` leaves out the file cache, which the system can drop. */
  countsCache: boolean;
}

/**
 * Memory free now, as the system estimates it. Without /proc the system reports 0, and nothing is
 * known: then it is all of the machine's.
 */
export function unusedBytes(): number {
  const known = [process.availableMemory?.() ?? 0, freemem()].filter((bytes) => bytes > 0);
  return known.length > 0 ? Math.min(...known) : totalmem();
}

/** The machine's memory, or a container's limit if that is lower. */
export function machineMemory(): MachineMemory {
  const limit = process.constrainedMemory?.() ?? 0;
  // Without a limit the system reports 0 or a number beyond any memory.
  const totalBytes = limit > 0 ? Math.min(limit, totalmem()) : totalmem();
  return {
    totalBytes,
    availableBytes: Math.min(unusedBytes(), totalBytes),
    countsCache: process.platform !== 'darwin',
  };
}
