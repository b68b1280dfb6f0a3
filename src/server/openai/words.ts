// What the fields of OpenAI's bodies mean, for the reference. Kinds and bounds are the readers'.
import { admissionWords, constraintWords, customToolWords, functionWords, priorityWords, refused, samplingWords, streamWords, tellingWords, thoughtsWords, toolChoiceWords, topLogprobsWords, truncationWords, under, type Words } from '../../request/words.js';

const none = { type: 'array', maxItems: 0 };

/** Of other servers: what `refuseAll` refuses of them, and what `readSlot` reads. */
export const foreignWords: Words = {
  stop_token_ids: refused('end at texts with `stop`', none),
  bad_words: refused('ban texts with `logit_bias`', none),
  allowed_token_ids: refused('a `grammar` says what is allowed', none),
  use_beam_search: refused('answers are drawn', { const: false }),
  include_stop_str_in_output: refused('texts of `stop` are left out', { const: false }),
  id_slot: { text: 'No effect, with a warning: conversations are found by their tokens, in whatever slot they lie.', default: -1 },
  cache_prompt: { text: 'No effect, with a warning where it is false: what was evaluated before is not evaluated again.', default: true },
};

/** What `answer-fields` reads. */
export const answerWords: Words = {
  max_tokens: 'Most tokens of the answer; -1 is what the context holds. The default is the server\'s (`--max-tokens`).',
  max_completion_tokens: 'The newer name of `max_tokens`, which counts where both are there.',
  n_predict: 'llama-server\'s name of `max_tokens`.',
  n: { text: 'Answers that are wanted. The prompt is read once; the answers are those of so many requests with `seed`, `seed` + 1 and so on.', default: 1 },
  n_cmpl: "llama-server's name of `n`.",
  stop: { text: 'A text, or several, where the answer ends.', is: ['string', 'array'] },
  ...priorityWords,
};

const streamOptions: Words = {
  ...streamWords,
  stream_options: 'What a stream tells beside the answer.',
  'stream_options.include_usage': { text: 'A last chunk has `usage`.', default: false },
};

const message: Words = {
  role: 'Who speaks; `developer` is `system`.',
  content: { text: 'The text, or parts of it.', is: ['string', 'array'] },
  'content[]': { text: '', name: 'ChatCompletionRequestContentPart' },
  'content[].type': { text: '`text` or `refusal`; nothing else is read.' },
  'content[].text': 'The text of a part of that type.',
  'content[].refusal': 'The text of a part of that type.',
  name: 'Of the speaker, where the chat template shows it.',
  reasoning_content: 'Of an assistant: what it thought.',
  tool_calls: 'Of an assistant: the tools that it called.',
  'tool_calls[]': { text: '', name: 'ChatCompletionRequestToolCall' },
  'tool_calls[].id': 'By which its result names it.',
  'tool_calls[].type': { text: '`function` or `custom`.', default: 'function' },
  'tool_calls[].function': 'What was called.',
  'tool_calls[].function.name': 'The name of the tool.',
  'tool_calls[].function.arguments': { text: 'JSON, as a text or as the object itself.', is: [{ type: 'string' }, { type: 'object' }] },
  'tool_calls[].custom': 'What was called.',
  'tool_calls[].custom.name': 'The name of the tool.',
  'tool_calls[].custom.input': 'The text that it was given.',
  tool_call_id: 'Of a tool: the call that this is the result of.',
  function_call: refused('use `tool_calls`'),
};

