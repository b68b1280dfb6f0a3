// Descriptions of the fields of OpenAI's bodies, for the API reference. Types and bounds come from
// the readers.
import { admissionWords, constraintWords, customToolWords, functionWords, mostChances, priorityWords, refused, samplingWords, streamWords, tellingWords, thoughtsWords, toolChoiceWords, topLogprobsWords, truncationWords, under, type Words } from '../../request/words.js';
import { advice } from '../../request/unsupported.js';

const none = { type: 'array', maxItems: 0 };

/** Fields of other servers: those that `refuseAll` refuses and those that `readSlot` reads. */
export const foreignWords: Words = {
  stop_token_ids: refused(advice.stop_token_ids, none),
  bad_words: refused(advice.bad_words, none),
  allowed_token_ids: refused(advice.allowed_token_ids, none),
  use_beam_search: refused(advice.use_beam_search, { const: false }),
  include_stop_str_in_output: refused(advice.include_stop_str_in_output, { const: false }),
  id_slot: { text: 'No effect, with a warning: the server finds conversations by their tokens, in any slot.', default: -1 },
  cache_prompt: { text: 'No effect, with a warning if false: the server always reuses tokens that it has already evaluated.', default: true },
};

/** Fields of `answer-fields`. */
export const answerWords: Words = {
  max_tokens: 'Maximum number of tokens of the answer; -1 means as many as the context holds. The default is the server\'s (`--max-tokens`).',
  max_completion_tokens: 'The newer name of `max_tokens`; it wins if both are given.',
  n_predict: 'llama-server\'s name for `max_tokens`.',
  n: { text: 'Number of answers. The prompt is evaluated once; the answers equal those of separate requests with `seed`, `seed` + 1 and so on.', default: 1 },
  n_cmpl: "llama-server's name for `n`.",
  stop: { text: 'A text, or several, at which the answer ends.', is: ['string', 'array'] },
  ...priorityWords,
};

const streamOptions: Words = {
  ...streamWords,
  stream_options: 'What the stream reports in addition to the answer.',
  'stream_options.include_usage': { text: 'Add a last chunk with `usage`.', default: false },
  'stream_options.interval_ms': { text: 'Least time between two chunks of an answer, 0 to 1000 ms; a chunk has all tokens since the last one. For clients that draw the text: 60 chunks a second are much work for a browser.', default: 0 },
};

const message: Words = {
  role: 'Role of the speaker; `developer` means `system`.',
  content: { text: 'The text, or a list of its parts.', is: ['string', 'array'] },
  'content[]': { text: '', name: 'ChatCompletionRequestContentPart' },
  'content[].type': { text: '`text` or `refusal`; other types are not supported.' },
  'content[].text': 'The text, for type `text`.',
  'content[].refusal': 'The text, for type `refusal`.',
  name: 'Name of the speaker, for chat templates that show it.',
  reasoning_content: 'For an assistant: its thinking.',
  refusal: 'For an assistant without `content`: what it said instead.',
  tool_calls: 'For an assistant: the tools it called.',
  'tool_calls[]': { text: '', name: 'ChatCompletionRequestToolCall' },
  'tool_calls[].id': 'Id that the result of the call refers to.',
  'tool_calls[].type': { text: '`function` or `custom`.', default: 'function' },
  'tool_calls[].function': 'The function called.',
  'tool_calls[].function.name': 'The name of the tool.',
  'tool_calls[].function.arguments': { text: 'The arguments, as a string of JSON or as an object.', is: [{ type: 'string' }, { type: 'object' }] },
  'tool_calls[].custom': 'The custom tool called.',
  'tool_calls[].custom.name': 'The name of the tool.',
  'tool_calls[].custom.input': 'The input of the call.',
  tool_call_id: 'For a tool: id of the call that this is the result of.',
  function_call: refused('use `tool_calls`'),
};

const tools: Words = {
  tools: 'Tools that the model may call.',
  'tools[]': { text: '', name: 'ChatCompletionTool' },
  'tools[].type': '`function`, or `custom` for a tool that takes text instead of JSON.',
  'tools[].function': 'A function.',
  ...under('tools[].function', functionWords('parameters')),
  'tools[].custom': 'A custom tool; its fields may also stand next to `type`.',
  ...under('tools[].custom', customToolWords),
  ...toolChoiceWords,
};

