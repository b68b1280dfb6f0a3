// Warns of stored files that cannot be read: of each one once, since stores read them again and
// again, and every hour if it is not the file's fault.
const againMs = 3_600_000;

export class DamagedFiles {
  readonly #what: string;
  readonly #warn: (text: string) => void;
  /** When a path was told of; Infinity if it is damaged. */
  readonly #told = new Map<string, number>();

  /** @param what what such a file describes: "batch" */
  constructor(what: string, warn: (text: string) => void) {
    this.#what = what;
    this.#warn = warn;
  }

  /**
   * The file is left out. One that was deleted meanwhile is not damaged, nor is one that cannot be
   * read now.
   */
  skip(path: string, thrown: unknown): void {
    if ((thrown as NodeJS.ErrnoException).code === 'ENOENT') return;
    const isDamaged = isDamage(thrown);
    const toldMs = this.#told.get(path) ?? -Infinity;
    const nowMs = performance.now();
    if (toldMs === Infinity || (!isDamaged && nowMs - toldMs < againMs)) return;
    this.#told.set(path, isDamaged ? Infinity : nowMs);
    this.#warn(`A ${this.#what} is left out, because its record ${path} ${isDamaged ? 'is damaged' : 'cannot be read now'}: ${(thrown as Error).message}`);
  }
}

/**
 * Whether the file itself is at fault, or gone; a link in its place is none of ours. Other errors
 * of the system say nothing about it, such as too many open files: it may be read later.
 */
export function isDamage(thrown: unknown): boolean {
  const { code, errno } = thrown as NodeJS.ErrnoException;
  return errno === undefined || code === 'ENOENT' || code === 'ELOOP';
}
