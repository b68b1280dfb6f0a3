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

const notReady = named('NotReady', object({
  status: words('stopping', 'loading', 'failed'), error: told(mapOf(anything), 'Why not, as in errors.'),
}));

export const operations = {
  health: {
    id: 'getHealth', topic: 'Server', summary: 'Whether a request can be answered now.',
    about: 'Of one model: 503 while it loads, also anew after a crash or where the engine process got stuck. Of several: 200 while the server takes work.',
    reply: { schema: health, others: { 503: { text: 'Not now: the model loads or failed, or the server stops.', schema: health } } }, error, errors: [],
  },
  live: {
    id: 'getLiveness', topic: 'Server', summary: 'Whether the process serves: 200, also while it loads or stops.',
    about: 'For who restarts what does not answer. No key is asked for.', reply: { schema: object({ status: 'live' }) }, error, errors: [],
  },
  ready: {
    id: 'getReadiness', topic: 'Server', summary: 'Whether requests should be sent here now.',
    about: '503 while the server stops, while its models load, and where none of them can be loaded; `error` says why. Of several models, one that the first request for it loads can serve. No key is asked for.',
    reply: { schema: object({ status: 'ready' }), others: { 503: { text: 'Not now, and why.', schema: notReady } } }, error, errors: [],
  },
  metrics: {
    id: 'getMetrics', topic: 'Server', summary: 'What the server counts, as Prometheus reads it.',
    about: 'Its own names begin with `recua_`; those of llama-server (`llamacpp:`) and vLLM (`vllm:`) are over the same numbers. [watching.md](watching.md) has them all. An API key is asked for where the server has keys.',
    reply: { schema: told(text, "Prometheus' text format 0.0.4."), type: 'text/plain' }, error, errors: [],
  },
  document: {
    id: 'getOpenApi', topic: 'Server', summary: 'This API, as OpenAPI 3.1.', reply: { schema: told(mapOf(anything), 'The document.') }, error, errors: [],
  },
} as const satisfies Record<string, Operation>;
