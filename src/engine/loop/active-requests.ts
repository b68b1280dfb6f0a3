// The requests that the loop has not answered yet, by id.
import type { Generation } from './generation.js';

/** A request is undefined while it is being prepared. */
export class ActiveRequests extends Map<number, Generation | undefined> {
  readonly #ends = new Map<number, () => void>();

  /** Calls `end` once the request is answered. */
  whenEnded(id: number, end: () => void): void {
    this.#ends.set(id, end);
  }

  override delete(id: number): boolean {
    const end = this.#ends.get(id);
    this.#ends.delete(id);
    end?.();
    return super.delete(id);
  }
}
