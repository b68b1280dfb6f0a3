// The reference entries of Anthropic's routes: descriptions of fields, replies, examples. Mounted
// with the routes by dialect.
import { admissionWords, constraintExamples, constraintWords, functionWords, priorityWords, refused, samplingWords, streamWords, thoughtsWords, truncationWords, under, type Words } from '../../request/words.js';
import { anyContext, readAdmission } from '../exchange/admission.js';
import { details, errorCode } from '../reference/errors.js';
import { chatErrors, type Body, type Operation } from '../reference/operation.js';
import { integer, list, mapOf, anything, named, nothing, nullable, object, oneOf, text, told, words, type Schema } from '../reference/schema.js';
import { warnings } from '../reference/shapes.js';
import { readMessageRequest } from './message-request.js';

const none = { type: 'array', maxItems: 0 };
const texts = { type: 'array', items: { type: 'object', properties: { type: { const: 'text' }, text: { type: 'string' } }, required: ['type', 'text'] } };

const block: Words = {
  type: 'From a user: `text`, `document`, `search_result`, `tool_result`. From an assistant: `text`, `thinking`, `redacted_thinking`, `tool_use`.',
  text: 'For `text`: the text.',
  thinking: 'For `thinking`: the thinking of the model.',
  id: 'For `tool_use`: id of the call.',
  name: 'For `tool_use`: name of the tool.',
  input: { text: 'For `tool_use`: the arguments. Integers beyond 2^53 are rounded.', is: [{ type: 'object' }], default: {} },
  tool_use_id: 'For `tool_result`: id of the call.',
  is_error: { text: 'For `tool_result`: whether the call failed.', default: false },
  content: { text: 'For `tool_result`: a text, or a list of blocks of the types `text`, `document` and `search_result`. For `search_result`: text blocks.', is: ['string', 'array'] },
  title: 'For `document` and `search_result`: the title.',
  context: 'For `document`: what the model should know about it.',
  source: { text: 'For `document`: type `text` with `data`, or type `content` with `content`. For `search_result`: where it comes from.', is: ['object', 'string'] },
  'source.type': { text: '`text` or `content`.' },
  'source.data': 'The text.',
  'source.content': { text: 'A text, or a list of text blocks.', is: [{ type: 'string' }, texts] },
};

const format: Words = {
  type: '`json_schema`, or `text`.',
  schema: { text: 'For `json_schema`: the JSON schema, enforced during generation; `true` allows any JSON. A keyword that cannot be enforced is a 400.', is: [{ type: 'object' }, { const: true }] },
};

const fields: Words = {
  ...admissionWords,
  messages: 'The conversation. Consecutive messages of the assistant are merged into one.',
  'messages[]': { text: '', name: 'InputMessage' },
  'messages[].role': 'Role of the speaker.',
  'messages[].content': { text: 'The text, or a list of blocks.', is: ['string', 'array'] },
  'messages[].content[]': { text: '', name: 'InputContentBlock' },
  ...under('messages[].content[]', block),
  system: { text: 'System message: a text, or a list of text blocks.', is: [{ type: 'string' }, texts] },
  max_tokens: "Maximum number of tokens of the answer; 0 only reads the prompt into the cache. The default is the server's (`--max-tokens`).",
  ...streamWords,
  stop_sequences: 'Texts at which the answer ends.',
  ...samplingWords,
  tools: 'Tools that the model may call.',
  'tools[]': { text: '', name: 'Tool' },
  'tools[].type': { text: '`custom`. Tools that run at Anthropic are refused.', default: 'custom' },
  ...under('tools[]', functionWords('input_schema')),
  'tools[].input_schema': { text: 'JSON schema of the arguments, enforced during generation.', is: [{ type: 'object' }] },
  tool_choice: '`auto`: the model decides; `none`: no calls; `any`: the model must call a tool; `tool`: it must call the tool with that `name`.',
  'tool_choice.type': '`auto`, `any`, `tool` or `none`.',
  'tool_choice.name': 'For `tool`: name of the tool.',
  'tool_choice.disable_parallel_tool_use': { text: 'Allow at most one call per answer.', default: false },
  thinking: 'Whether the model thinks, if its chat template supports that. If omitted, the template decides, and most think.',
  'thinking.type': '`enabled`, `disabled`, `adaptive` or `between_tools`; the last two leave it to the template.',
  'thinking.budget_tokens': 'For `enabled`: most tokens of thinking.',
  output_config: 'Settings of the answer.',
  'output_config.effort': 'How much the model thinks, if its chat template supports that.',
  'output_config.format': 'Form of the answer.',
  ...under('output_config.format', format),
  output_format: 'The older name for `output_config.format`.',
  ...under('output_format', format),
  chat_template_kwargs: { text: 'Variables for the chat template, at most 63; an `enable_thinking` in here wins over `thinking`.', default: {} },
  ...constraintWords,
  ...thoughtsWords,
  ...truncationWords,
  ...priorityWords,
  mcp_servers: refused('MCP servers', none),
  container: refused('containers', none),
  thread: refused('threads; send the whole conversation', none),
};

