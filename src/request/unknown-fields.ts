// Fields of a request that no reader asked for. A likely misspelling of a known name is refused;
// all others become a warning of the answer, since clients also send fields of other servers. Pure.
// Called by the exchanges once a body is read.
import { RecuaError } from '../errors.js';
import type { Fields } from './fields.js';

/** Names of other servers or dialects: never taken for a misspelling. */
const others: ReadonlySet<string> = new Set([
  'max_length', 'min_length', 'models', 'n_probs', 'format', 'options', 'tfs', 'tfs_z', 'text', 'texts', 'think', 'thinking', 'tokens', 'top_a', 'top_h', 'top_n', 'typ_p', 'typical', 'return_token_ids',
]);
/** Names for the same setting in different APIs. */
const lengths = ['max_tokens', 'max_completion_tokens', 'max_output_tokens', 'num_predict', 'n_predict', 'max_new_tokens'];
/** Shorter names differ by one letter too often: there, only case and dashes may differ. */
const shortest = 6;
/** Names of at least this length may have two misspelled letters. */
const long = 8;
/** Unknown fields to compare; a body may have hundreds of thousands. */
const mostChecked = 100;
const mostNamed = 8;
const mostLetters = 64;

/**
 * Returns warnings for the answer.
 * @throws RecuaError `unknown_parameter`, with the name that is probably meant
 */
export function checkUnknown(body: Fields): string[] {
  const unknown = firstOf(unknownOf(body));
  if (unknown.length === 0) return [];
  for (const { fields, name } of unknown) {
    const meant = meantBy(name, fields.asked);
    if (meant === undefined) continue;
    const param = fields.param(name);
    throw new RecuaError('unknown_parameter', `${param} is not a field of this request; did you mean ${fields.param(meant)}?`, { param });
  }
  const named = unknown.slice(0, mostNamed).map(({ fields, name }) => JSON.stringify(fields.param(name.slice(0, mostLetters)))).join(', ');
  const more = unknown.length > mostNamed ? ` and ${unknown.length === mostChecked ? 'at least ' : ''}${unknown.length - mostNamed} more` : '';
  return [`Not fields of this request, and ignored: ${named}${more}.`];
}

/**
 * Runs a reader of the body. If it misses a field, and the body has one whose name is nearly the
 * same, the error says so.
 */
export function readNear<Asked>(body: Fields, read: () => Asked): Asked {
  try {
    return read();
  } catch (thrown) {
    const { param } = RecuaError.from(thrown);
    if (param !== undefined && body.peek(param) === undefined) refuseNear(body, param);
    throw thrown;
  }
}

/** @throws RecuaError `unknown_parameter` if a field of nearly that name was probably meant */
export function refuseNear(body: Fields, param: string): void {
  const given = firstOf(body.unasked()).find((name) => meantBy(name, new Set([param]), 1) === param);
  if (given === undefined) return;
  throw new RecuaError('unknown_parameter', `${given} is not a field of this request; did you mean ${param}?`, { param: given });
}

function* unknownOf(fields: Fields): Generator<{ fields: Fields; name: string }> {
  for (const name of fields.unasked()) yield { fields, name };
  for (const inner of fields.inner) yield* unknownOf(inner);
}

function firstOf<One>(unknown: Iterable<One>): One[] {
  const first: One[] = [];
  for (const one of unknown) if (first.push(one) === mostChecked) break;
  return first;
}

/** The nearest known name, if one is near enough: with `leastSlips`, however short the name is. */
function meantBy(name: string, known: ReadonlySet<string>, leastSlips = 0): string | undefined {
  if (name.length > mostLetters || others.has(name)) return undefined;
  const same = lengths.includes(name) ? lengths.find((one) => known.has(one)) : undefined;
  if (same !== undefined) return same;
  const given = plain(name);
  const most = given.length >= long ? 2 : given.length >= shortest ? 1 : leastSlips;
  let best: string | undefined;
  let least = most + 1;
  for (const one of known) {
    // A whole word more is no slip: `stream_id`, `message_id`.
    if (name.startsWith(`${one}_`) || (isId(name) && !isId(one))) continue;
    if (Math.abs(one.length - name.length) > most + 3) continue;
    const slips = slipsBetween(given, plain(one), most);
    if (slips < least) [best, least] = [one, slips];
  }
  return best;
}

function isId(name: string): boolean {
  return /_ids?$/.test(name);
}

/** `maxTokens` and `max_tokens` count as equal. */
function plain(name: string): string {
  return name.replace(/[_-]/g, '').toLowerCase();
}

/**
 * Edit distance: missing, extra, wrong or swapped letters. Stops counting above `most`.
 */
function slipsBetween(one: string, other: string, most: number): number {
  if (Math.abs(one.length - other.length) > most) return most + 1;
  let before: number[] = [];
  let last = Array.from({ length: other.length + 1 }, (_, at) => at);
  for (let at = 1; at <= one.length; at++) {
    const row = [at];
    for (let to = 1; to <= other.length; to++) {
      const same = one[at - 1] === other[to - 1];
      const swapped = at > 1 && to > 1 && one[at - 1] === other[to - 2] && one[at - 2] === other[to - 1];
      row.push(Math.min(last[to]! + 1, row[to - 1]! + 1, last[to - 1]! + (same ? 0 : 1), swapped ? before[to - 2]! + 1 : Infinity));
    }
    [before, last] = [last, row];
  }
  return last[other.length]!;
}
