// The running servers of this user. Each server keeps a small file in the state folder while it
// takes requests, so that commands find it. A file counts only if the process it names is alive and
// is the same process; the next reader removes files left by a killed server or a reboot. `recua
// api`, and so `recua serve start`, writes the files; commands that call a server read them.
import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { findPlaces } from '../../models/places.js';
import type { Places } from '../../models/places.js';
import { createFolder } from '../../system/create-folder.js';
import { lifeOf, ownIdentity, readIdentity } from '../../system/process-identity.js';
import { openRegular, readWhole } from '../../system/small-file.js';
import { toJson } from '../terminal/output.js';

export interface RunningServer {
  /** As the server reports it; `http://0.0.0.0:8080` for a server on all addresses. */
  url: string;
  /** Fingerprint of the certificate; undefined without TLS. */
  certificate?: string | undefined;
  pid: number;
  /** If the server requires a key: one that it generated for programs of its user. */
  key?: string | undefined;
  /** Started by `recua serve`. */
  managed: boolean;
  /** ISO 8601. */
  startedAt: string;
  /** Paths of the models that it was started with, for commands that look for their files. */
  files: readonly string[];
}

/** What a server registers. `startedAt` defaults to now. */
type Registered = Pick<RunningServer, 'url' | 'key' | 'certificate' | 'managed'> & Partial<Pick<RunningServer, 'startedAt' | 'files'>>;

const longestRecordBytes = 65_536;
/** Of the paths, so that all of a record fits. */
const mostPathBytes = 32_768;

/**
 * Registers this process as a server at an address. Returns a function that removes the entry; the
 * end of the process removes it too. Throws the file system's error if the state folder cannot be
 * written.
 */
export async function registerServer(
  { url, key, certificate, managed, files = [], startedAt = new Date().toISOString() }: Registered,
  places: Places = findPlaces(),
): Promise<() => void> {
  const folder = folderOf(places);
  const identity = await ownIdentity();
  const record = {
    identity,
    url,
    ...(key === undefined ? {} : { key }),
    ...(certificate === undefined ? {} : { certificate }),
    managed,
    startedAt,
    files: firstOf(files),
  };
  await createFolder(folder, 0o700);
  // Two containers that share a state folder may both have a process with this pid.
  const path = join(folder, `${identity.pid}-${randomBytes(4).toString('hex')}.json`);
  const { default: writeFileAtomic } = await import('write-file-atomic');
  await writeFileAtomic(path, toJson(record), { mode: 0o600 });
  const unregister = (): void => {
    process.removeListener('exit', unregister);
    try {
      rmSync(path, { force: true });
    } catch {
      /* The next reader removes it. */
    }
  };
  // A second Ctrl-C exits at once.
  process.on('exit', unregister);
  return unregister;
}

function firstOf(files: readonly string[]): string[] {
  let bytes = 0;
  return files.filter((file) => (bytes += Buffer.byteLength(JSON.stringify(file)) + 8) <= mostPathBytes);
}

/** The living servers: the managed one first, then the newest first. */
export async function runningServers(places: Places = findPlaces()): Promise<readonly RunningServer[]> {
  const folder = folderOf(places);
  const names = (await readdir(folder).catch(() => [])).filter((name) => name.endsWith('.json'));
  const found = await Promise.all(names.map((name) => readLiving(join(folder, name))));
  return found.filter((server) => server !== undefined)
    .sort((a, b) => Number(b.managed) - Number(a.managed) || b.startedAt.localeCompare(a.startedAt));
}

function folderOf({ state }: Places): string {
  return join(state, 'servers');
}

async function readLiving(path: string): Promise<RunningServer | undefined> {
  const record = parse(await readOwn(path) ?? '');
  const identity = readIdentity(record['identity']);
  // It stays: a newer Recua may have written it.
  if (!identity) return undefined;
  const life = await lifeOf(identity);
  if (life === 'dead') await rm(path, { force: true }).catch(() => undefined);
  // A process in another container cannot be checked, and its address is useless here.
  return life === 'alive' ? serverOf(record, identity.pid) : undefined;
}

/** Reads only files that this user wrote, because prompts are sent to their addresses. */
async function readOwn(path: string): Promise<string | undefined> {
  const file = await openRegular(path).catch(() => undefined);
  if (!file) return undefined;
  const { uid } = await file.stat();
  if (process.getuid && uid !== process.getuid()) return void await file.close();
  return await readWhole(file, path, longestRecordBytes).catch(() => undefined);
}

function parse(text: string): Readonly<Record<string, unknown>> {
  try {
    return (JSON.parse(text) ?? {}) as Record<string, unknown>;
  } catch {
    return {};
  }
}

function serverOf(
  { url, key, certificate, managed, startedAt, files }: Readonly<Record<string, unknown>>,
  pid: number,
): RunningServer | undefined {
  if (typeof url !== 'string' || typeof startedAt !== 'string') return undefined;
  const paths = Array.isArray(files) ? files.filter((one) => typeof one === 'string') : [];
  return {
    url, pid, startedAt, files: paths, managed: managed === true,
    ...(typeof key === 'string' ? { key } : {}), ...(typeof certificate === 'string' ? { certificate } : {}),
  };
}
