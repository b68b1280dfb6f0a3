// The schema of error bodies, in OpenAI's format. Used by all dialects that have no format of their
// own.
import { errorTable } from '../../errors.js';
import { named, nullable, object, text, told, words, type Schema } from './schema.js';

export const errorCode = told(named('ErrorCode', words(...Object.keys(errorTable))), 'Machine-readable code; [errors.md](errors.md) lists them all.');

/** An error may have more fields: `n_prompt_tokens` and `n_ctx`, or `needed_bytes`. */
export const details: Schema = { additionalProperties: { type: ['number', 'string'] } };

export const errorResponse = named('ErrorResponse', object({
  error: named('Error', {
    ...object({
      message: told(text, 'What the server expected, what it got, and what to do.'),
      type: words('invalid_request_error', 'not_found_error', 'unavailable_error', 'server_error'),
      param: told(nullable(text), 'The field at fault, such as `messages[0].role`.'),
      code: errorCode,
    }),
    ...details,
  }),
}));
