// Runs one batch, from wherever it was left: requests with a line in one of its two output files
// are done. Lines are written atomically. A killed process only loses the requests in progress,
// which run again later, and no line is written twice.
import { randomBytes } from 'node:crypto';
import { rm, stat, type FileHandle } from 'node:fs/promises';
import { setTimeout as wait } from 'node:timers/promises';
import { RecuaError } from '../../errors.js';
import { atTime } from '../../system/clock.js';
import { openRegular } from '../../system/small-file.js';
import { StoreFull, type FileStore } from '../files/file-store.js';
import { GrowingRoom } from '../files/growing-room.js';
import type { Gateway } from '../http/gateway.js';
import { IdleWork, type InnerReply } from '../http/inner.js';
import type { BatchProblem, BatchRecord, BatchStore } from './batch-store.js';
import type { Idle } from './idle.js';
import { LineFile, linesOf } from './lines.js';
import { bodyOf, checkRequests, type BatchRequest } from './requests.js';

export interface Places {
  gateway: Gateway;
  store: BatchStore;
  files: FileStore;
  idle: Idle;
}

/** Statuses that may differ on a retry. */
const passing: ReadonlySet<number> = new Set([408, 429, 499, 503]);
/** Attempts for a request that crashes the engine. */
const mostCrashes = 3;
const firstPauseMs = 500;
const longestPauseMs = 30_000;
/** Temporary errors, such as a loading model, mostly end soon, and retrying is cheap. */
const longestAskPauseMs = 2_000;

/** `body` is JSON, which may be long, and is written as it came. */
type Line = { customId: string; response: Pick<InnerReply, 'status' | 'requestId' | 'body'> } | { customId: string; error: { code: string; message: string } };

export class BatchWork {
  readonly record: BatchRecord;
  readonly #places: Places;
  readonly #stop = new AbortController();
  /** Ends all lines: the batch is stopped, or its time is over. */
  readonly #end = new AbortController();
  #stopWaiting = (): void => undefined;
  #cancelled = false;
  #cancelling: Promise<void> | undefined;
  #isCounted = false;
  #resumesAtMs: number | undefined;
  /** Why the results may not grow any more. */
  #full: StoreFull | undefined;
  readonly #room: GrowingRoom;
  #output: LineFile | undefined;
  #errors: LineFile | undefined;

  /** `lookMs`: how often it looks at the clock. */
  constructor(record: BatchRecord, places: Places, lookMs?: number) {
    this.record = record;
    this.#places = places;
    this.#room = new GrowingRoom(places.files, record.by);
    const endMs = record.batch.expires_at * 1_000;
    const wait = (): void => {
      if (Date.now() >= endMs) this.#end.abort();
      else this.#stopWaiting = atTime(endMs, wait, lookMs);
    };
    wait();
  }

  /** Whether earlier results have been counted. */
  get isCounted(): boolean {
    return this.#isCounted;
  }

  /** When to run the rest, in ms since 1970; undefined if `run` has ended the batch. */
  get resumesAtMs(): number | undefined {
    const { total, completed, failed } = this.record.batch.request_counts;
    return completed + failed < total && !this.#stop.signal.aborted ? this.#resumesAtMs : undefined;
  }

  /** Lets other batches run: starts no more lines, and `run` returns. */
  leave(untilMs = 0): void {
    this.#resumesAtMs = Math.max(this.#resumesAtMs ?? 0, untilMs);
  }

  /** Abandons lines in progress; finished answers are kept. */
  cancel(): Promise<void> {
    return (this.#cancelling ??= this.#cancel().finally(() => (this.#cancelling = undefined)));
  }

  async #cancel(): Promise<void> {
    const { batch } = this.record;
    if (batch.status === 'finalizing' || batch.completed_at !== null) return;
    const { status } = batch;
    this.#cancelled = true;
    try {
      await this.#enter('cancelling');
    } catch (thrown) {
      // The client hears that it goes on.
      this.#cancelled = false;
      if (batch.status === 'cancelling') Object.assign(batch, { status, cancelling_at: null });
      throw thrown;
    }
    this.stop();
  }

  /** For a stop of the server, whose next start resumes the batch. */
  stop(): void {
    this.#stop.abort();
    this.#end.abort();
  }

  /** @throws StoreFull if the results need more room than their key has */
  async run(): Promise<void> {
    try {
      await this.#run();
    } finally {
      this.#stopWaiting();
    }
  }

