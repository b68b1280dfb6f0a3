// What the fields of Ollama's bodies mean, for the reference, and bodies that have all of them.
import { admissionWords, constraintExamples, constraintWords, functionWords, refused, samplingWords, thoughtsWords, topLogprobsWords, under, type Words } from '../../request/words.js';
import { anyContext, readAdmission } from '../exchange/admission.js';
import type { Body } from '../reference/operation.js';
import { readChat, readGenerate } from './chat-request.js';
import { readEmbed } from './embed.js';
import { readShown } from './models.js';
import { readCopy, readPull, readRemove } from './shelf-routes.js';

const none = { type: 'array', maxItems: 0 };
const ofLoading = (what: string): Words[string] => ({ text: `No effect, with a warning: ${what} is set where the server is started.`, is: [{}] });

const options: Words = {
  ...samplingWords,
  num_predict: "Most tokens of the answer; -1 and -2 are what the context holds. The default is the server's (`--max-tokens`).",
  num_ctx: 'No effect, with a warning where it is more than the context holds: that is set where the server is started.',
  stop: { text: 'A text, or several, where the answer ends.', is: ['string', 'array'] },
  num_gpu: ofLoading('what a GPU computes'), main_gpu: ofLoading('the GPU'), num_thread: ofLoading('the number of threads'), num_batch: ofLoading('the size of a batch'),
  use_mmap: ofLoading('how files are read'), use_mlock: ofLoading('how memory is held'), numa: ofLoading('the memory node'), low_vram: ofLoading('the use of memory'),
  ...constraintWords,
  f16_kv: ofLoading('the form of the cache'), num_keep: ofLoading('the context'),
};

const common: Words = {
  ...admissionWords,
  stream: { text: 'Answer piece by piece.', default: true },
  options: 'How the answer is made.',
  ...under('options', options),
  format: { text: '`json`, or a JSON schema that is enforced while the answer is written; `true` is any JSON.', is: [{ type: 'string', enum: ['json', ''] }, { type: 'object' }, { const: true }] },
  think: { text: 'Whether the model thinks, or how much.', is: [{ type: 'boolean' }, { type: 'string', enum: ['low', 'medium', 'high', 'max'] }], default: true },
  ...constraintWords,
  ...thoughtsWords,
  ...topLogprobsWords,
};

const asked = { samplers: ['top_k'], dry_multiplier: 1, dry_sequence_breakers: ['a'], stop: ['a'] };
const constrained = constraintExamples.flatMap((part) => [part, { options: part }]);
const thinking = [{ reasoning_budget_tokens: 1 }, { thinking_budget_tokens: 1 }, { thinking_token_budget: 1 }];

export const chatBody: Body = {
  name: 'OllamaChatRequest',
  read: (body) => [readAdmission(body), readChat(body, anyContext)],
  examples: [
    { model: 'default', messages: [{ role: 'user', content: 'Hello! Who are you?' }], stream: false, options: { num_predict: 40 } },
    {
      messages: [
        { role: 'user', content: 'a' }, { role: 'assistant', tool_calls: [{ function: { name: 'look', arguments: {} } }, { function: { name: 'look' } }] }, { role: 'tool', content: 'a' },
      ],
      tools: [{ type: 'function', function: { name: 'look' } }], options: asked,
    },
    ...[...thinking, ...constrained].map((part) => ({ messages: [], ...part })),
  ],
  words: {
    messages: 'The conversation. Without any the model is loaded, or with `keep_alive: 0` unloaded.',
    'messages[]': { text: '', name: 'OllamaMessage' },
    'messages[].role': 'Who speaks.',
    'messages[].content': { text: 'The text.', default: '' },
    'messages[].images': { text: 'None: only text is read.' },
    'messages[].thinking': 'Of an assistant: what it thought.',
    'messages[].tool_calls': 'Of an assistant: the tools that it called.',
    'messages[].tool_calls[].id': 'By which its result names it.',
    'messages[].tool_calls[].function': 'What was called.',
    'messages[].tool_calls[].function.name': 'The name of the tool.',
    'messages[].tool_calls[].function.arguments': { text: 'What it was called with.', is: [{ type: 'object' }], default: {} },
    'messages[].tool_name': 'Of a tool: its name.',
    'messages[].name': 'Another name of `tool_name`.',
    'messages[].tool_call_id': 'Of a tool: the call that this is the result of. Without it, the first that has no result.',
    ...common,
    truncate: { text: 'Leave out the oldest turns of a conversation that does not fit the context, and say so in `warnings`.', default: false },
    tools: 'What the model may call.',
    'tools[].type': '`function`.',
    'tools[].function': 'A function.',
    ...under('tools[].function', functionWords('parameters')),
  },
};

export const generateBody: Body = {
  name: 'OllamaGenerateRequest',
  read: (body) => [readAdmission(body), readGenerate(body, anyContext)],
  examples: [{ model: 'default', prompt: 'Why is the sky blue?', stream: false, options: { num_predict: 40 } }, { prompt: 'a', options: asked }, ...thinking, ...constrained],
  words: {
    prompt: { text: 'What is asked. Without it the model is loaded, or with `keep_alive: 0` unloaded.', default: '' },
    system: 'What the model is told before.',
    raw: { text: 'The prompt goes to the model as it is, without the chat template.', default: false },
    ...common,
    suffix: refused('use `POST /infill`', { const: '' }),
    template: refused('the model has its own', { const: '' }),
    context: refused('send the conversation to `POST /api/chat`', none),
    images: refused('only text is read', none),
  },
};

export const embedBody: Body = {
  name: 'OllamaEmbedRequest',
  read: (body) => [readAdmission(body), readEmbed(body)],
  examples: [{ model: 'default', input: ['a pack train', 'a llama'] }, { prompt: 'a' }],
  words: {
    dimensions: 'So many of the first numbers of each vector, made of length 1 again.',
    truncate: { text: 'No effect: a text that is longer than the context is an error.' },
    options: { text: 'No effect: what a model is loaded with is said where the server is started.' },
    input: { text: 'A text, or up to 2,048 of them.', is: [{ type: 'string', minLength: 1 }, { type: 'array', items: { type: 'string', minLength: 1 }, minItems: 1, maxItems: 2_048 }] },
    prompt: { text: 'One text, as the older route has it: then the answer has `embedding`.', is: [{ type: 'string', minLength: 1 }] },
    ...admissionWords,
  },
};

const nameWords: Words = { model: 'Any name of a model.', name: 'Another name of `model`.' };

export const showBody: Body = { name: 'OllamaShowRequest', read: readShown, examples: [{ model: 'default' }, { name: 'a' }], words: nameWords };
export const pullBody: Body = {
  name: 'OllamaPullRequest', read: readPull, examples: [{ model: 'owner/repo:Q4_K_M', stream: false }, { name: 'a' }],
  words: { ...nameWords, stream: { text: 'Tell how far it is, line by line.', default: true } },
};
export const copyBody: Body = { name: 'OllamaCopyRequest', read: readCopy, examples: [{ source: 'owner/repo:Q4_K_M', destination: 'chat' }], words: { source: 'A model.', destination: 'Its further name.' } };
export const deleteBody: Body = { name: 'OllamaDeleteRequest', read: readRemove, examples: [{ model: 'chat' }, { name: 'a' }], words: nameWords };
