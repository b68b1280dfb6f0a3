// The tokens of an answer, for requests that ask for them: their bytes, their probabilities, and
// the delta that carries each. Text held back (a possible stop string, an incomplete character)
// holds its tokens back, too. Pure; one ToldTokens per answer.
import type { Pieces } from '../../addon/addon.js';
import { Packer, piece, type PackedTokens } from '../packed-tokens.js';
import type { TokenChance, ToldToken } from '../telling.js';

/** Stands for -Infinity and NaN. */
const impossible = -9999;

const space = 0x20;

/** A prompt that was given as text. */
export interface SpelledPrompt {
  text: string;
  /** The text of a control token. */
  spellingOf: (token: number) => number[];
}

/** A sampler's notes: for each token its own value, then the values of the most likely ones. */
export interface Noted {
  tokens: Int32Array;
  values: Float32Array;
}

export class ToldTokens {
  readonly #pieces: Pieces;
  /** Control tokens that have text in this answer. */
  readonly #shown: ReadonlyMap<number, Uint8Array>;
  /** How many of the most likely tokens to send with each; undefined: no values at all. */
  readonly #top: number | undefined;
  /** The sampler's notes that no token has used yet. */
  readonly #noted: Noted[] = [];
  #used = 0;
  /** Tokens whose text is not released yet, with the text's start. */
  #waiting: { token: ToldToken; start: number }[] = [];
  #textLength = 0;

  constructor(pieces: Pieces, shown: ReadonlyMap<number, Uint8Array>, top: number | undefined) {
    this.#pieces = pieces;
    this.#shown = shown;
    this.#top = top;
  }

  /** Adds the sampler's notes since the last call. */
  note(noted: Noted): void {
    if (noted.values.length > 0) this.#noted.push(noted);
  }

  /**
   * The prompt's tokens. The first has no value; the notes of the others come before those of the
   * answer.
   */
  ofPrompt(tokens: Int32Array, spelled?: SpelledPrompt): PackedTokens[] {
    const inText = spelled && bytesInText(tokens, spelled, (id) => this.#bytesOf(id));
    const pieces: PackedTokens[] = [];
    for (let at = 0; at < tokens.length; at += piece) {
      const packer = new Packer();
      for (const [index, id] of tokens.subarray(at, at + piece).entries()) this.#pack(packer, id, inText?.[at + index], at + index === 0);
      pieces.push(packer.take());
    }
    return pieces;
  }

  /** Packs a token of a prompt without making objects, since a prompt may have millions of them. */
  #pack(packer: Packer, id: number, inText: readonly number[] | undefined, isFirst: boolean): void {
    const { bytes, offsets } = this.#pieces;
    const noted = isFirst ? undefined : this.#nextNoted();
    packer.begin(noted ? noted.likeliest.filter((other) => other >= 0).length : 0);
    packer.add(id, noted ? sound(noted.values[0]!) : NaN, inText ?? this.#bytesOf(id));
    for (const [index, other] of noted?.likeliest.entries() ?? []) {
      const shown = this.#shown.get(other);
      if (other >= 0)
        packer.add(
          other,
          sound(noted!.values[1 + index]!),
          shown ?? bytes,
          shown ? 0 : offsets[other],
          shown ? shown.length : offsets[other + 1],
        );
    }
  }

  /** Adds the answer's next token; `textLength`: characters of all text including this token. */
  push(id: number, textLength: number): void {
    this.#waiting.push({ token: this.#tell(id), start: this.#textLength });
    this.#textLength = textLength;
  }

  /**
   * Removes and returns the tokens whose text is within the first `length` characters, each with
   * its text's start. A token without text (e.g. the first bytes of a character) is released with
   * the next one, or at the end.
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
    const noted = this.#nextNoted();
    if (!noted) return { ...told, top: [] };
    const { values, likeliest } = noted;
    const top: TokenChance[] = [];
    for (const [index, other] of likeliest.entries()) {
      if (other >= 0) top.push({ id: other, bytes: this.#bytesOf(other), value: sound(values[1 + index]!) });
    }
    return { ...told, value: sound(values[0]!), top };
  }

  /** The sampler's notes on the next token; undefined if the request wants no values. */
  #nextNoted(): { values: Float32Array; likeliest: Int32Array } | undefined {
    const noted = this.#noted[0];
    if (this.#top === undefined || !noted) return undefined;
    const at = this.#used++;
    const values = noted.values.subarray(at * (1 + this.#top), (at + 1) * (1 + this.#top));
    const likeliest = noted.tokens.subarray(at * this.#top, (at + 1) * this.#top);
    if (this.#used * (1 + this.#top) >= noted.values.length) {
      this.#noted.shift();
      this.#used = 0;
    }
    return { values, likeliest };
  }

  #bytesOf(id: number): number[] {
    const { bytes, offsets } = this.#pieces;
    return Array.from(this.#shown.get(id) ?? bytes.subarray(offsets[id], offsets[id + 1]));
  }
}

/**
 * The tokens' bytes as they are in the text: a control token has some where the text spells it, and
 * a space that the tokenizer put before a word is not there.
 */
function bytesInText(tokens: Int32Array, { text, spellingOf }: SpelledPrompt, bytesOf: (id: number) => number[]): number[][] {
  const all = Buffer.from(text);
  let at = 0;
  const isHere = (bytes: readonly number[]): boolean => bytes.every((byte, i) => all[at + i] === byte);
  return Array.from(tokens, (id) => {
    const usual = bytesOf(id);
    const other = usual.length === 0 ? spellingOf(id) : usual.slice(usual[0] === space ? 1 : 0);
    const bytes = (usual.length > 0 && isHere(usual)) || !isHere(other) ? usual : other;
    at += bytes.length;
    return bytes;
  });
}

function sound(value: number): number {
  return value > impossible ? value : impossible;
}
