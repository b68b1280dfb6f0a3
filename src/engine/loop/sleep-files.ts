// Conversations of an unloaded model, in files. The engine process writes them when it is told to
// sleep, and the model's next process finds them. A file is one more place for a stash: its tokens
// are read when the engine starts, its bytes when a prompt continues from them, while steps run.
// Used by engine-loop; planning/prefix places the prompts.
import { randomUUID } from 'node:crypto';
import { open, readdir, rm, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { NativeContext, NativeModel } from '../../addon/addon.js';
import type { EngineHooks } from './outbox.js';
import type { PrefixCache } from '../planning/prefix.js';
import type { StepCosts } from '../planning/step-costs.js';
import { commonPrefix, nearlyBegins, sameTokens, type Stashed } from '../planning/stash-pool.js';
import type { SleepPlace } from '../protocol.js';
import { makeRoom, stateEnding } from '../sleep/room.js';
import type { Vitals } from './vitals.js';
import type { Wakeup } from './wakeup.js';
import type { Fingerprint } from './fingerprint.js';
import { readState, readTokens, writeState } from './saved-state.js';

/** Fewer tokens are evaluated faster than found. */
const leastTokens = 16;
/** Time allowed for writing, even if evaluating everything again would take less. */
const leastMs = 1_000;
/** Approximate size of a file without its tokens and state. */
const headBytes = 300;
const mebibyte = 2 ** 20;

/** Idle time before the engine writes conversations to a folder that lasts. */
const writeAfterMs = 3_000;

const interrupted = new Error('A request came.');

/** The model's memory of chats, besides their KV. */
type Chats = Pick<NativeModel, 'remember' | 'remembers'>;

/** A conversation that may be written. */
interface Candidate {
  tokens: Int32Array;
  /** Its bytes are in this slot, or in this stash. */
  slot: number;
  stash: Stashed | undefined;
}

const which = (count: number): string => (count === 1 ? 'A kept conversation' : `${count} kept conversations`);

/** Frees the bytes of stashes that the pool dropped, in memory and on disk. */
export async function discard(context: NativeContext, gone: readonly Stashed[]): Promise<void> {
  for (const { id, file, checkpoints = [] } of gone) {
    for (const checkpoint of checkpoints) await context.dropStash(checkpoint.id);
    if (id > 0) await context.dropStash(id);
    if (file !== undefined) await rm(file, { force: true }).catch(() => {});
  }
}

/** Most conversations that wait in memory for their prompts, beyond the limit of the stash. */
const mostInMemory = 2;

export class SleepFiles {
  readonly #place: SleepPlace;
  readonly #cache: PrefixCache;
  readonly #chats: Chats;
  readonly #identify: () => Promise<Fingerprint>;
  readonly #log: EngineHooks['log'];
  readonly #read: () => void;
  #opened: Promise<void> | undefined;
  #reading: Promise<void> | undefined;
  /** A step ran since the last writing. */
  #hasNews = false;
  #workedMs = 0;
  /** Stashes whose file was read into memory for a waiting prompt. */
  readonly #inMemory = new Set<Stashed>();

  /** Calls `read` when the bytes of a stash have been read, or turned out to be unusable. */
  constructor(place: SleepPlace, cache: PrefixCache, chats: Chats, identify: () => Promise<Fingerprint>, log: EngineHooks['log'], read: () => void) {
    this.#place = place;
    this.#cache = cache;
    this.#chats = chats;
    this.#identify = identify;
    this.#log = log;
    this.#read = read;
  }

  /**
   * Finds files written before, once. A prompt that is tokenized earlier does not know their chats.
   * Never rejects: an unreadable conversation is evaluated again.
   */
  open(contextSize: number): Promise<void> {
    return (this.#opened ??= this.#open(contextSize));
  }

  async #open(contextSize: number): Promise<void> {
    const found: (Stashed & { usedMs: number })[] = [];
    let foreign = 0;
    const lost: [file: string, why: string][] = [];
    const unread: string[] = [];
    try {
      const entries = await readdir(this.#place.folder, { withFileTypes: true });
      const names = entries.filter((entry) => entry.isFile() && entry.name.endsWith(stateEnding)).map(({ name }) => name);
      const fingerprint = names.length > 0 ? await this.#identify() : '';
      for (const name of names) {
        const file = join(this.#place.folder, name);
        try {
          const read = await readTokens(file, fingerprint, contextSize);
          if ('why' in read) {
            // In a folder that lasts, it may belong to another server; the limit removes it if not.
            if (!read.foreign || this.#place.lasts !== true) lost.push([file, read.why]);
            else foreign++;
            continue;
          }
          if (read.chat) this.#chats.remember(read.tokens);
          found.push({ id: 0, tokens: read.tokens, sizeBytes: read.stateBytes, file, usedMs: (await stat(file)).mtimeMs });
        } catch (thrown) {
          unread.push((thrown as Error).message);
        }
      }
      await this.#lost(lost);
      if (unread.length > 0) this.#log('warn', `${which(unread.length)} cannot be read now: ${unread[0]!}`);
      if (foreign > 0) this.#log('info', `${foreign} kept conversations are of other settings or versions; they stay until their room is needed.`);
    } catch (thrown) {
      this.#log('warn', `Kept conversations were not found: ${(thrown as Error).message}`);
    }
    this.#cache.pool.addFiles(found.sort((a, b) => a.usedMs - b.usedMs).map(({ usedMs: _, ...stashed }) => stashed));
  }

  /** A step ran: there may be more to write. */
  worked(): void {
    this.#hasNews = true;
    this.#workedMs = performance.now();
  }

  /** The folder lasts, and there are conversations that it does not have yet. */
  get isBehind(): boolean {
    return this.#place.lasts === true && this.#hasNews;
  }

  /** Writes the conversations once no step has run for a while. */
  async rest(context: NativeContext, wakeup: Wakeup, vitals: Vitals, isBusy: () => boolean): Promise<void> {
    const dueMs = this.#workedMs + writeAfterMs;
    await wakeup.sleep(Math.max(0, dueMs - performance.now()));
    // Something else may have woken it.
    if (!isBusy() && performance.now() >= dueMs) await vitals.unhurried(this.write(context, undefined, isBusy));
  }

  /** A file is being read for a waiting prompt. */
  get reading(): boolean {
    return this.#reading !== undefined;
  }

  /**
   * Between two steps: starts to read the file that the first prompt waits for, one at a time.
   */
  fetch(context: NativeContext): void {
    if (this.#reading) return;
    const { wanted, entries } = this.#cache.pool;
    const first = [...wanted].find((one) => one.id === 0 && entries.includes(one));
    if (!first) return;
    this.#reading = this.#fetch(context, first).finally(() => {
      this.#reading = undefined;
      this.#read();
    });
  }

  /** No prompt waits any more: frees the memory of files that were read for one. */
  async settle(context: NativeContext): Promise<void> {
    for (const stashed of this.#inMemory) await this.#leave(context, stashed);
  }

  async #leave(context: NativeContext, stashed: Stashed): Promise<void> {
    this.#inMemory.delete(stashed);
    const { id } = stashed;
    if (id > 0 && this.#cache.pool.leaveToFile(id)) await context.dropStash(id);
  }

  async #fetch(context: NativeContext, stashed: Stashed): Promise<void> {
    const { pool } = this.#cache;
    const file = stashed.file!;
    const startMs = performance.now();
    // What nobody has taken by now was read for a request that has left, or waits for longer.
    for (const held of this.#inMemory) if (this.#inMemory.size >= mostInMemory) await this.#leave(context, held).catch(() => undefined);
    let id = 0;
    let isShort = false;
    try {
      const read = await readState(file, await this.#identify(), ({ stateBytes }) => {
        id = context.createStash(stateBytes);
        isShort = id === 0;
        return isShort ? `there is no memory for the ${stateBytes} bytes of ${file}` : (offset, from) => context.writeStash(id, offset, from);
      });
      // Another program may have put another file in its place since the engine started.
      const isSame = typeof read !== 'string' && sameTokens(read.tokens, stashed.tokens);
      if (isSame && pool.entries.includes(stashed)) {
        stashed.id = id;
        this.#inMemory.add(stashed);
        return this.#tell('read back', 1, stashed.tokens.length, read.sizeBytes, startMs);
      }
      // Without memory the file stays, for the model's next process.
      if (isShort) this.#log('warn', `A kept conversation must be evaluated again: ${read as string}`);
      else if (!isSame) await this.#lost([[file, typeof read === 'string' ? read : `${file} holds another conversation now`]]);
    } catch (thrown) {
      const gone = ((thrown as Error).cause as NodeJS.ErrnoException | undefined)?.code === 'ENOENT';
      // ENOENT: newer conversations of other models took its room. Otherwise the file may be read
      // by the model's next process.
      if (!gone) this.#log('warn', `A kept conversation must be evaluated again: ${(thrown as Error).message}`);
    }
    pool.remove(stashed);
    const unused = [id, ...(stashed.checkpoints ?? []).map((checkpoint) => checkpoint.id)];
    for (const one of unused) if (one > 0) await context.dropStash(one).catch(() => false);
  }

  /** Removes unusable files. In one warning: after an update of llama.cpp it may be all of them. */
  async #lost(files: readonly [file: string, why: string][]): Promise<void> {
    if (files.length === 0) return;
    this.#log('warn', `${which(files.length)} must be evaluated again: ${files[0]![1]}`);
    await Promise.all(files.map(([file]) => rm(file, { force: true }).catch(() => {})));
  }

  /**
   * Writes conversations that no file has, the most recently used first, until the size limit or
   * the time limit is reached, or `isBusy` says so. `costs` tell how long evaluating them again
   * would take. Call it only while nothing else uses the context. Never rejects.
   */
  async write(context: NativeContext, costs: StepCosts | undefined, isBusy = (): boolean => false): Promise<void> {
    const { limitBytes, mostMs, root, folder } = this.#place;
    await this.#reading;
    await this.#forgetGone(context);
    const startMs = performance.now();
    const usedMs = Date.now();
    const candidates = this.#candidates();
    // Before this call adds files to the pool: a conversation begins with itself.
    const earlier = this.#cache.pool.entries.filter(({ file }) => file !== undefined);
    const rereadMs = (known: StepCosts): number =>
      candidates.reduce((sum, { tokens, stash }) => (stash?.file === undefined ? sum + known.readMs(tokens.length) : sum), 0);
    // Beyond the time to evaluate everything again, writing costs more than it saves.
    const untilMs = startMs + Math.min(mostMs, Math.max(leastMs, costs?.known ? rereadMs(costs) : mostMs));
    const inTime = (): void => {
      if (isBusy()) throw interrupted;
      if (performance.now() > untilMs) throw new Error(`writing took longer than ${Math.round(untilMs - startMs)} ms`);
    };
    const written: Int32Array[] = [];
    const fresh: Stashed[] = [];
    let bytes = 0;
    try {
      for (const [rank, { tokens, slot, stash }] of candidates.entries()) {
        // File times show the order of use.
        const used = new Date(usedMs - rank);
        if (stash?.file !== undefined) {
          if (stash.used) await setUsed(stash.file, used).catch(() => {});
          continue;
        }
        inTime();
        const { id, sizeBytes } = stash ?? await context.stashSequence(slot);
        try {
          if (id === 0 || !(await makeRoom(root, sizeBytes + tokens.length * 4 + headBytes, limitBytes, used.getTime()))) continue;
          const read = (offset: number, into: Uint8Array): void => {
            inTime();
            context.readStash(id, offset, into);
          };
          const file = join(folder, `${randomUUID()}${stateEnding}`);
          bytes += await writeState(
            file,
            await this.#identify(),
            tokens,
            { sizeBytes, chat: this.#chats.remembers(tokens), read },
            undefined,
            false,
          );
          await setUsed(file, used);
          written.push(tokens);
          if (!this.#place.lasts) continue;
          if (!stash) fresh.push({ id: 0, tokens, sizeBytes, file });
          else {
            stash.file = file;
            if (this.#cache.pool.leaveToFile(id)) await context.dropStash(id);
          }
        } finally {
          if (!stash && id > 0) await context.dropStash(id);
        }
      }
      this.#hasNews = false;
    } catch (thrown) {
      if (thrown !== interrupted) {
        this.#hasNews = false; // it would probably fail again, and again
        this.#log('warn', `Conversations could not be kept: ${(thrown as Error).message}`);
      }
    }
    const old = earlier.filter(({ tokens }) => written.some((longer) => nearlyBegins(tokens, longer)));
    for (const one of old) this.#cache.pool.remove(one);
    await discard(context, old);
    this.#cache.pool.addFiles(fresh.reverse());
    if (written.length > 0) this.#tell('kept', written.length, written.reduce((sum, { length }) => sum + length, 0), bytes, startMs);
  }

  /** Forgets conversations whose files are gone, e.g. because newer ones took their room. */
  async #forgetGone(context: NativeContext): Promise<void> {
    const names = await readdir(this.#place.folder).catch(() => undefined);
    if (!names) return;
    const there = new Set(names);
    const gone = this.#cache.pool.entries.filter(({ file }) => file !== undefined && !there.has(basename(file)));
    this.#cache.pool.removeAll(gone);
    await discard(context, gone);
  }

  /**
   * Conversations that have a file, and those worth one, most recently used first: no prefixes of
   * others, no duplicates. Files may be thousands: they are not compared with each other.
   */
  #candidates(): Candidate[] {
    const slots = this.#cache.freeByUse().map((slot) => ({ tokens: this.#cache.tokensOf(slot), slot, stash: undefined }));
    const stashes = this.#cache.pool.entries.map((stash) => ({ tokens: stash.tokens, slot: -1, stash })).reverse();
    const all: Candidate[] = [...slots, ...stashes].filter(({ tokens }) => tokens.length >= leastTokens);
    const covers = (other: Candidate, one: Candidate): boolean => {
      if (other === one || !nearlyBegins(one.tokens, other.tokens)) return false;
      if (!nearlyBegins(other.tokens, one.tokens)) return true;
      // Of two equal ones, keep the one that has a file; else the more recently used.
      const isSame =
        one.tokens.length === other.tokens.length && commonPrefix(one.tokens, other.tokens, one.tokens.length) === one.tokens.length;
      const [has, hasOther] = [one, other].map(({ stash }) => stash?.file !== undefined);
      return isSame && has !== hasOther ? hasOther! : all.indexOf(other) < all.indexOf(one);
    };
    return all.filter((one) => one.stash?.file !== undefined || !all.some((other) => covers(other, one)));
  }

  #tell(what: string, count: number, tokens: number, bytes: number, startMs: number): void {
    const ms = (performance.now() - startMs).toFixed(1);
    this.#log('debug', `conversations ${what}: ${count}, ${tokens} tokens, ${(bytes / mebibyte).toFixed(1)} MiB in ${ms} ms`);
  }
}

/** By an open file: the sandbox allows no change of a file by its path alone. */
async function setUsed(path: string, used: Date): Promise<void> {
  const file = await open(path, 'r+');
  await file.utimes(used, used).finally(() => file.close());
}
