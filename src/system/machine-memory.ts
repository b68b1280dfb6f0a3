// How much memory this machine has. Asked by commands that tell what fits, and by the page.
import { freemem, totalmem } from 'node:os';

export interface MachineMemory {
  totalBytes: number;
  /** What can be had without swapping, as the system estimates it. */
  availableBytes: number;
}

/** This machine's memory, or what a container's limit leaves of it. */
export function machineMemory(): MachineMemory {
  const limit = process.constrainedMemory?.() ?? 0;
  // Without a limit the system says 0, or a number beyond any memory.
  const totalBytes = limit > 0 ? Math.min(limit, totalmem()) : totalmem();
  return { totalBytes, availableBytes: Math.min(process.availableMemory?.() ?? Infinity, freemem(), totalBytes) };
}
