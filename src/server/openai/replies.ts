// OpenAI's replies as schemas, for the reference. Pure. Held to by the tests; the types of answer
// say the same to the compiler.
import { anything, boolean, integer, list, mapOf, named, nothing, nullable, number, object, oneOf, text, told, words } from '../reference/schema.js';
import { tokenLogprob, warnings } from '../reference/shapes.js';

export const usage = named('CompletionUsage', object({
  prompt_tokens: integer,
  completion_tokens: integer,
  total_tokens: integer,
  prompt_tokens_details: object({ cached_tokens: told(integer, 'Tokens of the prompt that did not have to be read again.') }),
  'completion_tokens_details?': object({
    'reasoning_tokens?': told(integer, 'Tokens that the model thought with.'),
    'accepted_prediction_tokens?': told(integer, 'Tokens that were guessed ahead and came true.'),
    'rejected_prediction_tokens?': told(integer, 'Tokens that were guessed ahead in vain; they are no completion tokens.'),
  }),
}));

export const timings = named('Timings', object({
  cache_n: told(integer, 'Tokens of the prompt that did not have to be read again.'),
  prompt_n: told(integer, 'Tokens of the prompt that were read.'),
  prompt_ms: number, prompt_per_token_ms: number, prompt_per_second: number,
  predicted_n: told(integer, 'Tokens of the answer.'),
  predicted_ms: number, predicted_per_token_ms: number, predicted_per_second: number,
  'draft_n?': told(integer, 'Tokens that were guessed ahead.'),
  'draft_n_accepted?': integer,
}));

export const progress = named('PromptProgress', object({ total: integer, cache: integer, processed: integer, time_ms: number }));

const logprobs = nullable(named('ChatLogprobs', object({ content: list(tokenLogprob), refusal: nothing })));
const tokens = told(list(integer), 'With `return_tokens`.');
const finishReason = words('stop', 'length', 'tool_calls');
const fingerprint = told(text, 'The version of llama.cpp.');

const toolCall = named('ChatCompletionMessageToolCall', oneOf(
  object({ id: text, type: 'function', function: object({ name: text, arguments: told(text, 'JSON, as the model wrote it.') }) }),
  object({ id: text, type: 'custom', custom: object({ name: text, input: text }) }),
));

export const chatCompletion = named('ChatCompletion', object({
  id: text, object: 'chat.completion', created: integer, model: text, system_fingerprint: fingerprint,
  choices: list(object({
    index: integer,
    message: named('ChatCompletionMessage', object({
      role: 'assistant',
      content: nullable(text),
      refusal: nothing,
      annotations: list(anything),
      'reasoning_content?': told(text, 'What the model thought.'),
      'tool_calls?': list(toolCall),
    })),
    logprobs,
    'tokens?': tokens,
    finish_reason: finishReason,
  })),
  usage, timings, 'warnings?': warnings,
}));

export const chatCompletionChunk = named('ChatCompletionChunk', object({
  id: text, object: 'chat.completion.chunk', created: integer, model: text, 'system_fingerprint?': fingerprint,
  choices: list(object({
    index: integer,
    delta: object({
      'role?': 'assistant', 'content?': text, 'reasoning_content?': text,
      'tool_calls?': list(object({
        index: integer,
        'id?': told(text, 'In the first piece of a call, as `type` and `name`.'),
        'type?': words('function', 'custom'),
        'function?': object({ 'name?': text, arguments: text }),
        'custom?': object({ 'name?': text, input: text }),
      })),
    }),
    logprobs,
    'tokens?': tokens,
    finish_reason: nullable(finishReason),
  })),
  'usage?': nullable(usage),
  'timings?': timings,
  'prompt_progress?': progress,
  'warnings?': warnings,
}));

const legacyLogprobs = nullable(named('CompletionLogprobs', object({
  tokens: list(text), token_logprobs: list(nullable(number)), top_logprobs: list(nullable(mapOf(number))), text_offset: list(integer),
})));

const completionChoice = (reason: typeof finishReason) => object({ text, index: integer, logprobs: legacyLogprobs, 'tokens?': tokens, finish_reason: reason });

export const completion = named('Completion', object({
  id: text, object: 'text_completion', created: integer, model: text, system_fingerprint: fingerprint,
  choices: list(completionChoice(finishReason)),
  usage, timings, 'warnings?': warnings,
}));

export const completionChunk = named('CompletionChunk', object({
  id: text, object: 'text_completion', created: integer, model: text, 'system_fingerprint?': fingerprint,
  choices: list(completionChoice(nullable(finishReason))),
  'usage?': nullable(usage), 'timings?': timings, 'prompt_progress?': progress, 'warnings?': warnings,
}));

const readUsage = object({ prompt_tokens: integer, total_tokens: integer });

export const embeddingList = named('EmbeddingList', object({
  object: 'list',
  data: list(named('Embedding', object({ object: 'embedding', index: integer, embedding: oneOf(list(number), told(text, 'With `encoding_format: "base64"`: little-endian float32.')) }))),
  model: text, usage: readUsage, 'warnings?': warnings,
}));

export const rerankReply = named('RerankResponse', oneOf(
  object({
    object: 'list', model: text, usage: readUsage,
    results: list(object({ index: integer, relevance_score: number, 'document?': object({ text }) })),
    'warnings?': warnings,
  }),
  told(list(object({ index: integer, score: number, 'text?': text })), 'Where the request has `texts`, as Text Embeddings Inference answers.'),
));

const reason = object({ message: text, code: text });

export const model = named('Model', object({
  id: text, object: 'model', created: integer, owned_by: text, aliases: list(text),
  status: told(object({
    value: words('unloaded', 'sleeping', 'loading', 'loaded', 'unloading', 'failed'),
    'fraction?': told(number, 'Of loading, 0 to 1.'),
    'failed?': boolean, 'reason?': reason,
    'running?': told(integer, 'Requests that are worked on.'), 'waiting?': integer,
    'tokens_per_second?': told(number, 'Over the last seconds.'),
  }), 'What the model is at. One that is `sleeping` has its conversations on the disk.'),
  memory_bytes: told(integer, 'What it takes, 0 where it is not loaded.'),
  requests: told(integer, 'Requests that it is lent to.'),
  pinned: told(boolean, 'It is never unloaded to make room.'), 'fixed?': told(boolean, 'It is neither loaded nor unloaded by requests.'),
  expires_at: told(nullable(integer), 'When it leaves, in seconds since 1970; null: it stays.'),
  'file?': told(words('changed', 'gone'), 'What was loaded is not what lies there now. It is served on, and the next load takes what is there.'),
  'max_model_len?': told(integer, 'The context that it really has, once it was loaded, by the names that clients look for.'),
  'context_length?': integer, 'context_window?': integer,
  'capabilities?': list(words('completion', 'embedding', 'rerank', 'tools', 'reasoning')),
  'meta?': object({
    vocab_type: integer, n_vocab: integer, n_ctx: integer, n_ctx_train: integer, n_embd: integer, n_params: integer, size: integer, ftype: text,
    devices: list(text), n_gpu_layers: integer, n_layers: integer, description: text,
    fingerprint: told(text, 'Which file this is, and not where it lies.'),
  }),
}));

export const modelList = named('ModelList', object({ object: 'list', data: list(model) }));
export const modelChanged = object({ success: boolean, model });
export const controlReply = object({ success: boolean });

export const modelEvent = named('ModelEvent', oneOf(
  object({ model: text, event: 'status_change', data: object({ status: text, 'progress?': number, 'error?': reason }) }),
  told(object({ model: '*', event: 'ping' }), 'Where nothing changes.'),
));
