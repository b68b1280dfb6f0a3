// The reference entries of the routes of Responses, with their replies as schemas. Mounted with the
// routes by dialect.
import { errorResponse as error } from '../reference/errors.js';
import { chatErrors, type Operation } from '../reference/operation.js';
import { anything, boolean, integer, list, mapOf, named, nullable, number, object, oneOf, text, told, words, type Schema } from '../reference/schema.js';
import { pageOf, pageQuery, tokenLogprob, warnings } from '../reference/shapes.js';
import { responseBody as body } from './words.js';

const status = words('in_progress', 'completed', 'incomplete');
const textPart = object({ type: 'output_text', text, annotations: list(anything), logprobs: list(tokenLogprob) });
const thoughtPart = object({ type: 'reasoning_text', text });
const part = named('OutputContent', oneOf(textPart, thoughtPart));

const item = named('OutputItem', oneOf(
  object({ type: 'message', id: text, status, role: 'assistant', content: list(textPart) }),
  object({
    type: 'reasoning', id: text, status, summary: list(anything), content: list(thoughtPart),
    'encrypted_content?': told(text, 'With `include: ["reasoning.encrypted_content"]`: send it back unchanged.'),
  }),
  object({ type: 'function_call', id: text, status, call_id: text, name: text, 'namespace?': told(text, 'The group that the tool belongs to.'), arguments: told(text, 'JSON, as the model wrote it.') }),
  object({ type: 'custom_tool_call', id: text, status, call_id: text, name: text, 'namespace?': text, input: text }),
));

const usage = named('ResponseUsage', object({
  input_tokens: integer, input_tokens_details: object({ cached_tokens: told(integer, 'Prompt tokens reused from the cache.') }),
  output_tokens: integer, output_tokens_details: object({ reasoning_tokens: integer }), total_tokens: integer,
}));

const response = named('Response', object({
  id: text, object: 'response', created_at: integer, completed_at: nullable(integer),
  status: words('queued', 'in_progress', 'completed', 'incomplete', 'failed', 'cancelled'),
  background: boolean,
  error: nullable(object({ code: text, message: text })),
  incomplete_details: nullable(object({ reason: words('max_output_tokens') })),
  model: text, output: list(item), usage: nullable(usage), store: boolean, 'warnings?': warnings,
  instructions: nullable(text), max_tool_calls: nullable(integer), metadata: mapOf(anything), parallel_tool_calls: boolean,
  frequency_penalty: number, presence_penalty: number, prompt_cache_key: nullable(text), safety_identifier: nullable(text), service_tier: 'default',
  temperature: number, text: mapOf(anything), tool_choice: oneOf(text, mapOf(anything)), tools: list(mapOf(anything)), top_p: number, truncation: words('auto', 'disabled'),
  user: nullable(text), max_output_tokens: nullable(integer), previous_response_id: nullable(text), top_logprobs: integer,
  reasoning: object({ effort: nullable(text), summary: nullable(text) }),
}));

const event = (type: string, fields: Readonly<Record<string, Schema | string>>): Schema =>
  object({ type, sequence_number: integer, ...fields });
const whole = ['created', 'queued', 'in_progress', 'completed', 'incomplete', 'failed'].map((name) => `response.${name}`);
const at = { item_id: text, output_index: integer };
const inPart = { ...at, content_index: integer };
const logprobs = list(tokenLogprob);

const events = named('ResponseStreamEvent', oneOf(
  object({ type: words(...whole), sequence_number: integer, response }),
  object({ type: words('response.output_item.added', 'response.output_item.done'), sequence_number: integer, output_index: integer, item }),
  object({ type: words('response.content_part.added', 'response.content_part.done'), sequence_number: integer, ...inPart, part }),
  event('response.output_text.delta', { ...inPart, delta: text, logprobs }),
  event('response.output_text.done', { ...inPart, text, logprobs }),
  event('response.reasoning_text.delta', { ...inPart, delta: text }),
  event('response.reasoning_text.done', { ...inPart, text }),
  event('response.function_call_arguments.delta', { ...at, delta: text }),
  event('response.function_call_arguments.done', { ...at, name: text, arguments: text }),
  event('response.custom_tool_call_input.delta', { ...at, delta: text }),
  event('response.custom_tool_call_input.done', { ...at, input: text }),
  event('error', { code: text, message: text, param: nullable(text), error: mapOf(anything) }),
  told(event('keepalive', {}), 'Keeps the connection alive while nothing happens; repeats the number of the last event.'),
));

const stream = { type: 'text/event-stream', event: events } as const;
const params = { id: 'Id of the response.' };
const topic = 'Responses';

export const operations = {
  create: {
    id: 'createResponse', topic, summary: "Answer a conversation, in OpenAI's Responses format.",
    body, reply: { schema: response }, stream, error, errors: [...chatErrors, 'response_not_found', 'disk_full', 'store_unwritable'],
  },
  socket: {
    id: 'openResponses', topic, summary: 'Open a WebSocket, as Codex does; each message requests a response.',
    about: 'Send the body of `POST /v1/responses` with `"type": "response.create"`; the server sends the events of its stream, one per message. '
      + 'A connection handles one response at a time. It remembers its last response until it closes, whatever `store` says, so `previous_response_id` can continue from it. It forgets a response if that and the items before it are larger than `--body-limit`, or if the memory for all connections is used up; an `error` with the code `previous_response_not_found` means that the client has to send the whole conversation. '
      + '`"generate": false` only stores the input for the next message to continue from, without an answer. Any other request, and one for which the server cannot open a WebSocket, gets a 426.',
    reply: { schema: anything, opensSocket: true }, error, errors: ['upgrade_required'],
  },
  count: {
    id: 'countResponseTokens', topic, summary: 'Count the tokens of a prompt.', body,
    reply: { schema: named('ResponseInputTokens', object({ object: 'response.input_tokens', input_tokens: integer, 'warnings?': warnings })) }, error, errors: [...chatErrors, 'response_not_found', 'disk_full', 'store_unwritable'],
  },
  items: {
    id: 'listInputItems', topic, summary: 'List the input items of a stored response.', params,
    query: { ...pageQuery(20, 100), order: { type: 'string', enum: ['asc', 'desc'], default: 'desc', description: 'Newest first (`desc`) or oldest first.' } },
    reply: { schema: pageOf('InputItemList', mapOf(anything)) }, error, errors: ['response_not_found', 'invalid_value', 'invalid_type', 'disk_full', 'store_unwritable'],
  },
  cancel: {
    id: 'cancelResponse', topic, summary: 'Cancel a background response.', params, reply: { schema: response }, error, errors: ['response_not_found', 'invalid_value', 'disk_full', 'store_unwritable'],
  },
  show: {
    id: 'retrieveResponse', topic, summary: 'Get a stored response, or one in progress.', params,
    query: {
      stream: { type: 'boolean', default: false, description: 'Stream its events, starting with the first.' },
      starting_after: { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description: 'For a stream: the `sequence_number` of the last event the client has seen. If the server no longer has the events, only the last one follows, which has the whole output.' },
    },
    reply: { schema: response }, stream, error, errors: ['response_not_found', 'invalid_value', 'invalid_type', 'disk_full', 'store_unwritable'],
  },
  remove: {
    id: 'deleteResponse', topic, summary: 'Delete a stored response.', params,
    reply: { schema: object({ id: text, object: 'response.deleted', deleted: boolean }) }, error, errors: ['response_not_found', 'store_unwritable'],
  },
} as const satisfies Record<string, Operation>;
