// Extracts the input of a custom tool from the arguments that the model writes: JSON with one
// string, `input`, which may be cut off anywhere. Pure. Called by the dialects' answers.

const head = /^\s*\{\s*"input"\s*:\s*"/;
const headBegun = /^\s*(?:\{\s*(?:"(?:i(?:n(?:p(?:u(?:t(?:"\s*(?::\s*)?)?)?)?)?)?)?)?)?$/;
const beginningOfLow = /^(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?$/;
const letters: Readonly<Record<string, string>> = { n: '\n', t: '\t', r: '\r', b: '\b', f: '\f' };

/** Incremental reader. */
export class CustomInput {
  /** JSON that is not parsed yet. */
  #held = '';
  #state: 'before' | 'inside' | 'behind' | 'foreign' = 'before';
  /** The input so far. */
  whole = '';

  /** Returns the new part of the input. Arguments of another shape are the input themselves. */
  add(json: string): string {
    this.#held += json;
    if (this.#state === 'before') {
      const begin = head.exec(this.#held);
      if (begin) {
        this.#held = this.#held.slice(begin[0].length);
        this.#state = 'inside';
      } else if (!headBegun.test(this.#held)) this.#state = 'foreign';
    }
    const said = this.#state === 'inside' ? this.#unescape() : this.#state === 'foreign' ? this.#held : '';
    if (this.#state !== 'inside' && this.#state !== 'before') this.#held = '';
    this.whole += said;
    return said;
  }

  #unescape(): string {
    const text = this.#held;
    const parts: string[] = [];
    let at = 0;
    while (at < text.length) {
      const next = text.slice(at).search(/["\\]/);
      if (next < 0) {
        parts.push(text.slice(at));
        at = text.length;
        break;
      }
      parts.push(text.slice(at, at + next));
      at += next;
      if (text[at] === '"') {
        this.#state = 'behind';
        return parts.join('');
      }
      const escape = /^\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[^u])/.exec(text.slice(at, at + 12))?.[0];
      // The second half of a surrogate pair may follow.
      const half = escape !== undefined && /^\\u[dD][89abAB]..$/.test(escape) && beginningOfLow.test(text.slice(at + escape.length, at + 12));
      if (escape === undefined || half) break;
      parts.push(escape[1] === 'u' ? JSON.parse(`"${escape}"`) as string : letters[escape[1]!] ?? escape[1]!);
      at += escape.length;
    }
    this.#held = text.slice(at);
    return parts.join('');
  }
}

/** The input of complete arguments, or as far as they go. */
export function customInput(json: string): string {
  return new CustomInput().add(json);
}
