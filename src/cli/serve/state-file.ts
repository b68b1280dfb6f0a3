// What is known of the managed server: one file that the server itself writes while it lives. A
// reader believes it only after checking that the process it names is that process. Written by
// `recua api --state-file`; read by the commands of `recua serve`.
import { readFileSync, renameSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import writeFileAtomic from 'write-file-atomic';
import type { Offload } from '../../engine/protocol.js';
import { RecuaError } from '../../errors.js';
import { tryLock } from '../../system/lock-file.js';
import { findPlaces } from '../../models/places.js';
import { ownIdentity, readIdentity, sameProcess } from '../../system/process-identity.js';
import type { ProcessIdentity } from '../../system/process-identity.js';

export interface ServerRecord {
  identity: ProcessIdentity;
  state: 'starting' | 'running' | 'stopping';
  host: string;
  /** As it was asked for until the server listens: 0 takes a free one. */
  port: number;
  /** '' until the server listens. */
  url: string;
  /** Fingerprint of its certificate; undefined without TLS. */
  certificate?: string | undefined;
  /**
   * Of several models, or all of the store, `id` says which these are, and the path is empty.
   * `names` are the operands of the next start.
   */
  model: { name: string; path: string; id: string; names: readonly string[] };
  /** Where the model computes; undefined until it is loaded. */
  offload?: Offload | undefined;
  /** ISO 8601. */
  startedAt: string;
  version: string;
  /** '' where the log goes to stderr. */
  logFile: string;
  /** Values of the flags by their long names, for the next start. */
  settings: Record<string, unknown>;
}

export interface ServePlaces {
  folder: string;
  record: string;
  /** The record of the last server that ended. */
  last: string;
  log: string;
  /** What the server writes to stderr: all there is if it breaks before its log is open. */
  errors: string;
  /** Held while a server is being started. */
  startLock: string;
}

export function servePlaces(folder = join(findPlaces().state, 'serve')): ServePlaces {
  const record = join(folder, 'server.json');
  return {
    folder, record,
    last: lastOf(record),
    log: join(folder, 'server.log'),
    errors: join(folder, 'serve.err'),
    startLock: join(folder, 'start.lock'),
  };
}

function lastOf(record: string): string {
  return record.replace(/(\.json)?$/, '.last.json');
}

/** The record in a file; undefined where there is none, or something that is none. */
export async function readRecord(path: string): Promise<ServerRecord | undefined> {
  return parse(await readFile(path, 'utf8').catch(() => ''));
}

/** The record of the server that runs, or of the last one. */
export async function lastRecord(places: ServePlaces): Promise<ServerRecord | undefined> {
  return await readRecord(places.record) ?? await readRecord(places.last);
}

export interface Registration {
  update(change: Partial<ServerRecord>): Promise<void>;
  /** The server has ended in good order. Idempotent. */
  release(): Promise<void>;
}

/**
 * Makes this process the one server of a state file, as long as it lives. Throws `server_running`
 * if another one is.
 */
export async function register(path: string, facts: Omit<ServerRecord, 'identity' | 'state' | 'url' | 'startedAt'>): Promise<Registration> {
  // Freed at once by whatever ends the process, so two servers can't think that they are the one.
  const lock = await tryLock(`${path}.lock`).catch((cause: Error) => {
    throw new RecuaError('file_unreadable', `The state file ${path} cannot be written: ${cause.message}.`, { cause });
  });
  if (!lock) throw new RecuaError('server_running', `Another server has the state file ${path}. recua serve status tells which.`);
  const identity = await ownIdentity();
  let record: ServerRecord = { ...facts, identity, state: 'starting', url: '', startedAt: new Date().toISOString() };
  const write = () => writeFileAtomic(path, `${JSON.stringify(record, null, 2)}\n`, { mode: 0o600 });
  await write();
  // A second Ctrl-C ends the process at once.
  const onExit = () => retire(path, identity);
  process.on('exit', onExit);
  return {
    async update(change) {
      record = { ...record, ...change };
      await write();
    },
    async release() {
      process.removeListener('exit', onExit);
      onExit();
      await lock.release();
    },
  };
}

/** Sets a record aside whose server is known to have ended. Another server's record stays. */
export function retire(path: string, identity: ProcessIdentity): void {
  try {
    const record = parse(readFileSync(path, 'utf8'));
    if (record && sameProcess(record.identity, identity)) renameSync(path, lastOf(path));
  } catch { /* Somebody else has done it. */ }
}

function parse(text: string): ServerRecord | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  const record = value as Partial<ServerRecord> | null;
  const identity = readIdentity(record?.identity);
  if (!identity || typeof record?.url !== 'string' || typeof record.model?.path !== 'string') return undefined;
  return {
    identity,
    state: record.state ?? 'running',
    host: String(record.host),
    port: Number(record.port),
    url: record.url,
    ...(typeof record.certificate === 'string' ? { certificate: record.certificate } : {}),
    model: readServed(record.model),
    offload: readOffload(record.offload),
    startedAt: String(record.startedAt),
    version: String(record.version),
    logFile: String(record.logFile ?? ''),
    settings: record.settings ?? {},
  };
}

function readServed({ name, path, id, names }: ServerRecord['model']): ServerRecord['model'] {
  // An older Recua served one model and has written no list.
  return { name: String(name), path, id: String(id), names: Array.isArray(names) ? names.map(String) : [String(name)] };
}

function readOffload(value: Partial<Offload> | undefined): Offload | undefined {
  if (!Array.isArray(value?.devices)) return undefined;
  return { devices: value.devices.map(String), layers: Number(value.layers), totalLayers: Number(value.totalLayers) };
}
