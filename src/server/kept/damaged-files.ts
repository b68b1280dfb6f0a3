// Warns of stored files that are damaged, once for each, since stores read them again and again.
export class DamagedFiles {
  readonly #what: string;
  readonly #warn: (text: string) => void;
  readonly #told = new Set<string>();

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
    const isDamaged = isDamage(thrown);
    if ((thrown as NodeJS.ErrnoException).code === 'ENOENT' || (isDamaged && this.#told.has(path))) return;
    if (isDamaged) this.#told.add(path);
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
