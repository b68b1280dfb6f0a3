// Runs `recua pull` against a fake hub and inspects the cache afterwards.
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { start } from '../cli/recua.js';
import type { Result, Running } from '../cli/recua.js';
import { commit, hashOf } from './fake-hub.js';
import type { FakeFile, FakeHub, FakeRepo } from './fake-hub.js';

/** A repository with one file, in the folder of a test. */
export const oneFile = (file: FakeFile): FakeRepo[] => [{ name: 'owner/model', files: [file] }];

export function startPull(hub: FakeHub, folder: string, args: readonly string[], more: Record<string, string> = {}): Running {
  const running = start(['pull', ...args], { cwd: folder, env: hub.environment(folder, more) });
  running.child.stdin.end();
  return running;
}

export async function pull(hub: FakeHub, folder: string, args: readonly string[], more: Record<string, string> = {}): Promise<Result> {
  return await startPull(hub, folder, args, more).ended;
}

export function blobsFolder(folder: string, repo = 'owner/model'): string {
  return join(folder, 'hub', `models--${repo.replace('/', '--')}`, 'blobs');
}

/** The contents of the blobs folder. */
export function blobs(folder: string, repo?: string): string[] {
  const path = blobsFolder(folder, repo);
  return existsSync(path) ? readdirSync(path).sort() : [];
}

export function snapshotOf(folder: string, path: string, repo = 'owner/model', at = commit): string {
  return join(folder, 'hub', `models--${repo.replace('/', '--')}`, 'snapshots', at, path);
}

/** Whether the cache has the file with correct bytes and no leftovers of the download. */
export function isInstalled(folder: string, file: FakeFile): boolean {
  const path = snapshotOf(folder, file.path);
  return existsSync(path) && readFileSync(path).equals(file.bytes) && blobs(folder).join() === hashOf(file);
}

/** Whether nothing of the file could pass for a model. */
export function isAbsent(folder: string, file: FakeFile): boolean {
  return !existsSync(snapshotOf(folder, file.path)) && !blobs(folder).includes(hashOf(file));
}
