// The state file of the managed server, which the server itself writes while it runs. A reader
// trusts it only after checking that the process it names is still the same process. Written by
// `recua api --state-file`; read by the commands of `recua serve`.
import { existsSync, lstatSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import writeFileAtomic from 'write-file-atomic';
import type { Offload } from '../../engine/protocol.js';
import { RecuaError } from '../../errors.js';
import { tryLock } from '../../system/lock-file.js';
import { findPlaces } from '../../models/places.js';
import { ownIdentity, readIdentity, sameProcess } from '../../system/process-identity.js';
import type { ProcessIdentity } from '../../system/process-identity.js';
import { readLinkedFile } from '../../system/small-file.js';
import { misuse } from '../flags/flags.js';
import { toJson } from '../terminal/output.js';

/** The title of a server that serves whatever this machine has. */
export const onDemand = 'models on demand';

export interface ServerRecord {
  identity: ProcessIdentity;
  state: 'starting' | 'running' | 'stopping';
  host: string;
  /** The requested port until the server listens; 0 means any free port. */
  port: number;
  /** '' until the server listens. */
  url: string;
  /** Fingerprint of the certificate; undefined without TLS. */
  certificate?: string | undefined;
  /**
   * For several models, or the whole store, `id` describes them and the path is empty. `names` are
   * the operands for the next start.
   */
  model: { name: string; path: string; id: string; names: readonly string[] };
  /** Where the model computes; undefined until it is loaded. */
  offload?: Offload | undefined;
  /** Tokens that one sequence of the model holds; undefined until it is loaded. */
  contextSize?: number | undefined;
  /** What a first request can ask of the model; undefined until it is loaded. */
  firstUse?: FirstUse | undefined;
  /** ISO 8601. */
  startedAt: string;
  version: string;
  /** '' if the log goes to stderr. */
  logFile: string;
  /** Flag values by long name, for the next start. */
  settings: Record<string, unknown>;
}

export const firstUses = ['chat', 'embeddings', 'rerank'] as const;
export type FirstUse = (typeof firstUses)[number];

export interface ServePlaces {
  folder: string;
  record: string;
  /** The record of the last server that exited. */
  last: string;
  log: string;
  /** The server's stderr: all there is if it fails before its log is open. */
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

/** Held by the server of a state file while it lives. */
export function recordLock(path: string): string {
  return `${path}.lock`;
}

/** The record in a file; undefined if there is none, or if it is not valid. */
export async function readRecord(path: string): Promise<ServerRecord | undefined> {
  return parse(await readLinkedFile(path).catch(() => ''));
}

/** The record of the running server, or of the last one. */
export async function lastRecord(places: ServePlaces): Promise<ServerRecord | undefined> {
  return await readRecord(places.record) ?? await readRecord(places.last);
}

export interface Registration {
  update(change: Partial<ServerRecord>): Promise<void>;
  /** Call when the server has ended in order. Idempotent. */
  release(): Promise<void>;
}

/**
 * Makes this process the only server of a state file, as long as it lives. Throws `server_running`
 * if there is another.
 */
export async function register(path: string, facts: Omit<ServerRecord, 'identity' | 'state' | 'url' | 'startedAt'>): Promise<Registration> {
  const unwritable = (cause: Error): never => {
    throw new RecuaError('file_unreadable', `The state file ${path} cannot be written: ${cause.message}.`, { cause });
  };
  for (const file of [path, lastOf(path)]) await refuseForeign(file);
  // The lock is freed however the process ends, so two servers never both hold it.
  const lock = await tryLock(recordLock(path)).catch(unwritable);
  if (!lock) throw new RecuaError('server_running', `Another server has the state file ${path}. recua serve status shows which.`);
  const identity = await ownIdentity();
  let record: ServerRecord = { ...facts, identity, state: 'starting', url: '', startedAt: new Date().toISOString() };
  const write = () => writeFileAtomic(path, toJson(record), { mode: 0o600 }).catch(unwritable);
  await write().catch(async (thrown: unknown) => {
    await lock.release();
    throw thrown;
  });
  // A second Ctrl-C exits at once.
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

/**
 * Throws `invalid_usage` for a file that no server wrote, a pipe or a device, except beside that of
 * `recua serve`.
 */
async function refuseForeign(path: string): Promise<void> {
  const { folder } = servePlaces();
  const found = dirname(path) === folder ? undefined : await stat(path).catch(() => undefined);
  if (!found || found.isDirectory() || (found.isFile() && (found.size === 0 || await readRecord(path)))) return;
  throw misuse(`Expected a new file or an earlier state file for --state-file; ${path} is another file. It was not changed.`);
}

/** Moves the record of an exited server aside. Another server's record stays. */
export function retire(path: string, identity: ProcessIdentity): void {
  try {
    // Reading a pipe might never end.
    const record = lstatSync(path).isFile() ? parse(readFileSync(path, 'utf8')) : undefined;
    if (!record || !sameProcess(record.identity, identity)) return;
    // A start that failed is not what a restart means.
    if (record.state === 'starting' && existsSync(lastOf(path))) rmSync(path);
    else renameSync(path, lastOf(path));
  } catch { /* Another process did it already. */ }
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
    ...(typeof record.contextSize === 'number' ? { contextSize: record.contextSize } : {}),
    firstUse: firstUses.find((use) => use === record.firstUse),
    startedAt: String(record.startedAt),
    version: String(record.version),
    logFile: String(record.logFile ?? ''),
    settings: record.settings ?? {},
  };
}

function readServed({ name, path, id, names }: ServerRecord['model']): ServerRecord['model'] {
  // Older versions served one model and wrote no list.
  return { name: String(name), path, id: String(id), names: Array.isArray(names) ? names.map(String) : [String(name)] };
}

function readOffload(value: Partial<Offload> | undefined): Offload | undefined {
  if (!Array.isArray(value?.devices)) return undefined;
  return { devices: value.devices.map(String), layers: Number(value.layers), totalLayers: Number(value.totalLayers) };
}
