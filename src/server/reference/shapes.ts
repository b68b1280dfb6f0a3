// Shapes that replies of several dialects have. Pure. Used by their operations.
import { boolean, integer, list, named, nullable, number, object, text, told, type Schema } from './schema.js';

export const warnings = told(list(text), 'What of the request had no effect, or what became of it.');

const chance = { id: integer, token: text, bytes: list(integer), 'logprob?': number, 'prob?': told(number, 'With `post_sampling_probs`.') };

/** What `exchange/logprobs` writes. */
export const tokenLogprob = named('TokenLogprob', object({
  ...chance,
  'top_logprobs?': list(object(chance)),
  'top_probs?': list(object(chance)),
}));

/** Of lists, as OpenAI's clients turn their pages. */
export const pageQuery = (usual: number, most: number): Record<string, Schema> => ({
  limit: { type: 'integer', minimum: 1, maximum: most, default: usual, description: 'Entries of a page.' },
  after: { type: 'string', description: 'The id of an entry: those behind it.' },
});

export const pageOf = (name: string, entry: Schema): Schema => named(name, object({
  object: 'list', data: list(entry), first_id: nullable(text), last_id: nullable(text), has_more: boolean,
}));
