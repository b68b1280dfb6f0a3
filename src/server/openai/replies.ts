// OpenAI's replies as schemas, for the reference. Pure. Tests check real replies against them; the
// types in answer.ts say the same to the compiler.
import { anything, boolean, integer, list, mapOf, named, nothing, nullable, number, object, oneOf, text, told, words } from '../reference/schema.js';
import { tokenLogprob, warnings } from '../reference/shapes.js';

export const usage = named('CompletionUsage', object({
  prompt_tokens: integer,
  completion_tokens: integer,
  total_tokens: integer,
  prompt_tokens_details: object({ cached_tokens: told(integer, 'Prompt tokens reused from the cache.') }),
  'completion_tokens_details?': object({
    'reasoning_tokens?': told(integer, 'Tokens of thinking.'),
    'accepted_prediction_tokens?': told(integer, 'Drafted tokens that were accepted.'),
    'rejected_prediction_tokens?': told(integer, 'Drafted tokens that were rejected; they do not count as completion tokens.'),
  }),
}));

export const timings = named('Timings', object({
  cache_n: told(integer, 'Prompt tokens reused from the cache.'),
  prompt_n: told(integer, 'Prompt tokens evaluated.'),
  prompt_ms: number, prompt_per_token_ms: number, prompt_per_second: number,
  predicted_n: told(integer, 'Tokens of the answer.'),
  predicted_ms: number, predicted_per_token_ms: number, predicted_per_second: number,
  'draft_n?': told(integer, 'Drafted tokens.'),
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
      'reasoning_content?': told(text, 'The thinking of the model.'),
      'tool_calls?': list(toolCall),
    })),
    logprobs,
    'tokens?': tokens,
    finish_reason: finishReason,
  })),
  usage, timings: told(timings, 'Those of the first answer.'), 'warnings?': warnings,
}));

export const chatCompletionChunk = named('ChatCompletionChunk', object({
  id: text, object: 'chat.completion.chunk', created: integer, model: text, 'system_fingerprint?': fingerprint,
  choices: list(object({
    index: integer,
    delta: object({
      'role?': 'assistant', 'content?': text, 'reasoning_content?': text,
      'tool_calls?': list(object({
        index: integer,
        'id?': told(text, 'Only in the first piece of a call, like `type` and `name`.'),
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
  usage, timings: told(timings, 'Those of the first answer.'), 'warnings?': warnings,
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
  told(list(object({ index: integer, score: number, 'text?': text })), 'If the request has `texts`: the format of Text Embeddings Inference.'),
));

const reason = object({ message: text, code: text });

export const model = named('Model', object({
  id: told(text, 'Name of the model.'), object: 'model', created: told(integer, 'When its file was made, in seconds since 1970.'), owned_by: told(text, 'Always `recua`.'),
  aliases: told(list(text), 'Other names that requests may use.'),
  status: told(object({
    value: words('unloaded', 'sleeping', 'loading', 'loaded', 'unloading', 'failed'),
    'fraction?': told(number, 'Progress of loading, 0 to 1.'),
    'failed?': told(boolean, 'True if the model could not be loaded; `reason` says why.'), 'reason?': reason,
    'running?': told(integer, 'Running requests.'), 'waiting?': told(integer, 'Queued requests.'),
    'tokens_per_second?': told(number, 'Over the last seconds.'),
  }), 'State of the model. While it is `sleeping`, its conversations are on disk.'),
  'file_bytes?': told(integer, 'Size of its files, if it is known; that of a model in several files may be known only once it is loaded.'),
  memory_bytes: told(integer, 'Memory it uses, or used when it was loaded last; before that an estimate, and 0 until a request names it.'),
  requests: told(integer, 'Requests that use the model now, or wait for it to be loaded (`/health` has the total since the start).'),
  pinned: told(boolean, 'The model is never unloaded to make room, as that of a single-model server.'), 'fixed?': told(boolean, 'Requests cannot unload the model: a single-model server keeps it loaded. It is then `pinned`, too.'),
  expires_at: told(nullable(integer), 'When the model will be unloaded, in seconds since 1970; null if it stays loaded, is in use or is not loaded.'),
  'file?': told(words('changed', 'gone'), 'The file on disk is no longer the one that was loaded. The server keeps serving the loaded model; the next load reads the new file.'),
  'max_model_len?': told(integer, 'Actual context size, known once the model was loaded, under the names that clients look for.'),
  'context_length?': told(integer, 'The same.'), 'context_window?': told(integer, 'The same.'),
  'capabilities?': told(list(words('completion', 'embedding', 'rerank', 'tools', 'reasoning')), 'What the model can do; `tools` and `reasoning` are inferred from its chat template.'),
  'meta?': told(object({
    vocab_type: told(integer, "llama.cpp's number for the kind of vocabulary."), n_vocab: told(integer, 'Tokens of the vocabulary.'), n_ctx: told(integer, 'Context size of each request, in tokens.'),
    n_ctx_train: told(integer, 'Context size in training; 0 if the file does not say.'), n_embd: told(integer, 'Dimensions of an embedding vector.'), n_params: told(integer, 'Number of weights.'),
    size: told(integer, 'Bytes of the weights.'), ftype: told(text, 'Quantization, such as `Q8_0`.'),
    devices: told(list(text), 'Devices in use besides the CPU.'), device_memory_bytes: told(integer, 'Memory that it takes on these devices together.'), n_gpu_layers: told(integer, 'Layers that these devices compute.'), n_layers: told(integer, 'Layers that can go to a GPU: those of the model and the output layer.'), description: told(text, "llama.cpp's description, such as `llama 1B Q8_0`."),
    fingerprint: told(text, 'Changes when another file has the name, or the file is changed; does not reveal the path.'),
  }), 'Known once the model was loaded.'),
}));

export const modelList = named('ModelList', object({ object: 'list', data: list(model) }));
export const modelChanged = object({ success: boolean, model: told(model, 'The model, with its new state.') });
export const controlReply = object({ success: boolean });

export const modelEvent = named('ModelEvent', oneOf(
  object({ model: text, event: 'status_change', data: object({ status: text, 'progress?': number, 'error?': reason }) }),
  told(object({ model: '*', event: 'ping' }), 'Keeps the connection alive while nothing changes.'),
));
