// Messages of earlier chats, for the arrow keys: a private file with one JSON string per line. The
// oldest are dropped.
import { appendFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import writeFileAtomic from 'write-file-atomic';
import { createFolder } from '../../../system/create-folder.js';
import { readLinkedFile } from '../../../system/small-file.js';

const most = 1000;
/** Letters of all of them together: long ones make room sooner. */
const mostLetters = 4 * 2 ** 20;
/** Of a file that one long chat, or an older version, let grow. */
const mostBytes = 2 ** 28;
/** Longer messages are not kept on disk, only in memory while the chat runs. */
const longest = 64 * 1024;

export class History {
  readonly #path: string | undefined;
  readonly #entries: string[];

  private constructor(path: string | undefined, entries: string[]) {
    this.#path = path;
    this.#entries = entries;
  }

  /** Without a folder, nothing is read or written. An unreadable file counts as empty. */
  static async open(stateFolder: string | undefined): Promise<History> {
    if (stateFolder === undefined) return new History(undefined, []);
    const path = join(stateFolder, 'chat-history.jsonl');
    const text = await readLinkedFile(path, mostBytes).catch(() => '');
    const entries = text.split('\n').flatMap(readEntry);
    const kept = newest(entries);
    if (entries.length > most * 2 || text.length > mostLetters * 2) await writeFileAtomic(path, kept.map(asLine).join(''), { mode: 0o600 }).catch(() => undefined);
    return new History(path, kept);
  }

  /** The oldest first. */
  get entries(): readonly string[] {
    return this.#entries;
  }

  async add(text: string): Promise<void> {
    if (text.trim() === '' || text === this.#entries.at(-1)) return;
    this.#entries.push(text);
    if (this.#path === undefined || text.length > longest) return;
    try {
      await createFolder(dirname(this.#path), 0o700);
      await appendFile(this.#path, asLine(text), { mode: 0o600 });
    } catch {
      // Read-only or full disk: the history of this run is still in memory.
    }
  }
}

function newest(entries: readonly string[]): string[] {
  let first = entries.length;
  for (let letters = 0; first > Math.max(0, entries.length - most); first--) {
    letters += entries[first - 1]!.length;
    if (letters > mostLetters) break;
  }
  return entries.slice(first);
}

function asLine(text: string): string {
  return `${JSON.stringify(text)}\n`;
}

function readEntry(line: string): string[] {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'string' ? [value] : [];
  } catch {
    return [];
  }
}
