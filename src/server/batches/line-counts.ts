// How many requests of a batch are done that does not run here: its results may have gigabytes, and
// clients ask every second. Used by dialect.
import { NotRegular, openRegular } from '../../system/small-file.js';
import type { FileStore } from '../files/file-store.js';
import type { BatchRecord } from './batch-store.js';

const pieceBytes = 1 << 20;
const lineFeed = 0x0a;
/** Of the results of so many files it is remembered how far they were counted. */
const mostKnown = 1_000;

interface Counted {
  /** Whole lines, and where the last of them ends. */
  lines: number;
  end: number;
}

export class LineCounts {
  readonly #known = new Map<string, Counted>();
  readonly #counting = new Map<string, Promise<number>>();

  /** Counts the lines that another server, or an earlier run, has written so far. */
  async countDone({ batch, outputId, errorId }: BatchRecord, files: Pick<FileStore, 'pathOf'>): Promise<void> {
    const [completed, failed] = [await this.of(await files.pathOf(outputId)), await this.of(await files.pathOf(errorId))];
    batch.request_counts = { ...batch.request_counts, completed, failed };
  }

  /** Whole lines of a file that only grows. Reads what was added since the last time. */
  of(path: string): Promise<number> {
    const counting = this.#counting.get(path) ?? this.#count(path).finally(() => this.#counting.delete(path));
    this.#counting.set(path, counting);
    return counting;
  }

  async #count(path: string): Promise<number> {
    const file = await openRegular(path).catch((cause: NodeJS.ErrnoException) => {
      if (cause instanceof NotRegular || cause.code === 'ENOENT') return undefined;
      throw cause;
    });
    if (!file) return 0;
    try {
      const { size } = await file.stat();
      const before = this.#known.get(path);
      // Only the rest after the last whole line is ever cut off.
      const counted = before && before.end <= size ? before : { lines: 0, end: 0 };
      const piece = Buffer.alloc(Math.min(pieceBytes, Math.max(1, size - counted.end)));
      for (let at = counted.end; ;) {
        const { bytesRead } = await file.read(piece, 0, piece.length, at);
        if (bytesRead === 0) break;
        for (let found = piece.indexOf(lineFeed); found >= 0 && found < bytesRead; found = piece.indexOf(lineFeed, found + 1)) {
          counted.lines++;
          counted.end = at + found + 1;
        }
        at += bytesRead;
      }
      this.#remember(path, counted);
      return counted.lines;
    } finally {
      await file.close();
    }
  }

  #remember(path: string, counted: Counted): void {
    this.#known.delete(path);
    this.#known.set(path, counted);
    for (const oldest of this.#known.keys()) {
      if (this.#known.size <= mostKnown) break;
      this.#known.delete(oldest);
    }
  }
}
