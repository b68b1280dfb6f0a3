// Pagination of lists as in OpenAI's API: `limit` entries after the one that `after` names.
import { describe } from '../../request/fields.js';
import { RecuaError } from '../../errors.js';
import type { Query } from './query.js';

export interface Page {
  object: 'list';
  data: readonly unknown[];
  first_id: unknown;
  last_id: unknown;
  has_more: boolean;
}

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
