// Stores responses that later requests retrieve or continue from: one file each, private to the
// user. The first line has the response, the second its input, which may be long and is rarely
// wanted. Keeps the newest ones, up to a limit of bytes and age; past it, the API key with the most
// bytes loses its oldest. Several servers may share the folder: the one that generates a background
// response holds a mark beside its file. Made by dialect.
import { lstat, rm } from 'node:fs/promises';
import { join } from 'node:path';
import writeFileAtomic from 'write-file-atomic';
import { RecuaError } from '../../errors.js';
import { lockHolder, tryLock, type Lock } from '../../system/lock-file.js';
import { NotRegular, readFirstLine, readSmallFile } from '../../system/small-file.js';
import { CancelMark } from '../kept/cancel-mark.js';
import { keepingError, namesIn, type KeptFolder } from '../kept/kept-folder.js';
import { jsonText } from '../http/long-json.js';
import { keyFirst, keyIn } from '../kept/key-in.js';
import type { Owner } from '../kept/owner.js';
import { ClientTurns, type Waiter } from '../exchange/client-turns.js';

const mostBytes = 2 ** 30;
/** Longer than the text of any request. */
const mostFileBytes = 2 ** 29;
/** Least writes between two sweeps. */
const writesPerSweep = 200;
/**
 * After a sweep the next one waits this many times as long as it took: a million small responses
 * take minutes.
 */
const restsPerSweep = 20;
/** Bytes of writes after which a sweep does not wait. */
const bytesPerSweep = 2 ** 26;
/** A draft of this age belongs to a process that has ended. */
const draftMs = 3_600_000;
/** A conversation of this many responses is longer than any context. */
const mostSteps = 10_000;

/** OpenAI's object, as clients see it. */
export interface WireResponse {
  id: string;
  object: 'response';
  created_at: number;
  completed_at: number | null;
  status: 'queued' | 'in_progress' | 'completed' | 'incomplete' | 'failed' | 'cancelled';
  background: boolean;
  error: { code: string; message: string } | null;
  incomplete_details: { reason: string } | null;
  model: string;
  output: readonly object[];
  usage: object | null;
  store: boolean;
  warnings?: string[];
}

export interface StoredResponse {
  response: WireResponse;
  /** Its own input items, without those of previous responses. */
  input: readonly object[];
  /** The response that it continues from. */
  previous?: string | undefined;
  /** Number of the last event of its stream, if it had one. */
  lastEvent?: number | undefined;
  /** Name of the API key that it belongs to. */
  by?: string | undefined;
}

export type StoredHead = Omit<StoredResponse, 'input'>;

export function isUnfinished({ status }: WireResponse): boolean {
  return status === 'queued' || status === 'in_progress';
}

const idForm = /^resp_[0-9a-f]{48}$/;
const ending = '.json';
const markEnding = '.running';
const cancelEnding = '.cancel';

