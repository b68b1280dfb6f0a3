// Reads query parameters, with the same error messages as for fields of a body, and pages of lists
// as in OpenAI's API. Used by routes that list.
import type { Request } from 'express';
import { RecuaError } from '../../errors.js';
import { checkNumber, describe, tellAsk, wrongType, wrongValue, type Ask } from '../../request/fields.js';

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

export interface Page {
  object: 'list';
  data: readonly unknown[];
  first_id: unknown;
  last_id: unknown;
  has_more: boolean;
}

/** `limit` entries after the one that `after` names. */
export function pageOf(all: readonly unknown[], query: Query, usual: number, most: number): Page {
  const limit = query.integer('limit', 1, most) ?? usual;
  const after = query.text('after');
  const at = after === undefined ? 0 : all.findIndex((entry) => idOf(entry) === after) + 1;
  if (after !== undefined && at === 0) throw new RecuaError('invalid_value', `Expected the id of an entry of this list for after, got ${describe(after)}.`, { param: 'after' });
  const data = all.slice(at, at + limit);
  return { object: 'list', data, first_id: idOf(data[0]) ?? null, last_id: idOf(data.at(-1)) ?? null, has_more: at + limit < all.length };
}

function idOf(entry: unknown): unknown {
  return (entry as { id?: unknown } | undefined)?.id;
}
