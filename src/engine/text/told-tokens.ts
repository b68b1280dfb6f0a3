// The tokens of an answer for those who ask for them: how each reads, how likely it was, and with
// which piece of the text it is told. Text that a stop string or a cut character holds back holds
// its tokens back. Pure; one ToldTokens per answer.
import type { Pieces } from '../../addon/addon.js';
import type { TokenChance, ToldToken } from '../telling.js';

/** What is told of -Infinity, and of what is no number. */
const impossible = -9999;

/** What a sampler noted: of each token its own value, then those of the likeliest. */
export interface Noted {
  tokens: Int32Array;
  values: Float32Array;
}

export class ToldTokens {
  readonly #pieces: Pieces;
  /** Control tokens that have text in this answer. */
  readonly #shown: ReadonlyMap<number, Uint8Array>;
  /** How many of the likeliest are told beside each; undefined where no values are. */
  readonly #top: number | undefined;
  /** What the sampler told of tokens that are not here yet. */
  readonly #noted: Noted[] = [];
  #used = 0;
  /** Tokens whose text is not out, with where it begins. */
  #waiting: { token: ToldToken; start: number }[] = [];
  #textLength = 0;

  constructor(pieces: Pieces, shown: ReadonlyMap<number, Uint8Array>, top: number | undefined) {
    this.#pieces = pieces;
    this.#shown = shown;
    this.#top = top;
  }

  /** What the sampler noted since the last time. */
  note(noted: Noted): void {
    if (noted.values.length > 0) this.#noted.push(noted);
  }

  /**
   * The prompt's: nothing is known of the first. What is noted of the others comes before what is
   * of the answer's.
   */
  ofPrompt(tokens: Int32Array): ToldToken[] {
    return Array.from(tokens, (id, index) => (index === 0 ? { id, bytes: this.#bytesOf(id), top: [] } : this.#tell(id)));
  }

  /** The next of the answer; all text has so many characters with it. */
  push(id: number, textLength: number): void {
    this.#waiting.push({ token: this.#tell(id), start: this.#textLength });
    this.#textLength = textLength;
  }

  /**
   * Those whose text is within the first `length` characters. What has no text of its own, as the
   * first bytes of a character, comes with what follows; at the end without. Each with where its
   * text begins.
   */
  release(length: number, isEnd: boolean): { token: ToldToken; start: number }[] {
    let count = 0;
    for (const [index, { start }] of this.#waiting.entries()) {
      const end = this.#waiting[index + 1]?.start ?? this.#textLength;
      if (isEnd ? start > length || (start === length && end > start) : end > length) break;
      if (isEnd || end > start) count = index + 1;
    }
    return this.#waiting.splice(0, count);
  }

  #tell(id: number): ToldToken {
    const told = { id, bytes: this.#bytesOf(id) };
    const noted = this.#noted[0];
    if (this.#top === undefined || !noted) return { ...told, top: [] };
    const at = this.#used++;
    const values = noted.values.subarray(at * (1 + this.#top), (at + 1) * (1 + this.#top));
    const likeliest = noted.tokens.subarray(at * this.#top, (at + 1) * this.#top);
    if (this.#used * (1 + this.#top) >= noted.values.length) {
      this.#noted.shift();
      this.#used = 0;
    }
    const top: TokenChance[] = [];
    for (const [index, other] of likeliest.entries()) {
      if (other >= 0) top.push({ id: other, bytes: this.#bytesOf(other), value: sound(values[1 + index]!) });
    }
    return { ...told, value: sound(values[0]!), top };
  }

  #bytesOf(id: number): number[] {
    const { bytes, offsets } = this.#pieces;
    return Array.from(this.#shown.get(id) ?? bytes.subarray(offsets[id], offsets[id + 1]));
  }
}

function sound(value: number): number {
  return value > impossible ? value : impossible;
}
