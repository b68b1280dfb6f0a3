// The requests that the loop has not answered yet, by id.
import type { Generation } from './generation.js';

/** A request is undefined while it is being prepared. */
export class ActiveRequests extends Map<number, Generation | undefined> {
  readonly #ends = new Map<number, (() => void)[]>();

  /** Calls `end` once the request is answered; it may be called when nothing is left to end. */
  whenEnded(id: number, end: () => void): void {
    this.#ends.set(id, [...this.#ends.get(id) ?? [], end]);
  }

  override delete(id: number): boolean {
    const ends = this.#ends.get(id) ?? [];
    const had = super.delete(id);
    this.#ends.delete(id);
    for (const end of ends) end();
    return had;
  }
}
