// Descriptions of the fields of a response's body, for the API reference, and bodies that use all
// of them.
import { admissionWords, constraintExamples, constraintWords, customToolWords, flatFormatWords, formatExamples, functionWords, priorityWords, refused, samplingWords, streamWords, thoughtsWords, toolChoiceWords, toolExamples, truncationWords, under, type FieldWords, type Words } from '../../request/words.js';
import { advice } from '../../request/unsupported.js';
import { anyContext, readAdmission } from '../exchange/admission.js';
import type { Body } from '../reference/operation.js';
import { nothingEarlier } from './items.js';
import { readResponseRequest } from './response-request.js';

const partType: FieldWords = { text: 'Only text is supported. Ignored for reasoning.', is: [{ type: 'string', enum: ['input_text', 'output_text', 'text', 'refusal', 'reasoning_text'] }] };

const outputType: FieldWords = { text: 'Only text is supported.', is: [{ type: 'string', enum: ['input_text', 'output_text', 'text', 'refusal'] }] };

const item: Words = {
  type: '`message`, `reasoning`, `function_call`, `custom_tool_call` and their outputs, or `item_reference`, which has only the `id` of a stored item. If omitted, an item with a `role` is a message, and one with only an `id` an `item_reference`.',
  role: 'For a message: role of the speaker; `developer` means `system`.',
  content: { text: 'For a message: the text, or a list of its parts. For reasoning: a list of parts.', is: ['string', 'array'] },
  'content[].type': partType,
  'content[].text': 'The text of the part.',
  'content[].refusal': 'The text, for type `refusal`.',
  encrypted_content: 'For reasoning, instead of `content`: the value that a response returned.',
  call_id: 'For a call and its output: id of the call.',
  name: 'For a call: name of the tool.',
  namespace: 'For a call: the group that the tool belongs to.',
  arguments: 'For a function call: the arguments, as JSON.',
  input: 'For a custom tool call: the text.',
  output: { text: 'For an output: the text, or a list of its parts.', is: ['string', 'array'] },
  'output[].type': outputType,
  'output[].text': 'The text of the part.',
  'output[].refusal': 'The text, for type `refusal`.',
};

const fields: Words = {
  input: { text: 'A user message, or a list of conversation items.', is: ['string', 'array'] },
  'input[]': { text: '', name: 'InputItem' },
  ...under('input[]', item),
  ...admissionWords,
  ...streamWords,
  instructions: 'System message to put before the input.',
  previous_response_id: 'The stored response to continue from. Items that a request refers to, in this way or by `item_reference`, may have as many bytes together as a body (`--body-limit`).',
  store: { text: 'Store the response, so that later requests can retrieve it or continue from it.', default: true },
  background: { text: 'Reply at once with `status: "queued"` and generate the answer without the client; `stream: true` streams its events.', default: false },
  max_output_tokens: "Maximum number of tokens of the answer. The default is the server's (`--max-tokens`).",
  ...samplingWords,
  tools: 'Tools that the model may call. Tools that run at OpenAI are dropped, with a warning.',
  'tools[]': { text: '', name: 'ResponseTool' },
  'tools[].type': '`function`, `custom` for a tool that takes text instead of JSON, or `namespace` for a group of both.',
  ...under('tools[]', { ...functionWords('parameters'), ...customToolWords }),
  'tools[].tools': 'For a namespace: its tools. The model and `tool_choice` know them as `NAMESPACE__NAME`; calls in the response have both names apart.',
  'tools[].tools[].type': '`function` or `custom`.',
  ...under('tools[].tools[]', { ...functionWords('parameters'), ...customToolWords }),
  stream_options: 'Accepted, with no effect.',
  ...toolChoiceWords,
  tool_choice: { ...toolChoiceWords['tool_choice'] as FieldWords, name: 'ResponseToolChoice' },
  ...constraintWords,
  text: 'Form of the answer.',
  'text.verbosity': { text: 'No effect, with a warning unless it is `medium`: no chat template supports it.', default: 'medium' },
  'text.format': { text: '`text`, or a format enforced during generation.', name: 'ResponseTextFormat' },
  ...under('text.format', flatFormatWords),
  reasoning: 'How the model thinks.',
  'reasoning.effort': 'How much the model thinks, if its chat template supports that; `none` turns thinking off.',
  'reasoning.summary': 'Echoed in the response; thinking is always returned in full.',
  include: 'Additional output: `reasoning.encrypted_content`, `message.output_text.logprobs`.',
  top_logprobs: { text: 'Report this many of the likeliest tokens at each position. A response can have 200,000 log probabilities; one without `max_output_tokens` ends there.', default: 0 },
  chat_template_kwargs: { text: 'Variables for the chat template, at most 63; an `enable_thinking` in here wins over `reasoning.effort`.', default: {} },
  ...thoughtsWords,
  ...truncationWords,
  ...priorityWords,
  max_tool_calls: 'Echoed in the response, with no other effect: only the client runs tools.',
  metadata: 'Echoed in the response: up to 16 pairs of strings.',
  prompt_cache_key: 'Echoed in the response, with no other effect: the server finds cached prompts by their tokens.',
  safety_identifier: 'Echoed in the response.',
  user: 'Echoed in the response.',
  conversation: refused(advice.conversation),
  prompt: refused('prompt templates'),
};