const hello = [{ role: 'user', content: 'Hello! Who are you?' }];
const schema = { type: 'json_schema', schema: { type: 'object' } };

const body: Body = {
  name: 'CreateMessageParams',
  read: (given) => [readAdmission(given), readMessageRequest(given, anyContext)],
  examples: [
    { model: 'default', max_tokens: 40, messages: hello },
    {
      system: [{ type: 'text', text: 'a' }],
      messages: [
        { role: 'user', content: [{ type: 'text', text: 'a' }, { type: 'document', title: 'a', context: 'a', source: { type: 'text', data: 'a' } }, { type: 'document', source: { type: 'content', content: 'a' } }] },
        { role: 'assistant', content: [{ type: 'thinking', thinking: 'a' }, { type: 'tool_use', id: 'a', name: 'look', input: {} }] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'a', content: 'a' }] },
      ],
      tools: [{ name: 'look', input_schema: { type: 'object' } }], tool_choice: { type: 'tool', name: 'look' }, thinking: { type: 'enabled', budget_tokens: 9 },
      output_config: { effort: 'low', format: schema }, stop_sequences: ['a'], samplers: ['top_k'], dry_multiplier: 1, dry_sequence_breakers: ['a'], reasoning_budget_tokens: 1,
    },
    { messages: hello, output_format: schema, thinking_budget_tokens: 1 },
    { messages: hello, output_format: { type: 'text' }, thinking_token_budget: 1 },
    { messages: hello, output_config: { format: { type: 'text' } }, tool_choice: { type: 'auto' } },
    ...constraintExamples.map((part) => ({ messages: hello, ...part })),
  ],
  words: fields,
};

const usage = named('MessageUsage', object({
  input_tokens: told(integer, 'Prompt tokens evaluated; in `message_start`, all of the prompt.'),
  cache_creation_input_tokens: integer,
  cache_read_input_tokens: told(integer, 'Prompt tokens reused from the cache.'),
  output_tokens: integer,
  'output_tokens_details?': object({ reasoning_tokens: integer }),
}));

const blocks = named('ContentBlock', oneOf(
  object({ type: 'text', text }),
  object({ type: 'thinking', thinking: text, signature: told(text, 'Empty: a local model does not sign its thinking.') }),
  object({ type: 'tool_use', id: text, name: text, input: mapOf(anything) }),
));

const stopReason = words('end_turn', 'max_tokens', 'stop_sequence', 'tool_use');
const message = (reason: Schema): Record<string, Schema | string> => ({
  id: text, type: 'message', role: 'assistant', model: text, content: list(blocks), stop_reason: reason, stop_sequence: nullable(text), usage, 'warnings?': warnings,
});

const requestId = { request_id: text };
export const errorResponse = named('MessageErrorResponse', object({
  type: 'error',
  error: {
    ...object({
      type: words('invalid_request_error', 'authentication_error', 'permission_error', 'not_found_error', 'request_too_large', 'rate_limit_error', 'overloaded_error', 'api_error'),
      message: text, code: errorCode, param: nullable(text),
      'details?': told(object({ error_code: text }), 'Only for `thread`, so that Anthropic\'s tool runners go on without one.'),
    }),
    ...details,
  },
  ...requestId,
}));

const event = named('MessageStreamEvent', oneOf(
  object({ type: 'message_start', message: object(message(nothing)) }),
  object({ type: 'content_block_start', index: integer, content_block: blocks }),
  object({ type: 'content_block_delta', index: integer, delta: oneOf(
    object({ type: 'text_delta', text }), object({ type: 'thinking_delta', thinking: text }), object({ type: 'signature_delta', signature: text }), object({ type: 'input_json_delta', partial_json: text }),
  ) }),
  object({ type: 'content_block_stop', index: integer }),
  object({ type: 'message_delta', delta: object({ stop_reason: stopReason, stop_sequence: nullable(text) }), usage, 'warnings?': warnings }),
  object({ type: 'message_stop' }),
  object({ type: 'ping' }),
  told(errorResponse, 'The last event of a stream that failed.'),
));

export const operations = {
  create: {
    id: 'createMessage', topic: 'Messages', summary: "Answer a conversation, in Anthropic's Messages format.", about: 'The reply header `request-id` identifies the request.',
    body, reply: { schema: named('Message', object(message(stopReason))) }, stream: { type: 'text/event-stream', event }, error: errorResponse, errors: chatErrors,
  },
  count: {
    id: 'countMessageTokens', topic: 'Messages', summary: 'Count the tokens of a prompt.', body, reply: { schema: named('MessageTokensCount', object({ input_tokens: integer, 'warnings?': warnings })) },
    error: errorResponse, errors: chatErrors,
  },
} as const satisfies Record<string, Operation>;
