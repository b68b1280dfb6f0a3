// How much memory this machine has. Used by commands that say what fits, by the page, and for
// budgets that follow from it.
import { freemem, totalmem } from 'node:os';
import { groupMemory } from './group-memory.js';

export interface MachineMemory {
  totalBytes: number;
  /** Memory available without swapping, as the system estimates it. */
  availableBytes: number;
  /** False on macOS: `availableBytes` leaves out the file cache, which the system can drop. */
  countsCache: boolean;
}

/** The machine's memory, or a container's limit if that is lower. */
export function machineMemory(): MachineMemory {
  const { limitBytes, leftBytes } = groupMemory();
  const totalBytes = Math.min(totalmem(), limitBytes);
  return { totalBytes, availableBytes: Math.min(freemem(), leftBytes, totalBytes), countsCache: process.platform !== 'darwin' };
}
