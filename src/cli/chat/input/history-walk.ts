// Walks through the history of messages: with the arrow keys, or with a text search (Ctrl-R). The
// current draft is the newest entry. Pure; one per message read by line-input.ts.
import type { KeyMeaning } from './keys.js';

export class HistoryWalk {
  readonly #entries: readonly string[];
  #at: number;
  #draft = '';
  /** The search text; undefined outside a search. */
  query: string | undefined;

  constructor(entries: readonly string[]) {
    this.#entries = entries;
    this.#at = entries.length;
  }

  /** The text one step away; undefined at either end. */
  step(way: 'older' | 'newer', draft: string): string | undefined {
    const next = this.#at + (way === 'older' ? -1 : 1);
    if (next < 0 || next > this.#entries.length) return undefined;
    if (this.#at === this.#entries.length) this.#draft = draft;
    this.#at = next;
    return this.#entries[next] ?? this.#draft;
  }

  endSearch(): void {
    this.query = undefined;
  }

  /**
   * Handles a key of a search, or the key that starts it. `text` becomes the draft. A key that is
   * not taken ends the search and acts as usual.
   */
  search(meaning: KeyMeaning, draft: string): { taken: boolean; text?: string } {
    if (this.query === undefined) {
      this.#draft = draft;
      this.#at = this.#entries.length;
      this.query = '';
      return { taken: true };
    }
    if (meaning.do === 'search') return this.#find(this.query, this.#at - 1);
    if (meaning.do === 'insert') return this.#find(this.query + meaning.text, Math.min(this.#at, this.#entries.length - 1));
    if (meaning.do === 'delete' && meaning.to === 'left') return this.#find(this.query.slice(0, -1), this.#entries.length - 1);
    this.query = undefined;
    if (meaning.do === 'cancel' || meaning.do === 'interrupt') {
      this.#at = this.#entries.length;
      return { taken: true, text: this.#draft };
    }
    // Enter accepts the result, so that the user sees it before sending it.
    return { taken: meaning.do === 'enter' };
  }

  #find(query: string, from: number): { taken: boolean; text?: string } {
    this.query = query;
    for (let at = from; at >= 0; at--) {
      if (!this.#entries[at]!.includes(query)) continue;
      this.#at = at;
      return { taken: true, text: this.#entries[at]! };
    }
    return { taken: true };
  }
}