const flat = ({ json_schema: inside, ...format }: Readonly<Record<string, unknown>>): object => ({ ...format, ...inside as object });
const beside = ({ function: inside, custom, ...tool }: Readonly<Record<string, unknown>>): object => ({
  ...tool,
  ...(inside as object),
  ...(custom as object),
});
const flatCustoms = toolExamples.flatMap(({ tools }) => (tools as Record<string, unknown>[]).filter(({ type }) => type === 'custom').map(beside));
const parts = [{ type: 'input_text', text: 'a' }, { type: 'refusal', refusal: 'a' }];

export const responseBody: Body = {
  name: 'CreateResponse',
  read: (body) => [readAdmission(body), readResponseRequest(body, anyContext, nothingEarlier, true)],
  examples: [
    { input: 'Hello! Who are you?', max_output_tokens: 40 },
    {
      input: [
        { type: 'message', role: 'user', content: parts }, { type: 'reasoning', content: [{ type: 'reasoning_text', text: 'a' }], encrypted_content: '' }, { type: 'reasoning', encrypted_content: '' },
        { type: 'function_call', call_id: 'a', name: 'look', arguments: '{}' }, { type: 'function_call_output', call_id: 'a', output: parts },
        { type: 'custom_tool_call', call_id: 'b', name: 'say', input: 'a' }, { type: 'custom_tool_call_output', call_id: 'b', output: 'a' },
      ],
      reasoning: { effort: 'low' }, include: ['reasoning.encrypted_content'], samplers: ['top_k'], dry_multiplier: 1, dry_sequence_breakers: ['a'], reasoning_budget_tokens: 1,
    },
    { input: 'a', thinking_budget_tokens: 1 }, { input: 'a', thinking_token_budget: 1 },
    { input: 'a', tools: [{ type: 'function', name: 'look', parameters: { type: 'object' } }] },
    { input: 'a', tools: [{ type: 'namespace', name: 'g', tools: [{ type: 'function', name: 'look' }, ...flatCustoms] }] },
    ...constraintExamples.map((part) => ({ input: 'a', ...part })), { input: 'a', stream_options: {} },
    ...formatExamples.map((format) => ({ input: 'a', text: { format: flat(format) } })),
    ...toolExamples.map(({ tools, tool_choice: choice }) => ({ input: 'a', tools: (tools as Record<string, unknown>[]).map(beside), ...(choice ? { tool_choice: choice } : {}) })),
  ],
  words: fields,
};
