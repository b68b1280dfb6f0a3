// Schemas that replies of several dialects share. Pure. Used by their operations.
import { boolean, integer, list, named, nullable, number, object, text, told, type Schema } from './schema.js';

export const warnings = told(list(text), 'Parts of the request that had no effect, or that were changed.');

const chance = { id: integer, token: text, bytes: list(integer), 'logprob?': number, 'prob?': told(number, 'With `post_sampling_probs`.') };

/** Written by `exchange/logprobs`. */
export const tokenLogprob = named('TokenLogprob', object({
  ...chance,
  'top_logprobs?': list(object(chance)),
  'top_probs?': list(object(chance)),
}));

/** Query of lists, as OpenAI's clients page through them. */
export const pageQuery = (usual: number, most: number): Record<string, Schema> => ({
  limit: { type: 'integer', minimum: 1, maximum: most, default: usual, description: 'Maximum number of entries per page.' },
  after: { type: 'string', description: 'Id of an entry; the page starts after it.' },
});

export const pageOf = (name: string, entry: Schema): Schema => named(name, object({
  object: 'list', data: list(entry), first_id: nullable(text), last_id: nullable(text), has_more: boolean,
}));
