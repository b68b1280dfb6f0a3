// Files of JSON lines. Reading handles an incomplete last line. Writing is atomic per line, even if
// the process is killed.
import { open, type FileHandle } from 'node:fs/promises';
import { setImmediate } from 'node:timers/promises';
import { openRegular } from '../../system/small-file.js';
import type { GrowingRoom } from '../files/growing-room.js';

const pieceBytes = 1 << 20;
const lineFeed = 0x0a;
/** A piece may have a million lines: the other work of the process gets its turn in between. */
const linesPerTurn = 1_000;

export interface Line {
  offset: number;
  /** Without its line feed; truncated if the line is too long. */
  bytes: Buffer;
  length: number;
  /** It ends with a line feed, not with the end of the file. */
  isWhole: boolean;
}

/** Yields each line; of lines longer than `mostBytes` only the beginning. */
export async function* linesOf(path: string, mostBytes: number): AsyncGenerator<Line> {
  const file = await openRegular(path);
  try {
    let offset = 0;
    let length = 0;
    let pieces: Buffer[] = [];
    let held = 0;
    let count = 0;
    const take = (part: Buffer): void => {
      length += part.length;
      if (held >= mostBytes) return;
      // A copy, since the buffer is reused.
      pieces.push(Buffer.from(part.subarray(0, mostBytes - held)));
      held += pieces.at(-1)!.length;
    };
    const line = (isWhole: boolean): Line => {
      const one = { offset, bytes: Buffer.concat(pieces), length, isWhole };
      offset += length + 1;
      [length, held, pieces] = [0, 0, []];
      return one;
    };
    const piece = Buffer.alloc(pieceBytes);
    for (;;) {
      const { bytesRead } = await file.read(piece, 0, pieceBytes);
      if (bytesRead === 0) break;
      let from = 0;
      for (let at = piece.indexOf(lineFeed); at >= 0 && at < bytesRead; at = piece.indexOf(lineFeed, from)) {
        take(piece.subarray(from, at));
        from = at + 1;
        yield line(true);
        if (++count % linesPerTurn === 0) await setImmediate();
      }
      take(piece.subarray(from, bytesRead));
    }
    if (length > 0) yield line(false);
  } finally {
    await file.close();
  }
}

/** Appends lines to a file that only this process writes. */
export class LineFile {
  readonly #file: FileHandle;
  readonly #room: GrowingRoom;
  #size: number;
  #last: Promise<void> = Promise.resolve();

  private constructor(file: FileHandle, size: number, room: GrowingRoom) {
    this.#file = file;
    this.#size = size;
    this.#room = room;
  }

  /** `size`: end of the last complete line; anything after it is removed. */
  static async open(path: string, size: number, room: GrowingRoom): Promise<LineFile> {
    const file = await open(path, 'a', 0o600);
    await file.truncate(size);
    return new LineFile(file, size, room);
  }

  get size(): number {
    return this.#size;
  }

  /**
   * `line`: in parts, without its line feed.
   * @throws StoreFull if there is no room for the line
   */
  async add(...line: (string | Buffer)[]): Promise<void> {
    const bytes = Buffer.concat([...line, '\n'].map((part) => (typeof part === 'string' ? Buffer.from(part) : part)));
    const added = this.#last.then(async () => {
      await this.#room.take(bytes.length);
      try {
        await this.#file.appendFile(bytes);
        this.#size += bytes.length;
      } catch (cause) {
        await this.#file.truncate(this.#size).catch(() => undefined);
        throw cause;
      }
    });
    this.#last = added.catch(() => undefined);
    await added;
  }

  async close(): Promise<void> {
    await this.#last;
    await this.#file.close();
  }
}
