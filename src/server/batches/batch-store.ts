// The record of each batch, and its own copy of the requests, which outlives the uploaded file.
// Private to the user. Several servers may share the folder; only one of them works on a batch.
import type { ProcessIdentity } from '../../system/process-identity.js';
import { randomBytes } from 'node:crypto';
import { copyFile, link, lstat, rm } from 'node:fs/promises';
import { join } from 'node:path';
import writeFileAtomic from 'write-file-atomic';
import { RecuaError } from '../../errors.js';
import { SharedReading } from '../../system/shared-reading.js';
import { readSmallFile } from '../../system/small-file.js';
import { isFileId } from '../files/described-file.js';
import { CancelMark } from '../kept/cancel-mark.js';
import { DamagedFiles, isDamage } from '../kept/damaged-files.js';
import { keepingError, namesIn, type KeptFolder } from '../kept/kept-folder.js';
import { keyFirst } from '../kept/key-in.js';
import { everyone, type Owner } from '../kept/owner.js';

export interface BatchProblem {
  code: string;
  line: number | null;
  message: string;
  param: string | null;
}

type Moment = `${'in_progress' | 'finalizing' | 'completed' | 'failed' | 'expired' | 'cancelling' | 'cancelled'}_at`;

/** OpenAI's object. */
export interface Batch extends Record<Moment, number | null> {
  id: string;
  object: 'batch';
  endpoint: string;
  errors: { object: 'list'; data: BatchProblem[] } | null;
  input_file_id: string;
  completion_window: string;
  status: 'validating' | 'failed' | 'in_progress' | 'finalizing' | 'completed' | 'expired' | 'cancelling' | 'cancelled';
  output_file_id: string | null;
  error_file_id: string | null;
  created_at: number;
  expires_at: number;
  request_counts: { total: number; completed: number; failed: number };
  metadata: Record<string, unknown> | null;
}

export interface BatchRecord {
  batch: Batch;
  /** Files for the answers and the errors, listed once the batch has ended. */
  outputId: string;
  errorId: string;
  /** Name of the API key that it belongs to. */
  by?: string | undefined;
  /** The process in whose queue it is. */
  server?: ProcessIdentity | undefined;
  /** How long to keep these files. */
  outputSeconds: number | undefined;
}

const idForm = /^batch_[0-9a-f]{48}$/;
const described = '.json';
const mostRecordBytes = 4 * 2 ** 20;
/** Unfinished and unchanged for this long: left by a server that has ended. */
const abandonedMs = 3_600_000;
/** With more batches, the API key that has the most loses the oldest that have ended. */
const mostBatches = 1_000;

export const newBatchId = (): string => `batch_${randomBytes(24).toString('hex')}`;

export function isOver({ status }: Batch): boolean {
  return status === 'failed' || status === 'completed' || status === 'expired' || status === 'cancelled';
}

export class BatchStore {
  readonly #kept: KeptFolder;
  readonly #most: number;
  readonly #damaged: DamagedFiles;
  readonly #all = new SharedReading(() => this.#readAll());

  constructor(kept: KeptFolder, most = mostBatches, warn: (text: string) => void = () => undefined) {
    this.#kept = kept;
    this.#most = most;
    this.#damaged = new DamagedFiles('batch', warn);
  }

  async put(record: BatchRecord): Promise<void> {
    const path = await this.#pathOf(record.batch.id, described);
    await writeFileAtomic(path, JSON.stringify(keyFirst(record)), { mode: 0o600, fsync: false }).catch((thrown: unknown) => {
      throw keepingError(thrown);
    });
  }

  /** @throws RecuaError `batch_not_found`, `store_unwritable` if it cannot be read now */
  async get(id: string): Promise<BatchRecord> {
    const record = idForm.test(id) ? await this.#read(id, (thrown) => { throw keepingError(thrown); }) : undefined;
    if (!record) throw notFound(id);
    return record;
  }

  /** Newest first. `unread` is told of each that is there but cannot be read now. */
  async list(owner: Owner = everyone, unread: (id: string) => void = () => undefined): Promise<BatchRecord[]> {
    const { records, unreadIds } = await this.#all.get();
    for (const id of unreadIds) unread(id);
    return records.filter(({ by }) => owner.has(by));
  }

  async #readAll(): Promise<{ records: BatchRecord[]; unreadIds: string[] }> {
    const names = await namesIn(await this.#kept.of('batches'));
    const ids = names
      .filter((name) => name.endsWith(described))
      .map((name) => name.slice(0, -described.length))
      .filter((id) => idForm.test(id));
    const records: BatchRecord[] = [];
    const unreadIds: string[] = [];
    // One after the other, since a thousand at once would keep the process busy.
    for (const id of ids) {
      const record = await this.#read(id, () => void unreadIds.push(id));
      if (record) records.push(record);
    }
    records.sort((a, b) => b.batch.created_at - a.batch.created_at || (a.batch.id < b.batch.id ? 1 : -1));
    return { records, unreadIds };
  }

