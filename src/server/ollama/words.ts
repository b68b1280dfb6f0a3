// Descriptions of the fields of Ollama's bodies, for the API reference, and bodies that use all of
// them.
import { admissionWords, constraintExamples, constraintWords, functionWords, refused, samplingWords, thoughtsWords, topLogprobsWords, under, type Words } from '../../request/words.js';
import { advice } from '../../request/unsupported.js';
import { anyContext, readAdmission } from '../exchange/admission.js';
import type { Body } from '../reference/operation.js';
import { readChat, readGenerate } from './chat-request.js';
import { readEmbed } from './embed.js';
import { readShown } from './models.js';
import { readCopy, readPull, readRemove } from './shelf-routes.js';

const none = { type: 'array', maxItems: 0 };
const ofLoading = (what: string): Words[string] => ({ text: `No effect, with a warning: ${what} is set when the server starts.`, is: [{}] });

const options: Words = {
  ...samplingWords,
  num_predict: "Maximum number of tokens of the answer; -1, -2 and 0 mean as many as the context holds. The default is the server's (`--max-tokens`).",
  num_ctx: 'No effect, with a warning if it exceeds the context size: that is set when the server starts.',
  stop: { text: 'A text, or several, at which the answer ends.', is: ['string', 'array'] },
  num_gpu: ofLoading('GPU offload'), main_gpu: ofLoading('the GPU'), num_thread: ofLoading('the number of threads'), num_batch: ofLoading('the batch size'),
  use_mmap: ofLoading('file mapping'), use_mlock: ofLoading('memory locking'), numa: ofLoading('the NUMA node'), low_vram: ofLoading('memory use'),
  ...constraintWords,
  f16_kv: ofLoading('the KV cache type'), num_keep: { text: 'No effect, with a warning.', is: [{}] },
};

const common: Words = {
  ...admissionWords,
  stream: { text: 'Stream the answer.', default: true },
  options: 'Sampling and other settings of the answer.',
  ...under('options', options),
  format: { text: '`json` (any object), or a JSON schema, enforced during generation; `true` allows any JSON.', is: [{ type: 'string', enum: ['json', ''] }, { type: 'object' }, { const: true }] },
  think: { text: 'Whether the model thinks, or how much. If omitted, its chat template decides, and most think.', is: [{ type: 'boolean' }, { type: 'string', enum: ['low', 'medium', 'high', 'max'] }] },
  ...constraintWords,
  ...thoughtsWords,
  ...topLogprobsWords,
};

const asked = { samplers: ['top_k'], dry_multiplier: 1, dry_sequence_breakers: ['a'], stop: ['a'] };
const constrained = constraintExamples.flatMap((part) => [part, { options: part }]);
const thinking = [{ reasoning_budget_tokens: 1 }, { thinking_budget_tokens: 1 }, { thinking_token_budget: 1 }];

export const chatBody: Body = {
  name: 'OllamaChatRequest',
  // Without messages, the route loads or unloads the model.
  read: (body) => [readAdmission(body), body.peek('messages') === undefined ? undefined : readChat(body, anyContext)],
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
    messages: 'The conversation. Without messages, the request loads the model, or with `keep_alive: 0` unloads it.',
    'messages[]': { text: '', name: 'OllamaMessage' },
    'messages[].role': 'Role of the speaker.',
    'messages[].content': { text: 'The text.', default: '' },
    'messages[].images': { text: 'Must be empty: only text is supported.' },
    'messages[].thinking': 'For an assistant: its thinking.',
    'messages[].tool_calls': 'For an assistant: the tools it called.',
    'messages[].tool_calls[].id': 'Id that the result of the call refers to.',
    'messages[].tool_calls[].function': 'The function called.',
    'messages[].tool_calls[].function.name': 'The name of the tool.',
    'messages[].tool_calls[].function.arguments': { text: 'The arguments. Integers beyond 2^53 are rounded.', is: [{ type: 'object' }], default: {} },
    'messages[].tool_name': 'For a tool: its name.',
    'messages[].name': 'Another name of `tool_name`.',
    'messages[].tool_call_id': 'For a tool: id of the call that this is the result of. If omitted, the first call of `tool_name` that has no result yet, or else the first such call of any tool.',
    ...common,
    truncate: { text: 'Drop the oldest turns of a conversation that does not fit the context, and say so in `warnings`.', default: false },
    tools: 'Tools that the model may call.',
    'tools[].type': { text: '`function`.', default: 'function' },
    'tools[].function': 'A function.',
    ...under('tools[].function', functionWords('parameters')),
  },
};

export const generateBody: Body = {
  name: 'OllamaGenerateRequest',
  read: (body) => [readAdmission(body), readGenerate(body, anyContext)],
  examples: [{ model: 'default', prompt: 'Why is the sky blue?', stream: false, options: { num_predict: 40 } }, { prompt: 'a', options: asked }, ...thinking, ...constrained],
  words: {
    prompt: { text: 'The prompt. An empty one loads the model, or with `keep_alive: 0` unloads it.', default: '' },
    system: 'System message.',
    raw: { text: 'Send the prompt to the model unchanged, without the chat template; `system` then has no effect.', default: false },
    ...common,
    suffix: refused(advice.suffix, { const: '' }),
    template: refused(advice.template, { const: '' }),
    context: refused(advice.context, none),
    images: refused(advice.images, none),
  },
};

export const embedBody: Body = {
  name: 'OllamaEmbedRequest',
  read: (body) => [readAdmission(body), readEmbed(body)],
  examples: [{ model: 'default', input: ['a pack train', 'a llama'] }, { prompt: 'a' }],
  words: {
    dimensions: 'Keep only the first so many numbers of each vector, rescaled to length 1.',
    truncate: { text: 'No effect: a text longer than the context is an error.' },
    options: { text: 'No effect: the settings of a model are fixed when the server starts.' },
    input: { text: 'A text, or a list of up to 2,048 texts. If it is empty, the model is loaded, and there are no vectors.', is: [{ type: 'string' }, { type: 'array', items: { type: 'string', minLength: 1 }, maxItems: 2_048 }] },
    prompt: { text: 'One text, as in the older route; the reply then has `embedding`.', is: [{ type: 'string' }] },
    ...admissionWords,
  },
};

const nameWords: Words = { model: 'Any name of the model.', name: 'Another name of `model`.' };

export const showBody: Body = { name: 'OllamaShowRequest', read: readShown, examples: [{ model: 'default' }, { name: 'a' }], words: nameWords };
export const pullBody: Body = {
  name: 'OllamaPullRequest', read: readPull, examples: [{ model: 'owner/repo:Q4_K_M', stream: false }, { name: 'a' }],
  words: { ...nameWords, stream: { text: 'Stream the progress, line by line.', default: true } },
};
export const copyBody: Body = { name: 'OllamaCopyRequest', read: readCopy, examples: [{ source: 'owner/repo:Q4_K_M', destination: 'chat' }], words: { source: 'The model.', destination: 'Its additional name.' } };
export const deleteBody: Body = { name: 'OllamaDeleteRequest', read: readRemove, examples: [{ model: 'chat' }, { name: 'a' }], words: nameWords };
