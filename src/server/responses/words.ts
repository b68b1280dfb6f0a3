// What the fields of a response's body mean, for the reference, and bodies that have all of them.
import { admissionWords, constraintExamples, constraintWords, customToolWords, flatFormatWords, formatExamples, functionWords, priorityWords, refused, samplingWords, streamWords, thoughtsWords, toolChoiceWords, toolExamples, truncationWords, under, type FieldWords, type Words } from '../../request/words.js';
import { anyContext, readAdmission } from '../exchange/admission.js';
import type { Body } from '../reference/operation.js';
import { nothingEarlier } from './items.js';
import { readResponseRequest } from './response-request.js';

const partType: FieldWords = { text: 'Of reasoning it is not looked at; nothing but text is read.', is: [{ type: 'string', enum: ['input_text', 'output_text', 'text', 'refusal', 'reasoning_text'] }] };

const item: Words = {
  type: '`message`, `reasoning`, `function_call`, `custom_tool_call` and their outputs, or `item_reference`. Left out, it is a message.',
  role: 'Of a message: who speaks; `developer` is `system`.',
  content: { text: 'Of a message: a text, or parts of it. Of reasoning: parts.', is: ['string', 'array'] },
  'content[].type': partType,
  'content[].text': 'The text of the part.',
  'content[].refusal': 'The text of a refusal.',
  encrypted_content: 'Of reasoning, in place of `content`: as a response gave it.',
  call_id: 'Of a call and its output.',
  name: 'Of a call: the tool.',
  namespace: 'Of a call: the group that its tool is one of.',
  arguments: 'Of a function call: JSON.',
  input: 'Of a custom tool call: the text.',
  output: { text: 'Of an output: a text, or parts of it.', is: ['string', 'array'] },
  'output[].type': partType,
  'output[].text': 'The text of the part.',
  'output[].refusal': 'The text of a refusal.',
};

const fields: Words = {
  input: { text: 'The message of a user, or items of a conversation.', is: ['string', 'array'] },
  'input[]': { text: '', name: 'InputItem' },
  ...under('input[]', item),
  ...admissionWords,
  ...streamWords,
  instructions: 'What the model is told before.',
  previous_response_id: 'The stored response that this one goes on from.',
  store: { text: 'The response is kept, so that it can be gone on from and asked for.', default: true },
  background: { text: 'Answer at once with `status: "queued"` and go on without the client; `stream: true` shows it as it comes.', default: false },
  max_output_tokens: "Most tokens of the answer. The default is the server's (`--max-tokens`).",
  ...samplingWords,
  tools: 'What the model may call. Tools that run at OpenAI are left out, with a warning.',
  'tools[]': { text: '', name: 'ResponseTool' },
  'tools[].type': '`function`, `custom` for one that takes a text instead of JSON, or `namespace` for a group of both.',
  ...under('tools[]', { ...functionWords('parameters'), ...customToolWords }),
  'tools[].tools': 'Of a namespace: its tools, which are called by their own names.',
  'tools[].tools[].type': '`function` or `custom`.',
  ...under('tools[].tools[]', { ...functionWords('parameters'), ...customToolWords }),
  stream_options: 'Nothing here depends on it.',
  ...toolChoiceWords,
  tool_choice: { ...toolChoiceWords['tool_choice'] as FieldWords, name: 'ResponseToolChoice' },
  ...constraintWords,
  text: 'What form the answer has.',
  'text.verbosity': { text: 'No effect, with a warning unless it is `medium`: no chat template knows it.', default: 'medium' },
  'text.format': { text: '`text`, or what is enforced while the answer is written.', name: 'ResponseTextFormat' },
  ...under('text.format', flatFormatWords),
  reasoning: 'How the model thinks.',
  'reasoning.effort': 'How much, where its chat template has a word for it; `none` is not at all.',
  'reasoning.summary': 'Repeated in the response; thoughts are told whole.',
  include: 'More to be told: `reasoning.encrypted_content`, `message.output_text.logprobs`.',
  top_logprobs: { text: 'So many of the likeliest tokens beside each.', default: 0 },
  chat_template_kwargs: { text: 'Variables of the chat template.', default: {} },
  ...thoughtsWords,
  ...truncationWords,
  ...priorityWords,
  max_tool_calls: 'Repeated in the response: only clients call tools.',
  metadata: 'Repeated in the response.',
  prompt_cache_key: 'Repeated in the response: prompts are found again by their tokens.',
  safety_identifier: 'Repeated in the response.',
  user: 'Repeated in the response.',
  conversation: refused('use `previous_response_id`'),
  prompt: refused('templates of prompts'),
};

const flat = ({ json_schema: inside, ...format }: Readonly<Record<string, unknown>>): object => ({ ...format, ...inside as object });
const beside = ({ function: inside, custom, ...tool }: Readonly<Record<string, unknown>>): object => ({ ...tool, ...inside as object, ...custom as object });
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