  async #run(): Promise<void> {
    const { batch } = this.record;
    const { store, gateway } = this.#places;
    if (batch.status === 'cancelling') {
      this.#cancelled = true;
      this.stop();
    }
    const path = await store.inputOf(batch.id);
    const checked = await checkRequests(path, batch.endpoint, gateway.config.bodyLimitBytes, this.#stop.signal).catch((thrown: unknown) => {
      if (this.#stop.signal.aborted) return undefined;
      throw thrown;
    });
    if (!checked) return await this.#concludeUnchecked();
    const { requests, problems } = checked;
    if (problems.length > 0) {
      batch.errors = { object: 'list', data: problems };
      await this.#enter('failed');
      return await store.dropInput(batch.id);
    }
    let input: FileHandle | undefined;
    try {
      const done = await this.#openResults(requests.length);
      this.#isCounted = true;
      input = await openRegular(path);
      if (batch.status === 'validating') await this.#enter('in_progress');
      await this.#all(requests.filter(({ customId }) => !done.has(customId)), input);
      if (this.#full && !this.#stop.signal.aborted) throw this.#full;
      if (this.#cancelled || (!this.#stop.signal.aborted && this.resumesAtMs === undefined)) await this.#conclude();
    } finally {
      await input?.close();
      await this.#closeResults();
    }
  }

  /** Returns the requests that have a result. */
  async #openResults(total: number): Promise<Set<string>> {
    const { batch, outputId, errorId } = this.record;
    const { files } = this.#places;
    const done = new Set<string>();
    this.#output = await openLines(await files.pathOf(outputId), done, this.#room);
    const completed = done.size;
    this.#errors = await openLines(await files.pathOf(errorId), done, this.#room);
    batch.request_counts = { total, completed, failed: done.size - completed };
    return done;
  }

  async #closeResults(): Promise<void> {
    await this.#output?.close();
    await this.#errors?.close();
    this.#room.release();
  }

  /** Runs as many lines at once as `idle` has slots. */
  async #all(requests: readonly BatchRequest[], input: FileHandle): Promise<void> {
    const next = requests[Symbol.iterator]();
    const worker = async (): Promise<void> => {
      for (let one = next.next(); !one.done && this.#goesOn; one = next.next()) await this.#one(one.value, input);
    };
    await Promise.all(Array.from({ length: this.#places.idle.slots }, worker));
  }

  get #goesOn(): boolean {
    return !this.#stop.signal.aborted && !this.#full && this.#resumesAtMs === undefined;
  }

  /** Once it is, it stays so, even if the clock is set back. */
  get #isExpired(): boolean {
    return this.#end.signal.aborted || Date.now() >= this.record.batch.expires_at * 1_000;
  }

  /** Leaves the request for later if the batch is stopped or left meanwhile. */
  async #one(request: BatchRequest, input: FileHandle): Promise<void> {
    const { signal } = this.#stop;
    const { customId } = request;
    const expiresMs = this.record.batch.expires_at * 1_000;
    let crashes = 0;
    let pauseMs = firstPauseMs;
    while (this.#goesOn) {
      if (this.#isExpired) return await this.#write({ customId, error: { code: 'batch_expired', message: 'The batch expired before this request was answered.' } });
      const reply = await this.#ask(request, input).catch((thrown: unknown) => thrown as Error);
      // The line gave way, the time of the batch is over, or the batch was stopped.
      if (reply instanceof Error && reply.name === 'AbortError') continue;
      // The line itself is at fault, now and later.
      if (reply instanceof RangeError || (reply instanceof RecuaError && !passing.has(reply.status))) {
        const { code, message } = RecuaError.from(reply);
        return await this.#write({ customId, error: { code, message } });
      }
      const { status, requestId, retryAfterSeconds = 0, body } = reply instanceof Error ? { status: 503, requestId: '', body: Buffer.alloc(0) } : reply;
      if (!passing.has(status) && !(status === 500 && isCrash(body) && ++crashes < mostCrashes)) {
        return await this.#write({ customId, response: { status, requestId, body } }, status !== 200);
      }
      // The key has no tokens left for today.
      if (isOutOfTokens(body)) return this.leave(Math.min(Date.now() + retryAfterSeconds * 1_000, expiresMs));
      await wait(pauseMs, undefined, { signal }).catch(() => undefined);
      pauseMs = Math.min(2 * pauseMs, longestAskPauseMs);
    }
  }

  async #ask(request: BatchRequest, input: FileHandle): Promise<InnerReply> {
    const { idle, gateway } = this.#places;
    const { endpoint } = this.record.batch;
    return await idle.line(
      this.#end.signal,
      async (signal) =>
        await gateway.inner.ask({
          path: endpoint,
          body: await bodyOf(input, request, endpoint),
          reason: new IdleWork(),
          by: this.record.by,
          signal,
        }),
    );
  }

  async #write(line: Line, failed = true): Promise<void> {
    const { request_counts: counts } = this.record.batch;
    const parts = partsOf(line);
    for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(2 * pauseMs, longestPauseMs)) {
      try {
        await (failed ? this.#errors : this.#output)!.add(...parts);
        break;
      } catch (thrown) {
        if (thrown instanceof StoreFull) {
          this.#full = thrown;
          return this.#end.abort();
        }
        this.#places.gateway.log('warn', `${this.record.batch.id} is waiting because its answers cannot be written: ${RecuaError.logText(thrown)}`);
        await wait(pauseMs, undefined, { signal: this.#stop.signal }).catch(() => undefined);
        if (this.#stop.signal.aborted) return;
      }
    }
    if (failed) counts.failed++;
    else counts.completed++;
  }

  async #conclude(): Promise<void> {
    const { batch } = this.record;
    const expired = !this.#cancelled && this.#isExpired;
    if (!this.#cancelled && !expired) {
      await this.#enter('finalizing');
      await this.#heedLateMark();
    }
    const cancelled = this.#cancelled;
    await this.#publish();
    await this.#enter(cancelled ? 'cancelled' : expired ? 'expired' : 'completed');
    await this.#places.store.dropInput(batch.id);
  }

  /**
   * Another server may have set the mark since it was last looked for, and have told its client
   * that the batch is being cancelled. It looks at the status once it has set the mark.
   */
  async #heedLateMark(): Promise<void> {
    const { batch } = this.record;
    const atMs = await (await this.#places.store.cancelMarkOf(batch.id)).setAt();
    if (atMs === undefined) return;
    this.#cancelled = true;
    Object.assign(batch, { status: 'cancelling', cancelling_at: Math.floor(atMs / 1_000), finalizing_at: null });
  }

  /** Stopped before its requests are known. A cancelled batch is over without them. */
  async #concludeUnchecked(): Promise<void> {
    if (!this.#cancelled) return;
    await this.#openResults(this.record.batch.request_counts.total);
    await this.#closeResults();
    await this.#conclude();
  }

  /** For errors of the batch itself, such as unusable files. The answers so far are kept. */
  async fail({ code, message: told }: Pick<BatchProblem, 'code' | 'message'>): Promise<void> {
    const { batch } = this.record;
    const message = code === 'internal_error' ? 'The server met an internal error; its log has the details under the id of the batch.' : told;
    this.#resumesAtMs = undefined;
    batch.errors = { object: 'list', data: [{ code, message, param: null, line: null }] };
    await this.#publish().catch(() => undefined);
    await this.#enter('failed');
    await this.#places.store.dropInput(batch.id);
  }

  /** Lists the two files of results, or removes them if they are empty. */
  async #publish(): Promise<void> {
    const { batch, outputId, errorId, outputSeconds, by } = this.record;
    const { files } = this.#places;
    const about = { purpose: 'batch_output', by, ...(outputSeconds === undefined ? {} : { expires_at: Math.floor(Date.now() / 1_000) + outputSeconds }) };
    const publish = async (id: string, kind: string): Promise<string | null> => {
      const path = await files.pathOf(id);
      const { size } = await stat(path).catch((cause: NodeJS.ErrnoException) => {
        if (cause.code === 'ENOENT') return { size: 0 };
        throw cause;
      });
      if (size > 0) return (await files.describe(id, { ...about, filename: `${batch.id}_${kind}.jsonl` })).id;
      await rm(path, { force: true });
      return null;
    };
    batch.output_file_id = await publish(outputId, 'output');
    batch.error_file_id = await publish(errorId, 'error');
  }

  async #enter(status: Exclude<BatchRecord['batch']['status'], 'validating'>): Promise<void> {
    const { batch } = this.record;
    batch.status = status;
    batch[`${status}_at`] = Math.floor(Date.now() / 1_000);
    await this.#places.store.put(this.record);
  }
}