export const chatWords: Words = {
  messages: 'The conversation.',
  'messages[]': { text: '', name: 'ChatCompletionRequestMessage' },
  ...under('messages[]', message),
  ...admissionWords,
  ...streamOptions,
  ...answerWords,
  ...samplingWords,
  ...tools,
  ...constraintWords,
  reasoning_effort: 'How much the model thinks, if its chat template supports that; `none` turns thinking off.',
  enable_thinking: 'Whether the model thinks.',
  chat_template_kwargs: { text: 'Variables for the chat template, at most 63; an `enable_thinking` in here wins over the field of that name.', default: {} },
  ...thoughtsWords,
  ...topLogprobsWords,
  ...tellingWords,
  prediction: 'Text that the answer is likely to repeat; the server drafts tokens from it. It changes the speed of the answer; its text stays the same, up to rounding.',
  'prediction.type': '`content`.',
  'prediction.content': { text: 'The text, or a list of its parts.', is: ['string', 'array'] },
  'prediction.content[].type': { text: '`text`.', default: 'text' },
  'prediction.content[].text': 'The text of the part.',
  continue_final_message: { text: 'Continue the last message, which must be an assistant\'s. By default, the answer continues the last message whenever it is an assistant\'s without tool calls; `false` prevents that only together with `add_generation_prompt: true`.', is: ['boolean', { type: 'string', enum: ['content', 'reasoning_content'] }] },
  add_generation_prompt: 'Whether the prompt ends with the start of an assistant turn.',
  ...truncationWords,
  ...foreignWords,
  store: { text: 'No effect: the server does not store chats.', default: false },
  functions: refused(advice.functions, none),
  function_call: refused(advice.function_call, { type: 'string', enum: ['none', 'auto'] }),
  audio: refused(advice.audio),
  modalities: refused(advice.modalities, { type: 'array', items: { const: 'text' } }),
  web_search_options: refused(advice.web_search_options),
  lora: refused('LoRA adapters', none),
  n_indent: refused('indentation', { const: 0 }),
  reasoning_format: refused(advice.reasoning_format, { type: 'string', enum: ['auto', 'deepseek'] }),
  parse_tool_calls: refused(advice.parse_tool_calls, { const: true }),
  echo: refused(advice.echo, { const: false }),
  grammar_lazy: refused(advice.grammar_lazy, { const: false }),
  grammar_triggers: refused(advice.grammar_triggers, none),
  generation_prompt: refused(advice.generation_prompt, { const: '' }),
  response_fields: refused(advice.response_fields, none),
  verbosity: { text: 'No effect, with a warning unless it is `medium`: no chat template supports it.', default: 'medium' },
};

export const completionWords: Words = {
  ...foreignWords,
  prompt: {
    text: 'The text to continue, as a string or as token ids, or a list of these.',
    is: [{ type: 'string' }, { type: 'array', items: { type: 'integer', minimum: 0 }, minItems: 1 }, { type: 'array', items: { anyOf: [{ type: 'string' }, { type: 'array', items: { type: 'integer', minimum: 0 }, minItems: 1 }] }, minItems: 1, maxItems: 128 }],
  },
  ...admissionWords,
  ...streamOptions,
  ...answerWords,
  max_tokens: 'Maximum number of tokens of the answer; 0 only evaluates the prompt, -1 means as many as the context holds. The default is the server\'s (`--max-tokens`).',
  best_of: 'Generate this many answers and return the `n` likeliest; not for streams.',
  echo: { text: 'Start the answer with the prompt.', default: false },
  suffix: { text: 'Text after the answer, for models with fill-in-the-middle tokens.', default: '' },
  logprobs: { text: `Report this many of the likeliest tokens at each position; with \`echo\`, also for the prompt, always before sampling. ${mostChances}`, is: ['integer', { const: false }] },
  ...samplingWords,
  ...constraintWords,
  ...tellingWords,
};

export const embeddingWords: Words = {
  input: {
    text: 'A text, as a string or as token ids, or a list of up to 2,048 of these.',
    is: [{ type: 'string', minLength: 1 }, { type: 'array', items: { type: 'integer', minimum: 0 }, minItems: 1 }, { type: 'array', items: { anyOf: [{ type: 'string', minLength: 1 }, { type: 'array', items: { type: 'integer', minimum: 0 }, minItems: 1 }] }, minItems: 1, maxItems: 2_048 }],
  },
  ...admissionWords,
  encoding_format: { text: 'Return vectors as numbers, or as base64 of little-endian float32.', default: 'float' },
  dimensions: 'Keep only the first so many numbers of each vector, rescaled to length 1. For models trained for it.',
};

const documents = { type: 'array', items: { anyOf: [{ type: 'string', minLength: 1 }, { type: 'object', properties: { text: { type: 'string', minLength: 1 } }, required: ['text'] }] }, minItems: 1, maxItems: 2_048 };

export const rerankWords: Words = {
  query: 'The query.',
  documents: { text: 'Texts, or objects with a `text`.', is: [documents] },
  texts: { text: 'Instead of `documents`; the reply then has the format of Text Embeddings Inference.', is: [documents] },
  ...admissionWords,
  top_n: 'Return only this many of the best.',
  return_documents: { text: 'Include the documents in the reply.', default: false },
  return_text: { text: 'The same, for `texts`.', default: false },
};

export const controlWords: Words = {
  id: 'Id of the answer, from its first chunk.',
  action: '`reasoning_end`.',
};

export const loadWords: Words = { model: 'Any name of a model.', keep_alive: admissionWords['keep_alive']! };
