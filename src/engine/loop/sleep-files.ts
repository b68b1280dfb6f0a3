// Conversations of a model that was unloaded, in files: written when the engine process is told to
// sleep, found again by the next one of the same model. A file is one more place where a stash can
// be: its tokens are known when the engine starts, its bytes are read when a prompt goes on from
// them, while steps run. Used by engine-loop; what places prompts is planning/prefix.
import { randomUUID } from 'node:crypto';
import { readdir, rm, stat, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import type { NativeContext, NativeModel } from '../../addon/addon.js';
import type { EngineHooks } from './outbox.js';
import type { PrefixCache } from '../planning/prefix.js';
import type { StepCosts } from '../planning/step-costs.js';
import { commonPrefix, nearlyBegins, type Stashed } from '../planning/stash-pool.js';
import type { SleepPlace } from '../protocol.js';
import { makeRoom, stateEnding } from '../sleep/room.js';
import type { Vitals } from './vitals.js';
import type { Wakeup } from './wakeup.js';
import { readState, readTokens, writeState, type Fingerprint } from './saved-state.js';

/** Fewer tokens are sooner evaluated than found. */
const leastTokens = 16;
/** Time for writing where evaluating all again would take less. */
const leastMs = 1_000;
/** What a file holds beside tokens and state, about. */
const headBytes = 300;
const mebibyte = 2 ** 20;

/** So long after the last work conversations are written that outlive the process. */
const writeAfterMs = 3_000;

const interrupted = new Error('A request came.');

/** What is known of chats beside their KV. */
type Chats = Pick<NativeModel, 'remember' | 'remembers'>;

/** A conversation that may be written. */
interface Candidate {
  tokens: Int32Array;
  /** Where its bytes are: in a slot, or in a stash. */
  slot: number;
  stash: Stashed | undefined;
}

/** Forgets the bytes of stashes that the pool gave up. */
export async function discard(context: NativeContext, gone: readonly Stashed[]): Promise<void> {
  for (const { id, file, checkpoints = [] } of gone) {
    for (const checkpoint of checkpoints) await context.dropStash(checkpoint.id);
    if (id > 0) await context.dropStash(id);
    if (file !== undefined) await rm(file, { force: true }).catch(() => {});
  }
}

export class SleepFiles {
  readonly #place: SleepPlace;
  readonly #cache: PrefixCache;
  readonly #chats: Chats;
  readonly #identify: () => Promise<Fingerprint>;
  readonly #log: EngineHooks['log'];
  readonly #read: () => void;
  #reading: Promise<void> | undefined;
  /** A step ran since the last writing. */
  #hasNews = false;
  /** Bytes that are in memory as well, for a prompt that waits. */
  readonly #inMemory = new Set<Stashed>();

  /** `read` is called whenever the bytes of a stash are there, or turned out not to serve. */
  constructor(place: SleepPlace, cache: PrefixCache, chats: Chats, identify: () => Promise<Fingerprint>, log: EngineHooks['log'], read: () => void) {
    this.#place = place;
    this.#cache = cache;
    this.#chats = chats;
    this.#identify = identify;
    this.#log = log;
    this.#read = read;
  }

  /** Finds what was written before. Never rejects: what cannot be read is evaluated again. */
  async open(contextSize: number): Promise<void> {
    const found: (Stashed & { usedMs: number })[] = [];
    try {
      const names = (await readdir(this.#place.folder)).filter((name) => name.endsWith(stateEnding));
      for (const name of names) {
        const file = join(this.#place.folder, name);
        const read = await readTokens(file, await this.#identify()).catch((thrown: unknown) => (thrown as Error).message);
        const why = typeof read === 'string' ? read : read.tokens.length > contextSize ? `${file} is longer than the context` : undefined;
        if (typeof read === 'string' || why !== undefined) await this.#lost(file, why!);
        else {
          if (read.chat) this.#chats.remember(read.tokens);
          found.push({ id: 0, tokens: read.tokens, sizeBytes: read.stateBytes, file, usedMs: (await stat(file)).mtimeMs });
        }
      }
    } catch (thrown) {
      this.#log('warn', `Conversations that were kept are not found again: ${(thrown as Error).message}`);
    }
    this.#cache.pool.addFiles(found.sort((a, b) => a.usedMs - b.usedMs).map(({ usedMs: _, ...stashed }) => stashed));
  }

  /** A step ran: there may be more to write. */
  worked(): void {
    this.#hasNews = true;
  }

  /** What there is would be lost if the process died now, and need not be. */
  get isBehind(): boolean {
    return this.#place.lasts === true && this.#hasNews;
  }

  /** Where nothing comes for a while what outlives the process is written. */
  async rest(context: NativeContext, wakeup: Wakeup, vitals: Vitals, isBusy: () => boolean): Promise<void> {
    await wakeup.sleep(writeAfterMs);
    if (!isBusy()) await vitals.unhurried(this.write(context, undefined, isBusy));
  }

  /** A prompt waits for a file that is being read. */
  get reading(): boolean {
    return this.#reading !== undefined;
  }

  /** Between two steps: begins to read what a prompt waits for, one after the other. */
  fetch(context: NativeContext): void {
    if (this.#reading) return;
    const wanted = this.#cache.pool.entries.find(({ wanted: is, id }) => is && id === 0);
    if (!wanted) return;
    this.#reading = this.#fetch(context, wanted).finally(() => {
      this.#reading = undefined;
      this.#read();
    });
  }

  /** Nobody waits any more: memory forgets what was read for who did. */
  async settle(context: NativeContext): Promise<void> {
    for (const stashed of this.#inMemory) {
      this.#inMemory.delete(stashed);
      const { id } = stashed;
      if (id > 0 && this.#cache.pool.leaveToFile(id)) await context.dropStash(id);
    }
  }

  async #fetch(context: NativeContext, stashed: Stashed): Promise<void> {
    const { pool } = this.#cache;
    const file = stashed.file!;
    const startMs = performance.now();
    let id = 0;
    try {
      const read = await readState(file, await this.#identify(), ({ stateBytes }) => {
        id = context.createStash(stateBytes);
        return id === 0 ? `there is no memory for the ${stateBytes} bytes of ${file}` : (offset, from) => context.writeStash(id, offset, from);
      });
      if (typeof read !== 'string' && pool.entries.includes(stashed)) {
        stashed.id = id;
        stashed.wanted = false;
        this.#inMemory.add(stashed);
        return this.#tell('read back', 1, stashed.tokens.length, read.sizeBytes, startMs);
      }
      if (typeof read === 'string') await this.#lost(file, read);
    } catch (thrown) {
      const gone = ((thrown as Error).cause as NodeJS.ErrnoException | undefined)?.code === 'ENOENT';
      // Newer conversations of other models took its room.
      if (!gone) await this.#lost(file, (thrown as Error).message);
    }
    pool.remove(stashed);
    if (id > 0) await context.dropStash(id).catch(() => false);
  }

  async #lost(file: string, why: string): Promise<void> {
    this.#log('warn', `A conversation that was kept is evaluated again: ${why}`);
    await rm(file, { force: true }).catch(() => {});
  }

  /**
   * Writes what no file has, the conversation used last first, until the limit or the time is
   * reached, or there is something better to do. `costs` tell what reading again would take.
   * Only while nothing else uses the context. Never rejects.
   */
  async write(context: NativeContext, costs: StepCosts | undefined, isBusy = (): boolean => false): Promise<void> {
    const { limitBytes, mostMs, root, folder } = this.#place;
    await this.#reading;
    const startMs = performance.now();
    const usedMs = Date.now();
    const candidates = this.#candidates();
    const rereadMs = (known: StepCosts): number => candidates.reduce((sum, { tokens, stash }) => (stash?.file === undefined ? sum + known.readMs(tokens.length) : sum), 0);
    // Longer than evaluating it all again, and writing costs more than it saves.
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
        // In the order of use, also for who looks at the files alone.
        const used = new Date(usedMs - rank);
        if (stash?.file !== undefined) {
          if (stash.used) await utimes(stash.file, used, used).catch(() => {});
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
          bytes += await writeState(file, await this.#identify(), tokens, { sizeBytes, chat: this.#chats.remembers(tokens), read }, undefined, false);
          await utimes(file, used, used);
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
      if (thrown !== interrupted) this.#log('warn', `Conversations that are not kept: ${(thrown as Error).message}`);
    }
    const old = this.#cache.pool.entries.filter(({ file, tokens }) => file !== undefined && written.some((longer) => nearlyBegins(tokens, longer)));
    for (const one of old) this.#cache.pool.remove(one);
    await discard(context, old);
    this.#cache.pool.addFiles(fresh.reverse());
    if (written.length > 0) this.#tell('kept', written.length, written.reduce((sum, { length }) => sum + length, 0), bytes, startMs);
  }

  /** What is worth a file, the one used last first: no beginnings of others, and nothing twice. */
  #candidates(): Candidate[] {
    const slots = this.#cache.freeByUse().map((slot) => ({ tokens: this.#cache.tokensOf(slot), slot, stash: undefined }));
    const stashes = this.#cache.pool.entries.map((stash) => ({ tokens: stash.tokens, slot: -1, stash })).reverse();
    const all: Candidate[] = [...slots, ...stashes].filter(({ tokens }) => tokens.length >= leastTokens);
    const covers = (other: Candidate, one: Candidate): boolean => {
      if (other === one || !nearlyBegins(one.tokens, other.tokens)) return false;
      if (!nearlyBegins(other.tokens, one.tokens)) return true;
      // Of two that are the same the one that need not be written, else the one used last.
      const isSame = one.tokens.length === other.tokens.length && commonPrefix(one.tokens, other.tokens, one.tokens.length) === one.tokens.length;
      const [has, hasOther] = [one, other].map(({ stash }) => stash?.file !== undefined);
      return isSame && has !== hasOther ? hasOther! : all.indexOf(other) < all.indexOf(one);
    };
    return all.filter((one) => !all.some((other) => covers(other, one)));
  }

  #tell(what: string, count: number, tokens: number, bytes: number, startMs: number): void {
    const ms = (performance.now() - startMs).toFixed(1);
    this.#log('debug', `${count} of the conversations ${what}: ${tokens} tokens, ${(bytes / mebibyte).toFixed(1)} MiB in ${ms} ms`);
  }
}