/** Collects the requests that have a line, and removes an incomplete last line. */
async function openLines(path: string, done: Set<string>, room: GrowingRoom): Promise<LineFile> {
  let size = 0;
  const read = async (): Promise<void> => {
    for await (const { bytes, isWhole, offset, length } of linesOf(path, Infinity)) {
      if (!isWhole) break;
      done.add((JSON.parse(bytes.toString()) as { custom_id: string }).custom_id);
      size = offset + length + 1;
    }
  };
  await read().catch((cause: NodeJS.ErrnoException) => {
    if (cause.code !== 'ENOENT') throw cause;
  });
  return await LineFile.open(path, size, room);
}

/** A line of the results, in parts. */
export function partsOf(line: Line): (string | Buffer)[] {
  const head = JSON.stringify({ id: `batch_req_${randomBytes(24).toString('hex')}`, custom_id: line.customId }).slice(0, -1);
  if ('error' in line) return [`${head},"response":null,"error":${JSON.stringify(line.error)}}`];
  const { status, requestId, body: given } = line.response;
  // A program that embeds the server may have set Express to write JSON over several lines.
  const body = given.includes('\n') ? JSON.stringify(JSON.parse(given.toString())) : given;
  return [`${head},"response":{"status_code":${status},"request_id":${JSON.stringify(requestId)},"body":`, body, '},"error":null}'];
}

function isOutOfTokens(body: Buffer): boolean {
  return body.toString().includes('"code":"rate_limit_exceeded"');
}

function isCrash(body: Buffer): boolean {
  return /"code":"model_(crashed|stuck)"/.test(body.toString());
}
