// Plans a download: which files, what is present, what is missing, and whether the disk has room.
// Used by pull.
import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { RecuaError } from '../../errors.js';
import { sizeText } from '../byte-size.js';
import { storedBytes } from './download.js';
import type { DownloadTarget } from './download.js';
import type { HubFile } from '../hub/hub.js';

export interface PlannedFile {
  file: HubFile;
  haveBytes: number;
  needBytes: number;
}

export interface DownloadPlan {
  files: PlannedFile[];
  totalBytes: number;
  haveBytes: number;
  needBytes: number;
  /** Bytes free for this user on the cache's disk. */
  freeBytes: number;
}

/** Bytes to leave free: for the journal, links, and other programs' writes meanwhile. */
const marginBytes = 16 * 1024 * 1024;

export async function makePlan(targets: readonly DownloadTarget[], force: boolean): Promise<DownloadPlan> {
  const files: PlannedFile[] = [];
  for (const target of targets) {
    const { sizeBytes } = target.file;
    const stored = await storedBytes(target);
    // With --force a complete file counts for nothing; it stays beside the new one until that is
    // verified.
    const haveBytes = force && stored === sizeBytes ? 0 : stored;
    files.push({ file: target.file, haveBytes, needBytes: sizeBytes - haveBytes });
  }
  const sum = (pick: (file: PlannedFile) => number) => files.reduce((all, file) => all + pick(file), 0);
  return {
    files,
    totalBytes: sum(({ file }) => file.sizeBytes),
    haveBytes: sum(({ haveBytes }) => haveBytes),
    needBytes: sum(({ needBytes }) => needBytes),
    freeBytes: await freeBytes(targets[0]?.cache ?? '.'),
  };
}

/** Throws `disk_full` before any byte is downloaded. */
export function checkSpace({ needBytes, freeBytes }: DownloadPlan, cache: string): void {
  if (needBytes === 0 || needBytes + marginBytes <= freeBytes) return;
  throw new RecuaError('disk_full',
    `Expected ${sizeText(needBytes + marginBytes)} of free space at ${cache} (${sizeText(needBytes)} to download and a margin), but ${sizeText(freeBytes)} are free. Free some space, or set SERVICE_HOME to a folder on another disk.`,
    { details: { needed_bytes: needBytes + marginBytes, available_bytes: freeBytes } });
}

/** Free space on the disk where a folder is or will be. */
async function freeBytes(folder: string): Promise<number> {
  try {
    const { bavail, bsize } = await statfs(folder);
    return bavail * bsize;
  } catch (thrown) {
    const above = dirname(folder);
    if ((thrown as NodeJS.ErrnoException).code !== 'ENOENT' || above === folder) return Infinity;
    return await freeBytes(above);
  }
}