const tools: Words = {
  tools: 'What the model may call.',
  'tools[]': { text: '', name: 'ChatCompletionTool' },
  'tools[].type': '`function`, or `custom` for one that takes a text instead of JSON.',
  'tools[].function': 'A function.',
  ...under('tools[].function', functionWords('parameters')),
  'tools[].custom': 'A custom tool; its fields may stand beside `type`, too.',
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
  reasoning_effort: 'How much the model thinks, where its chat template has a word for it; `none` is not at all.',
  enable_thinking: 'Whether the model thinks.',
  chat_template_kwargs: { text: 'Variables of the chat template, at most 63; `enable_thinking` among them counts before the field of that name.', default: {} },
  ...thoughtsWords,
  ...topLogprobsWords,
  ...tellingWords,
  prediction: 'Text that the answer is likely to repeat: it is guessed ahead from it. The answer is the same without.',
  'prediction.type': '`content`.',
  'prediction.content': { text: 'A text, or parts of one.', is: ['string', 'array'] },
  'prediction.content[].type': { text: '`text`.', default: 'text' },
  'prediction.content[].text': 'The text of the part.',
  continue_final_message: { text: 'The answer goes on inside the last message, an assistant\'s. By default it does so wherever an assistant\'s message is the last.', is: ['boolean', { type: 'string', enum: ['content', 'reasoning_content'] }] },
  add_generation_prompt: 'Whether the prompt says that it is the assistant\'s turn.',
  ...truncationWords,
  ...foreignWords,
  store: { text: 'No effect: chats are not kept.', default: false },
  functions: refused('use `tools`', none),
  function_call: refused('use `tool_choice`', { type: 'string', enum: ['none', 'auto'] }),
  audio: refused('only text is'),
  modalities: refused('only text is', { type: 'array', items: { const: 'text' } }),
  web_search_options: refused('nothing is searched'),
  lora: refused('adapters', none),
  n_indent: refused('indentation', { const: 0 }),
  reasoning_format: refused('thoughts are told apart in `reasoning_content`', { type: 'string', enum: ['auto', 'deepseek'] }),
  parse_tool_calls: refused('calls are always told apart', { const: true }),
  echo: refused('the answer is what is new', { const: false }),
  grammar_lazy: refused('grammars hold from the beginning', { const: false }),
  grammar_triggers: refused('grammars hold from the beginning', none),
  generation_prompt: refused('the chat template has it', { const: '' }),
  response_fields: refused('answers are whole', none),
  verbosity: { text: 'No effect, with a warning unless it is `medium`: no chat template knows it.', default: 'medium' },
};

export const completionWords: Words = {
  ...foreignWords,
  prompt: {
    text: 'A text that goes on, as text or tokens, or several of these.',
    is: [{ type: 'string' }, { type: 'array', items: { type: 'integer', minimum: 0 }, minItems: 1 }, { type: 'array', items: { anyOf: [{ type: 'string' }, { type: 'array', items: { type: 'integer', minimum: 0 }, minItems: 1 }] }, minItems: 1, maxItems: 128 }],
  },
  ...admissionWords,
  ...streamOptions,
  ...answerWords,
  max_tokens: 'Most tokens of the answer; 0 reads the prompt alone, -1 is what the context holds. The default is the server\'s (`--max-tokens`).',
  best_of: 'So many answers are made, of which the likeliest `n` are told; not for streams.',
  echo: { text: 'The answer begins with the prompt.', default: false },
  suffix: { text: 'What comes behind the answer, for models that fill gaps in code.', default: '' },
  logprobs: { text: 'So many of the likeliest tokens beside each; with `echo` of the prompt\'s tokens, too.', is: ['integer', { const: false }] },
  ...samplingWords,
  ...constraintWords,
  ...tellingWords,
};

export const embeddingWords: Words = {
  input: {
    text: 'A text, as text or tokens, or up to 2,048 of these.',
    is: [{ type: 'string', minLength: 1 }, { type: 'array', items: { type: 'integer', minimum: 0 }, minItems: 1 }, { type: 'array', items: { anyOf: [{ type: 'string', minLength: 1 }, { type: 'array', items: { type: 'integer', minimum: 0 }, minItems: 1 }] }, minItems: 1, maxItems: 2_048 }],
  },
  ...admissionWords,
  encoding_format: { text: 'Vectors as numbers, or as base64 of little-endian float32.', default: 'float' },
  dimensions: 'Only so many of the first, brought back to length 1, for models that are trained for it.',
};

const documents = { type: 'array', items: { anyOf: [{ type: 'string', minLength: 1 }, { type: 'object', properties: { text: { type: 'string', minLength: 1 } }, required: ['text'] }] }, minItems: 1, maxItems: 2_048 };

export const rerankWords: Words = {
  query: 'What is asked.',
  documents: { text: 'Texts, or objects with a `text`.', is: [documents] },
  texts: { text: 'Instead of `documents`: then the answer is that of Text Embeddings Inference.', is: [documents] },
  ...admissionWords,
  top_n: 'Only so many of the best.',
  return_documents: { text: 'The answer holds the documents, too.', default: false },
  return_text: { text: 'The same beside `texts`.', default: false },
};

export const controlWords: Words = {
  id: 'Of the answer, as its first chunk has it.',
  action: '`reasoning_end`.',
};

export const loadWords: Words = { model: 'Any name of a model.', keep_alive: admissionWords['keep_alive']! };
