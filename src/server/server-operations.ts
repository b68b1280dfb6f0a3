// The reference entries of the server's own routes. Mounted with the routes by app.
import { errorResponse as error } from './reference/errors.js';
import type { Operation } from './reference/operation.js';
import { anything, boolean, integer, mapOf, named, number, object, text, told, words } from './reference/schema.js';

const state = { 'fraction?': number, 'failed?': boolean, 'reason?': object({ message: text, code: text }) };

const health = named('Health', object({
  status: words('ok', 'loading', 'stopping', 'error'),
  'model?': told(words('loading', 'loaded', 'failed', 'closed'), 'On a single-model server.'),
  'models?': told(mapOf(object({ value: text, ...state })), 'On any other server: the state of each model.'),
  'running?': told(integer, 'Running requests; without `waiting`, the queued ones are included.'), 'waiting?': told(integer, 'Queued requests.'),
  requests: told(integer, 'Requests that a model began to answer since the server started, including those that then failed (a total, unlike `requests` of a model).'),
  'crashes?': told(integer, 'Crashes of the engine process.'),
  'progress?': told(number, 'Progress of loading, 0 to 1.'),
  'error?': told(mapOf(anything), 'The reason, as in error replies.'),
}));

const notReady = named('NotReady', object({
  status: words('stopping', 'loading', 'failed'), error: told(mapOf(anything), 'The reason, as in error replies.'),
}));

export const operations = {
  health: {
    id: 'getHealth', topic: 'Server', summary: 'Whether the server can answer a request now.',
    about: 'A [single-model server](models.md#single-model-servers) answers 503 while its model loads, also after a crash or when the engine process got stuck. Requests that arrive after such a failure wait for the model. Any other server answers 200 as long as it accepts work.',
    reply: { schema: health, others: { 503: { text: 'No: the model is loading or failed, or the server is stopping.', schema: health } } }, error, errors: [],
  },
  live: {
    id: 'getLiveness', topic: 'Server', summary: 'Whether the process is alive: 200, even while it loads or stops.',
    about: 'For supervisors that restart a process when it does not respond. Needs no API key.', reply: { schema: object({ status: 'live' }) }, error, errors: [],
  },
  ready: {
    id: 'getReadiness', topic: 'Server', summary: 'Whether a load balancer should send requests here now.',
    about: '503 while the server stops, at the start until one of the models that are loaded then is loaded, and if none can be loaded; `error` gives the reason. After the start, except on a [single-model server](models.md#single-model-servers), an unloaded model counts as ready, because the first request loads it, and so does one that is loading, unless its last load failed. Needs no API key.',
    reply: { schema: object({ status: 'ready' }), others: { 503: { text: 'No, with the reason.', schema: notReady } } }, error, errors: [],
  },
  metrics: {
    id: 'getMetrics', topic: 'Server', summary: "The server's metrics, in Prometheus format.",
    about: "Recua's own metrics start with `recua_`; many of the same numbers are also exported under the names of llama-server (`llamacpp:`) and vLLM (`vllm:`). [watching.md](watching.md) lists them all. Needs an API key if the server has keys.",
    reply: { schema: told(text, "Prometheus' text format 0.0.4."), type: 'text/plain' }, error, errors: [],
  },
  document: {
    id: 'getOpenApi', topic: 'Server', summary: 'This API, as OpenAPI 3.1.', reply: { schema: told(mapOf(anything), 'The document.') }, error, errors: [],
  },
} as const satisfies Record<string, Operation>;
