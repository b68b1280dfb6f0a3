// The reference entries of Ollama's routes, with their replies as schemas. Mounted with the routes
// by dialect.
import { details, errorCode } from '../reference/errors.js';
import { chatErrors, inferenceErrors, type Operation } from '../reference/operation.js';
import { anything, boolean, integer, list, mapOf, named, number, object, oneOf, text, told, words, type Schema } from '../reference/schema.js';
import { tokenLogprob, warnings } from '../reference/shapes.js';
import { chatBody, copyBody, deleteBody, embedBody, generateBody, pullBody, showBody } from './words.js';

const error = named('OllamaErrorResponse', { ...object({ error: told(text, 'What the server expected, what it got, and what to do.'), code: errorCode, 'param?': text }), ...details });
const topic = 'Ollama';
const ndjson = 'application/x-ndjson';

const end = {
  'done_reason?': words('stop', 'length', 'load', 'unload'),
  'total_duration?': told(integer, 'In nanoseconds, like the other durations.'), 'load_duration?': integer,
  'prompt_eval_count?': told(integer, 'Tokens of the prompt.'), 'prompt_eval_duration?': integer,
  'eval_count?': told(integer, 'Tokens of the answer.'), 'eval_duration?': integer,
  'reasoning_tokens?': told(integer, 'How many of these were thinking.'),
  'warnings?': warnings,
};

const answer = (said: Record<string, Schema>): Schema => object({
  model: text, created_at: text, ...said, 'logprobs?': list(tokenLogprob), done: told(boolean, 'True in a complete answer and in the last line of a stream; only these have fields below.'), ...end,
});

const chat = named('OllamaChatResponse', answer({
  message: object({
    role: 'assistant', content: text, 'thinking?': text,
    'tool_calls?': list(object({ id: text, function: object({ index: integer, name: text, arguments: anything }) })),
  }),
}));

const generate = named('OllamaGenerateResponse', answer({ response: text, 'thinking?': text }));

const detail = named('OllamaModelDetails', object({ parent_model: text, format: 'gguf', family: text, families: list(text), parameter_size: text, quantization_level: text }));
const model = {
  name: told(text, 'Name of the model.'), model: told(text, 'The same.'), modified_at: told(text, 'When its file was made.'), size: told(integer, 'In bytes.'),
  digest: told(text, 'A hash of the name and the time, not of the file.'), details: detail,
};

const line = named('OllamaPullProgress', object({ status: text, 'digest?': text, 'total?': integer, 'completed?': integer }));
const shelfErrors = ['unknown_parameter', 'model_fixed', 'model_not_found'] as const;
const hubErrors = [
  'hub_unreachable', 'hub_offline', 'hub_broken', 'hub_rate_limited', 'hub_token_missing', 'hub_token_refused', 'license_not_accepted', 'repository_not_found', 'revision_not_found',
  'repository_file_not_found', 'download_failed', 'download_wrong_content', 'download_changed', 'download_corrupt', 'disk_full', 'store_unwritable', 'ambiguous_model', 'invalid_name', 'invalid_gguf',
] as const;
/** Of copying and deleting, which ask the hub nothing. */
const storeErrors = ['ambiguous_model', 'file_unreadable', 'store_unwritable', 'disk_full'] as const;
const onMachine = "Only for clients on the server's own machine; if the server has API keys, only for keys with `admin`.";

export const operations = {
  chat: {
    id: 'ollamaChat', topic, summary: 'Answer a conversation: as a stream of lines, unless `stream` is false.', body: chatBody,
    reply: { schema: chat }, stream: { type: ndjson, event: oneOf(chat, error) }, error, errors: chatErrors,
  },
  generate: {
    id: 'ollamaGenerate', topic, summary: 'Answer one prompt: as a stream of lines, unless `stream` is false.', body: generateBody,
    reply: { schema: generate }, stream: { type: ndjson, event: oneOf(generate, error) }, error, errors: chatErrors,
  },
  embed: {
    id: 'ollamaEmbed', topic, summary: 'Compute normalized embedding vectors for texts.', about: 'Texts are never truncated: a text longer than the context is an error.', body: embedBody,
    reply: { schema: oneOf(
      object({ model: text, embeddings: list(list(number)), total_duration: integer, load_duration: integer, prompt_eval_count: integer, 'warnings?': warnings }),
      told(object({ embedding: told(list(number), 'If the request has `prompt`, instead of the fields above.'), 'warnings?': warnings }), 'If the request has `prompt`.'),
    ) },
    error, errors: [...inferenceErrors, 'embeddings_unsupported'],
  },
  show: {
    id: 'ollamaShow', topic, summary: 'Describe a model.', body: showBody,
    reply: { schema: object({
      modelfile: text, parameters: text, template: text, 'license?': text, details: detail, modified_at: text, model_info: mapOf(anything),
      capabilities: list(words('completion', 'tools', 'thinking', 'embedding')),
    }) },
    error, errors: ['unknown_parameter', 'model_not_found', 'ambiguous_model'],
  },
  pull: {
    id: 'ollamaPull', topic, summary: 'Download a model from the hub.', about: onMachine, body: pullBody, reply: { schema: line }, stream: { type: ndjson, event: oneOf(line, error) }, error,
    errors: [...shelfErrors, ...hubErrors, 'cancelled', 'download_removed'],
  },
  copy: { id: 'ollamaCopy', topic, summary: 'Give a model a second name; no file is copied.', about: onMachine, body: copyBody, reply: { schema: anything, empty: true }, error, errors: [...shelfErrors, ...storeErrors, 'invalid_name', 'alias_taken'] },
  remove: { id: 'ollamaDelete', topic, summary: 'Remove a model, or a second name of one.', about: onMachine, body: deleteBody, reply: { schema: anything, empty: true }, error, errors: [...shelfErrors, ...storeErrors, 'invalid_usage'] },
  tags: {
    id: 'ollamaTags', topic, summary: 'List the models that requests can name.', about: 'Of a model that was not loaded since the server started, only the name, the time and the size of its file are shown; details are empty.',
    reply: { schema: object({ models: list(object(model)) }) }, error, errors: [],
  },
  ps: {
    id: 'ollamaPs', topic, summary: 'List the loaded models.',
    reply: { schema: object({ models: list(object({ ...model, size_vram: told(integer, 'The part of `size` that its layers on GPUs take, by their number.'), context_length: told(integer, 'Context size of each request, in tokens.'), expires_at: told(text, 'When the model will be unloaded; a time far away if it stays.') })) }) }, error, errors: [],
  },
  version: { id: 'ollamaVersion', topic, summary: 'The Ollama version whose API this is.', reply: { schema: object({ version: told(text, 'Such as `0.12.6`.') }) }, error, errors: [] },
  greeting: { id: 'greet', topic: 'Server', summary: 'A line of text that shows the server is up; browsers get the chat page.', reply: { schema: text, type: 'text/plain' }, error, errors: [] },
} as const satisfies Record<string, Operation>;
