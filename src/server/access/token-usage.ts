// Counts the tokens that each API key has used today (UTC). The count is in memory; every few
// seconds it is added to a small private file, so it survives the server. Servers that share the
// folder share the count.
import { dirname } from 'node:path';
import writeFileAtomic from 'write-file-atomic';
import { RecuaError } from '../../errors.js';
import { createFolder } from '../../system/create-folder.js';
import { waitForLock } from '../../system/lock-file.js';
import { readSmallFile } from '../../system/small-file.js';

export const dayMs = 86_400_000;
const flushMs = 5_000;
const mostBytes = 2 ** 22;

export class TokenUsage {
  readonly #path: () => Promise<string>;
  readonly #tell: (text: string) => void;
  readonly #nowMs: () => number;
  #day = '';
  /** The last known contents of the file. */
  #stored = new Map<string, number>();
  /** Tokens not yet added to the file. */
  #fresh = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;
  #flushing: Promise<void> = Promise.resolve();
  #isTold = false;
  #opened: Promise<void> | undefined;

  /** `tell` is called when the file cannot be written, once until a write succeeds. */
  constructor(path: () => Promise<string>, tell: (text: string) => void, nowMs: () => number = Date.now) {
    this.#path = path;
    this.#tell = tell;
    this.#nowMs = nowMs;
  }

  /** Resolves when the counts of earlier servers are loaded. */
  ready(): Promise<void> {
    return (this.#opened ??= this.flush());
  }

  /** Resolves when all counts are in the file. */
  async close(): Promise<void> {
    if (this.#fresh.size > 0) await this.flush();
    await this.#flushing;
  }

  usedBy(name: string): number {
    this.#turn();
    return (this.#stored.get(name) ?? 0) + (this.#fresh.get(name) ?? 0);
  }

  add(name: string, tokens: number): void {
    if (tokens <= 0) return;
    this.#turn();
    this.#fresh.set(name, (this.#fresh.get(name) ?? 0) + tokens);
    this.#timer ??= setTimeout(() => void this.flush(), flushMs).unref();
  }

  /** Seconds until the count resets. */
  get leftSeconds(): number {
    return Math.ceil((dayMs - this.#nowMs() % dayMs) / 1_000);
  }

  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    await (this.#flushing = this.#flushing.then(() => this.#merge()));
  }

  async #merge(): Promise<void> {
    this.#turn();
    const day = this.#day;
    const fresh = this.#fresh;
    this.#fresh = new Map();
    // Tokens that are being written still count meanwhile.
    for (const [name, tokens] of fresh) this.#stored.set(name, (this.#stored.get(name) ?? 0) + tokens);
    try {
      const path = await this.#path();
      await createFolder(dirname(path), 0o700);
      const lock = await waitForLock(`${path}.lock`, AbortSignal.timeout(flushMs));
      try {
        const all = await read(path, day);
        for (const [name, tokens] of fresh) all.set(name, (all.get(name) ?? 0) + tokens);
        if (fresh.size > 0) await writeFileAtomic(path, `${JSON.stringify({ day, tokens: Object.fromEntries(all) })}\n`, { mode: 0o600 });
        if (this.#day === day) this.#stored = all;
      } finally {
        await lock.release();
      }
      this.#isTold = false;
    } catch (cause) {
      if (this.#day === day) {
        for (const [name, tokens] of fresh) {
          this.#stored.set(name, (this.#stored.get(name) ?? 0) - tokens);
          this.add(name, tokens);
        }
      }
      if (!this.#isTold) this.#tell(`Token counts of API keys are kept in memory only: ${RecuaError.logText(cause)}`);
      this.#isTold = true;
    }
  }

  /** Resets the count when a new day begins. */
  #turn(): void {
    const day = new Date(this.#nowMs()).toISOString().slice(0, 10);
    if (day === this.#day) return;
    this.#day = day;
    this.#stored = new Map();
    this.#fresh = new Map();
  }
}

/** A missing or damaged file counts as empty, and the next write replaces it. */
async function read(path: string, day: string): Promise<Map<string, number>> {
  let value: unknown;
  try {
    value = JSON.parse(await readSmallFile(path, mostBytes));
  } catch (cause) {
    if (cause instanceof SyntaxError || (cause as NodeJS.ErrnoException).code === 'ENOENT') return new Map();
    throw cause;
  }
  const { day: of, tokens } = (value ?? {}) as { day?: unknown; tokens?: unknown };
  if (of !== day || typeof tokens !== 'object' || tokens === null) return new Map();
  return new Map(
    Object.entries(tokens).filter((entry): entry is [string, number] => Number.isSafeInteger(entry[1]) && (entry[1] as number) >= 0),
  );
}