export class ResponseStore {
  readonly #kept: KeptFolder;
  readonly #bounds: { bytes: number; ageMs: number; writes: number; rests: number; sweepBytes: number };
  /**
   * Parsing a long response keeps the process busy, and its memory counts nowhere until the request
   * has charged it.
   */
  readonly #readers = new ClientTurns(
    () => new RecuaError('body_memory_full', 'Too many requests wait to read stored responses; try again in a moment.'),
  );

  /** Since the last sweep; the first write sweeps. */
  #writes = Infinity;
  #writtenBytes = 0;
  #sweeping: Promise<void> = Promise.resolve();
  #isSweeping = false;
  /** By performance.now(). */
  #restsUntilMs = 0;

  constructor(
    kept: KeptFolder,
    { bytes = mostBytes, ageMs = Infinity, writes = writesPerSweep, rests = restsPerSweep, sweepBytes = bytesPerSweep } = {},
  ) {
    this.#kept = kept;
    this.#bounds = { bytes, ageMs, writes, rests, sweepBytes };
  }

  /** @throws RecuaError `disk_full`, `store_unwritable` */
  async put({ input, ...head }: StoredResponse): Promise<void> {
    const folder = await this.#kept.of('responses');
    const path = join(folder, head.response.id + ending);
    const text = `${await jsonText(keyFirst(head))}\n${JSON.stringify(input)}`;
    try {
      // The file is atomic. Losing it in a power failure is not worth waiting for a sync.
      await writeFileAtomic(path, text, { mode: 0o600, fsync: false });
    } catch (thrown) {
      throw keepingError(thrown);
    }
    this.#writes++;
    this.#writtenBytes += Buffer.byteLength(text);
    if (this.#isSweepDue) this.#sweeping = this.#sweepOnce(folder);
  }

  /** Sweeps, unless the last sweep took so long that the next one waits. */
  async tidy(): Promise<void> {
    const folder = await this.#kept.of('responses');
    if (!this.#isSweeping && performance.now() >= this.#restsUntilMs) await (this.#sweeping = this.#sweepOnce(folder));
  }

  get #isSweepDue(): boolean {
    const { writes, sweepBytes } = this.#bounds;
    if (this.#isSweeping) return false;
    return this.#writtenBytes >= sweepBytes || (this.#writes >= writes && performance.now() >= this.#restsUntilMs);
  }

  async #sweepOnce(folder: string): Promise<void> {
    this.#isSweeping = true;
    this.#writes = 0;
    this.#writtenBytes = 0;
    const startMs = performance.now();
    await this.#sweep(folder).catch(() => undefined);
    const endMs = performance.now();
    this.#restsUntilMs = endMs + (endMs - startMs) * this.#bounds.rests;
    this.#isSweeping = false;
  }

  /**
   * Takes the mark of a background response. Whoever holds it generates the response, and may
   * replace its file.
   * @throws RecuaError `disk_full`, `store_unwritable`
   */
  async mark(id: string): Promise<Lock> {
    const mark = await this.#tryMark(id);
    if (!mark) throw new RecuaError('internal_error', `The response ${id} is being generated twice.`);
    return mark;
  }

  /**
   * Replaces a stored response, unless it was deleted. A deletion removes the mark before the file,
   * so that one of the two checks finds that out, or the file is removed after it was replaced.
   * @throws RecuaError `response_not_found`, `disk_full`, `store_unwritable`
   */
  async replace(stored: StoredResponse, mark: Lock): Promise<void> {
    const { id } = stored.response;
    if (!(await mark.isHeld()) || !(await this.exists(id))) throw notFound(id);
    await this.put(stored);
    if (await mark.isHeld()) return;
    await rm(await this.#pathOf(id, ending), { force: true });
    throw notFound(id);
  }

  /**
   * Every request reads in its turn. What it reads may be as large as a body: the turn ends when it
   * was charged, as part of a reply or by `hold`.
   * @throws RecuaError `body_memory_full`, `cancelled`
   */
  async inTurn<Result>(reader: Waiter, read: () => Promise<Result>): Promise<Result> {
    return await this.#readers.inTurn(reader, read);
  }

  /**
   * The response without its input. A response in progress whose server has ended becomes failed.
   * @throws RecuaError `response_not_found`, `disk_full`, `store_unwritable`
   */
  async current(id: string, owner: Owner): Promise<StoredHead> {
    const head = await this.head(id, owner);
    if (!isUnfinished(head.response) || (await lockHolder(await this.#pathOf(id, markEnding)))) return head;
    const mark = await this.#tryMark(id);
    if (!mark) return head;
    try {
      const stored = await this.get(id, owner);
      // Its server may have stored the end just before it gave up the mark.
      if (!isUnfinished(stored.response)) return stored;
      const error = { code: 'shutting_down', message: 'The server ended before the response was complete.' };
      const failed: StoredResponse = { ...stored, response: { ...stored.response, status: 'failed', error } };
      await this.replace(failed, mark);
      return failed;
    } finally {
      await mark.release();
    }
  }

  async #tryMark(id: string): Promise<Lock | undefined> {
    const path = await this.#pathOf(id, markEnding);
    return await tryLock(path).catch((thrown: unknown) => {
      throw keepingError(thrown);
    });
  }

  /** @throws RecuaError `store_unwritable` if that cannot be told now */
  async exists(id: string): Promise<boolean> {
    try {
      return (await lstat(await this.#pathOf(id, ending))).isFile();
    } catch (thrown) {
      if ((thrown as NodeJS.ErrnoException).code === 'ENOENT') return false;
      throw keepingError(thrown);
    }
  }

  async #pathOf(id: string, which: string): Promise<string> {
    return join(await this.#kept.of('responses'), id + which);
  }

  /**
   * `hold` gets the size of the JSON in bytes before it is parsed, and may throw.
   * @throws RecuaError `response_not_found`
   */
  async get(id: string, owner: Owner, param?: string, hold: (bytes: number) => void = () => undefined): Promise<StoredResponse> {
    await this.#check(id, owner, param);
    const text = await this.#read(id);
    if (text === undefined) throw notFound(id, param);
    hold(text.length);
    const end = text.indexOf('\n');
    const input = parsed(text.slice(end + 1));
    if (!areObjects(input)) throw notFound(id, param);
    return { ...headOf(text.slice(0, end), id, owner, param), input };
  }

  /** The response without its input. */
  async head(id: string, owner: Owner, param?: string): Promise<StoredHead> {
    await this.#check(id, owner, param);
    return headOf(await this.#read(id, true), id, owner, param);
  }

  /** Whether it is there for the owner, without reading it. */
  async #check(id: string, owner: Owner, param?: string): Promise<void> {
    const keyOf = async (): Promise<string | undefined> =>
      await keyIn(await this.#pathOf(id, ending), (thrown) => {
        throw keepingError(thrown);
      });
    if (!idForm.test(id) || !(await this.exists(id)) || !owner.has(await keyOf())) throw notFound(id, param);
  }

  /** All items of the conversation up to that response, including its output. */
  async history(id: string, owner: Owner, reader: Waiter, hold: (bytes: number) => void): Promise<object[]> {
    const steps: StoredResponse[] = [];
    for (let next: string | undefined = id; next !== undefined; next = steps.at(-1)!.previous) {
      const at = next;
      const step: StoredResponse = await this.inTurn(reader, async () => {
        const found = await this.get(at, owner, 'previous_response_id', hold).catch((thrown: unknown) => {
          throw at === id ? thrown : parentGone(thrown, id);
        });
        return isUnfinished(found.response) ? { ...(await this.current(at, owner)), input: found.input } : found;
      });
      if (isUnfinished(step.response)) {
        throw new RecuaError('invalid_value', `The response ${next} is still in progress: wait until it is complete, or cancel it.`, {
          param: 'previous_response_id',
        });
      }
      steps.push(step);
      if (steps.length > mostSteps)
        throw new RecuaError('invalid_value', `Expected fewer than ${mostSteps} responses before this one.`, {
          param: 'previous_response_id',
        });
    }
    return steps.reverse().flatMap(({ response, input }) => [...input, ...response.output]);
  }

  /** By which a server asks the one that generates the response to cancel it. */
  async cancelMarkOf(id: string): Promise<CancelMark> {
    return new CancelMark(await this.#pathOf(id, cancelEnding));
  }

  /** @throws RecuaError `response_not_found` */
  async remove(id: string, owner: Owner): Promise<object> {
    await this.#check(id, owner);
    const path = await this.#pathOf(id, ending);
    // Another server need not finish what nobody can read.
    if (await lockHolder(await this.#pathOf(id, markEnding))) await (await this.cancelMarkOf(id)).set().catch(() => undefined);
    // Before the file: see `replace`.
    await rm(await this.#pathOf(id, markEnding), { force: true });
    await rm(path).catch((cause: NodeJS.ErrnoException) => {
      throw cause.code === 'ENOENT' ? notFound(id) : keepingError(cause);
    });
    return { id, object: 'response.deleted', deleted: true };
  }

  /** Resolves when the running sweep is done. */
  async settled(): Promise<void> {
    await this.#sweeping;
  }

  /** `head`: only the first line. */
  async #read(id: string, head = false): Promise<string | undefined> {
    const path = await this.#pathOf(id, ending);
    try {
      if (Date.now() - (await lstat(path)).mtimeMs > this.#bounds.ageMs) return undefined;
      return head ? await readFirstLine(path, mostFileBytes) : await readSmallFile(path, mostFileBytes);
    } catch (cause) {
      if (cause instanceof NotRegular || (cause as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
      throw keepingError(cause);
    }
  }

  /** Deletes expired responses, then old ones above the limit. */
  async #sweep(folder: string): Promise<void> {
    const nowMs = Date.now();
    const found: { path: string; ageMs: number; bytes: number }[] = [];
    for (const name of await namesIn(folder)) {
      const path = join(folder, name);
      const state = await lstat(path).catch(() => undefined);
      if (!state || state.isDirectory()) continue;
      const ageMs = nowMs - state.mtimeMs;
      const isOld = ageMs > (name.endsWith(ending) ? this.#bounds.ageMs : draftMs);
      // A mark looks old for a moment after the clock was set, or the machine slept.
      if (isOld && !(name.endsWith(markEnding) && (await lockHolder(path)))) await rm(path, { force: true });
      else if (name.includes(ending)) found.push({ path, ageMs, bytes: state.size });
    }
    let bytes = found.reduce((sum, one) => sum + one.bytes, 0);
    if (bytes <= this.#bounds.bytes) return;
    // Newest first, so that the oldest is the last one.
    const ofKeys = new Map<string, { bytes: number; files: typeof found }>();
    for (const one of found.sort((a, b) => a.ageMs - b.ageMs)) {
      const by = (await keyIn(one.path)) ?? '';
      const own = ofKeys.get(by) ?? { bytes: 0, files: [] };
      ofKeys.set(by, own);
      own.bytes += one.bytes;
      own.files.push(one);
    }
    while (bytes > this.#bounds.bytes) {
      const largest = [...ofKeys.values()].reduce((a, b) => (b.bytes > a.bytes ? b : a));
      const oldest = largest.files.pop()!;
      await rm(oldest.path, { force: true });
      largest.bytes -= oldest.bytes;
      bytes -= oldest.bytes;
    }
  }
}

/** What another version or a broken disk changed counts as gone. */
function headOf(text: string | undefined, id: string, owner: Owner, param?: string): StoredHead {
  const head = (text === undefined ? undefined : parsed(text)) as Partial<StoredHead> | null | undefined;
  const { id: found, status, output } = (head?.response ?? {}) as Partial<WireResponse>;
  if (!head || found !== id || typeof status !== 'string' || !areObjects(output) || !owner.has(head.by)) throw notFound(id, param);
  return head as StoredHead;
}

function areObjects(value: unknown): value is object[] {
  return Array.isArray(value) && value.every((one) => typeof one === 'object' && one !== null);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The error for a conversation whose earlier responses are missing. */
function parentGone(thrown: unknown, id: string): RecuaError {
  const { code, message, param } = RecuaError.from(thrown);
  return code === 'response_not_found' ? new RecuaError(code, `The response ${id} continues earlier responses, of which one is missing. ${message}`, { param }) : RecuaError.from(thrown);
}

function notFound(id: string, param?: string): RecuaError {
  return new RecuaError('response_not_found', `There is no response ${id.slice(0, 80)}: it was never stored, was deleted, or gave way to newer ones.`, { param });
}
