// What the routes of the server itself say of themselves. Mounted with them by app.
import { errorResponse as error } from './reference/errors.js';
import type { Operation } from './reference/operation.js';
import { anything, boolean, integer, mapOf, named, number, object, text, told, words } from './reference/schema.js';

const state = { 'fraction?': number, 'failed?': boolean, 'reason?': object({ message: text, code: text }) };

const health = named('Health', object({
  status: words('ok', 'loading', 'stopping', 'error'),
  'model?': told(words('loading', 'loaded', 'failed', 'closed'), 'Of a server of one model.'),
  'models?': told(mapOf(object({ value: text, ...state })), 'Of one of several: what each is at.'),
  'running?': told(integer, 'Requests that are worked on.'), 'waiting?': integer,
  requests: told(integer, 'That were answered since the server began.'),
  'crashes?': told(integer, 'Of the engine process.'),
  'progress?': told(number, 'Of loading, 0 to 1.'),
  'error?': told(mapOf(anything), 'Why not, as in errors.'),
}));

export const operations = {
  health: {
    id: 'getHealth', topic: 'Server', summary: 'Whether a request can be answered now.',
    about: 'Of one model: 503 while it loads, also anew after a crash or where the engine process got stuck. Of several: 200 while the server takes work.',
    reply: { schema: health, others: { 503: { text: 'Not now: the model loads or failed, or the server stops.', schema: health } } }, error, errors: [],
  },
  document: {
    id: 'getOpenApi', topic: 'Server', summary: 'This API, as OpenAPI 3.1.', reply: { schema: told(mapOf(anything), 'The document.') }, error, errors: [],
  },
} as const satisfies Record<string, Operation>;