  /** Makes room for another batch. */
  async forgetOldest(): Promise<void> {
    const all = await this.list();
    if (all.length < this.#most) return;
    const ofKeys = new Map<string | undefined, BatchRecord[]>();
    for (const record of all) ofKeys.set(record.by, [...ofKeys.get(record.by) ?? [], record]);
    const [largest = []] = [...ofKeys.values()].sort((a, b) => b.length - a.length);
    for (const { batch } of largest.filter((record) => isOver(record.batch)).slice(this.#most - 1 - all.length)) {
      await rm(await this.#pathOf(batch.id, described), { force: true });
      await this.dropInput(batch.id);
    }
  }

  /** Removes what killed servers left: drafts, and requests that no batch needs any more. */
  async removeLeftOvers(nowMs = Date.now()): Promise<void> {
    const folder = await this.#kept.of('batches');
    const names = new Set(await namesIn(folder));
    for (const name of names) {
      const [, id = '', rest = ''] = /^(batch_[0-9a-f]{48})\.(input|cancel|json\.\d+|lock\..+)$/.exec(name) ?? [];
      const path = join(folder, name);
      const found = id === '' ? undefined : await lstat(path).catch(() => undefined);
      // A link has the times of the uploaded file, except this one.
      if (!found?.isFile() || nowMs - found.ctimeMs < abandonedMs) continue;
      const isOfBatch = rest === 'input' || rest === 'cancel';
      const record = isOfBatch ? await this.#read(id) : undefined;
      const isNeeded = record ? !isOver(record.batch) : isOfBatch && names.has(id + described);
      // Batches are resumed even if a file cannot be removed.
      if (!isNeeded) await rm(path, { force: true }).catch(() => undefined);
    }
  }

  /**
   * Gives the batch its own copy of the requests, in case the uploaded file is deleted; false if
   * that has happened already.
   */
  async takeInput(id: string, path: string): Promise<boolean> {
    const own = await this.inputOf(id);
    try {
      await link(path, own).catch(() => copyFile(path, own));
      return true;
    } catch (thrown) {
      // A part of a copy.
      await rm(own, { force: true }).catch(() => undefined);
      if ((thrown as NodeJS.ErrnoException).code === 'ENOENT') return false;
      throw keepingError(thrown);
    }
  }

  async inputOf(id: string): Promise<string> {
    return await this.#pathOf(id, '.input');
  }

  /** Removes what only an unfinished batch needs. */
  async dropInput(id: string): Promise<void> {
    await rm(await this.inputOf(id), { force: true });
    await (await this.cancelMarkOf(id)).clear();
  }

  /** By which a server asks the one that works on the batch to cancel it. */
  async cancelMarkOf(id: string): Promise<CancelMark> {
    return new CancelMark(await this.#pathOf(id, '.cancel'));
  }

  /** Shows a batch as being cancelled if a server has asked for that. */
  async heedCancelMark({ batch }: BatchRecord): Promise<void> {
    if (batch.status !== 'validating' && batch.status !== 'in_progress') return;
    const atMs = await (await this.cancelMarkOf(batch.id)).setAt();
    if (atMs !== undefined) Object.assign(batch, { status: 'cancelling', cancelling_at: Math.floor(atMs / 1_000) });
  }

  /** Path of the lock that the working server holds. */
  async lockOf(id: string): Promise<string> {
    return await this.#pathOf(id, '.lock');
  }

  async #pathOf(id: string, ending: string): Promise<string> {
    return join(await this.#kept.of('batches'), id + ending);
  }

  /** `unread` is told if it is there but cannot be read now; by default it is left out. */
  async #read(id: string, unread: (thrown: unknown) => void = () => undefined): Promise<BatchRecord | undefined> {
    const path = await this.#pathOf(id, described);
    try {
      const record: unknown = JSON.parse(await readSmallFile(path, mostRecordBytes));
      if (isRecord(record, id)) return record;
      throw new Error('it does not have the fields of a batch');
    } catch (thrown) {
      if (!isDamage(thrown)) unread(thrown);
      this.#damaged.skip(path, thrown);
      return undefined;
    }
  }
}

export function notFound(id: string): RecuaError {
  return new RecuaError('batch_not_found', `There is no batch ${id.slice(0, 80)}.`);
}

const moments = ['in_progress_at', 'finalizing_at', 'completed_at', 'failed_at', 'expired_at', 'cancelling_at', 'cancelled_at'] as const satisfies readonly Moment[];
const statuses: readonly unknown[] = ['validating', 'failed', 'in_progress', 'finalizing', 'completed', 'expired', 'cancelling', 'cancelled'] satisfies readonly Batch['status'][];

function isRecord(value: unknown, id: string): value is BatchRecord {
  const { batch, outputId, errorId, by, outputSeconds } = (value ?? {}) as Partial<Record<keyof BatchRecord, unknown>>;
  const { request_counts: counts, errors, ...one } = (batch ?? {}) as Partial<Batch>;
  const texts = [one.endpoint, one.input_file_id, one.completion_window, by ?? ''];
  const numbers = [
    one.created_at,
    one.expires_at,
    counts?.total,
    counts?.completed,
    counts?.failed,
    outputSeconds ?? 0,
    ...moments.map((name) => (one[name] === null ? 0 : one[name])),
  ];
  return one.id === id && statuses.includes(one.status) && isFileId(outputId) && isFileId(errorId) && texts.every((text) => typeof text === 'string') && numbers.every((number) => Number.isFinite(number))
    && (errors === null || Array.isArray(errors?.data)) && typeof one.metadata === 'object';
}
