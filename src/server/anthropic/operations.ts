// What Anthropic's routes say of themselves: words of their fields, replies, examples. Mounted with
// them by dialect.
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
  type: '`text`, `document`, `tool_result` of a user; `text`, `thinking`, `redacted_thinking`, `tool_use` of an assistant.',
  text: 'Of `text`.',
  thinking: 'Of `thinking`: what the model thought.',
  id: 'Of `tool_use`.',
  name: 'Of `tool_use`: the tool.',
  input: { text: 'Of `tool_use`: what it was called with.', is: [{ type: 'object' }], default: {} },
  tool_use_id: 'Of `tool_result`: the call.',
  is_error: { text: 'Of `tool_result`: the call failed.', default: false },
  content: { text: 'Of `tool_result`: a text, or blocks of text.', is: [{ type: 'string' }, texts] },
  title: 'Of `document`.',
  source: { text: 'Of `document`: `text` with `data`, or `content` with `content`.', is: ['object'] },
  'source.type': { text: '`text` or `content`.' },
  'source.data': 'The text.',
  'source.content': { text: 'A text, or blocks of text.', is: [{ type: 'string' }, texts] },
};

const format: Words = {
  type: '`json_schema`, or `text`.',
  schema: { text: 'The JSON schema, enforced while the answer is written; `true` is any JSON.', is: [{ type: 'object' }, { const: true }] },
};

const fields: Words = {
  ...admissionWords,
  messages: 'The conversation. Turns of one side that follow each other are one.',
  'messages[]': { text: '', name: 'InputMessage' },
  'messages[].role': 'Who speaks.',
  'messages[].content': { text: 'The text, or blocks.', is: ['string', 'array'] },
  'messages[].content[]': { text: '', name: 'InputContentBlock' },
  ...under('messages[].content[]', block),
  system: { text: 'What the model is told before: a text, or blocks of text.', is: [{ type: 'string' }, texts] },
  max_tokens: "Most tokens of the answer. The default is the server's (`--max-tokens`).",
  ...streamWords,
  stop_sequences: 'Texts where the answer ends.',
  ...samplingWords,
  tools: 'What the model may call.',
  'tools[]': { text: '', name: 'Tool' },
  'tools[].type': { text: '`custom`: tools that run at Anthropic are refused.', default: 'custom' },
  ...under('tools[]', functionWords('input_schema')),
  'tools[].input_schema': { text: 'A JSON schema of what it is called with, enforced while the call is written.', is: [{ type: 'object' }] },
  tool_choice: '`auto`: the model decides; `none`: no calls; `any`: a call is forced; `tool`: a call of that `name` is.',
  'tool_choice.type': '`auto`, `any`, `tool` or `none`.',
  'tool_choice.name': 'Of `tool`.',
  'tool_choice.disable_parallel_tool_use': { text: 'An answer calls one tool at most.', default: false },
  thinking: 'Whether the model thinks. Without it the chat template decides.',
  'thinking.type': '`enabled`, `disabled` or `adaptive`.',
  'thinking.budget_tokens': 'Of `enabled`: tokens that it may think with.',
  output_config: 'How the answer is made.',
  'output_config.effort': 'How much the model thinks, where its chat template has a word for it.',
  'output_config.format': 'What form the answer has.',
  ...under('output_config.format', format),
  output_format: 'The older name of `output_config.format`.',
  ...under('output_format', format),
  chat_template_kwargs: { text: 'Variables of the chat template.', default: {} },
  ...constraintWords,
  ...thoughtsWords,
  ...truncationWords,
  ...priorityWords,
  mcp_servers: refused('servers of tools', none),
  container: refused('containers', none),
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
        { role: 'user', content: [{ type: 'text', text: 'a' }, { type: 'document', title: 'a', source: { type: 'text', data: 'a' } }, { type: 'document', source: { type: 'content', content: 'a' } }] },
        { role: 'assistant', content: [{ type: 'thinking', thinking: 'a' }, { type: 'tool_use', id: 'a', name: 'look', input: {} }] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'a', content: 'a' }] },
      ],
      tools: [{ name: 'look', input_schema: { type: 'object' } }], tool_choice: { type: 'tool', name: 'look' }, thinking: { type: 'enabled', budget_tokens: 9 },
      output_config: { effort: 'low', format: schema }, stop_sequences: ['a'], samplers: ['top_k'], dry_multiplier: 1, dry_sequence_breakers: ['a'], reasoning_budget_tokens: 1,
    },
    { messages: hello, output_format: schema, thinking_budget_tokens: 1 },
    { messages: hello, output_format: { type: 'text' }, thinking_token_budget: 1 },
    ...constraintExamples.map((part) => ({ messages: hello, ...part })),
  ],
  words: fields,
};

const usage = named('MessageUsage', object({
  input_tokens: told(integer, 'Tokens of the prompt that were read.'),
  cache_creation_input_tokens: integer,
  cache_read_input_tokens: told(integer, 'Tokens of the prompt that did not have to be read again.'),
  output_tokens: integer,
  'output_tokens_details?': object({ reasoning_tokens: integer }),
}));

const blocks = named('ContentBlock', oneOf(
  object({ type: 'text', text }),
  object({ type: 'thinking', thinking: text, signature: told(text, 'Empty: nobody signs the thoughts of a local model.') }),
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
  told(errorResponse, 'The last word of a stream that failed.'),
));

export const operations = {
  create: {
    id: 'createMessage', topic: 'Messages', summary: "The answer to a conversation, as Anthropic's Messages.", about: 'The header `request-id` names the request.',
    body, reply: { schema: named('Message', object(message(stopReason))) }, stream: { type: 'text/event-stream', event }, error: errorResponse, errors: chatErrors,
  },
  count: {
    id: 'countMessageTokens', topic: 'Messages', summary: 'How many tokens the prompt of a message has.', body, reply: { schema: named('MessageTokensCount', object({ input_tokens: integer, 'warnings?': warnings })) },
    error: errorResponse, errors: chatErrors,
  },
} as const satisfies Record<string, Operation>;
