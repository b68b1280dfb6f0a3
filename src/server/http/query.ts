// Reads query parameters, with the same error messages as for fields of a body. Used by routes that
// list.
import type { Request } from 'express';
import { checkNumber, tellAsk, wrongType, wrongValue, type Ask } from '../../request/fields.js';

/** Not through URL: a client may send any address. */
export function searchOf({ url }: Pick<Request, 'url'>): URLSearchParams {
  const at = url.indexOf('?');
  return new URLSearchParams(at < 0 ? '' : url.slice(at + 1));
}

export class Query {
  readonly #given: URLSearchParams;

  constructor(req: Pick<Request, 'url'>) {
    this.#given = searchOf(req);
  }

  text(name: string): string | undefined {
    return this.#ask(name, { kind: 'string' });
  }

  #ask(name: string, ask: Ask): string | undefined {
    tellAsk(`?${name}`, ask);
    return this.#given.get(name) || undefined;
  }

  boolean(name: string): boolean | undefined {
    const value = this.#ask(name, { kind: 'boolean' });
    if (value === undefined || value === 'true' || value === 'false') return value === undefined ? undefined : value === 'true';
    throw wrongType(name, 'true or false', value);
  }

  integer(name: string, min: number, max: number): number | undefined {
    const value = this.#ask(name, { kind: 'integer', range: { min, max } });
    if (value === undefined) return undefined;
    return checkNumber(/^-?\d{1,16}$/.test(value) ? Number(value) : value, name, { min, max }, true);
  }

  word<Word extends string>(name: string, words: readonly Word[]): Word | undefined {
    const value = this.#ask(name, { kind: 'word', words });
    if (value === undefined || (words as readonly string[]).includes(value)) return value as Word | undefined;
    throw wrongValue(name, `one of ${words.map((word) => JSON.stringify(word)).join(', ')}`, value);
  }
}
