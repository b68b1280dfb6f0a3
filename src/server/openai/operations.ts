// The reference entries of OpenAI's routes. Mounted with the routes by dialect.
import type { Fields } from '../../request/fields.js';
import { constraintExamples, toolExamples } from '../../request/words.js';
import { anyContext, readAdmission } from '../exchange/admission.js';
import { errorResponse } from '../reference/errors.js';
import { chatErrors, inferenceErrors, type Body, type Operation } from '../reference/operation.js';
import { oneOf } from '../reference/schema.js';
import { readChatRequest } from './chat-request.js';
import { readCompletionRequest } from './completion-request.js';
import { readControl } from './control.js';
import { readEmbeddingRequest } from './embeddings.js';
import { readLoad, readUnload } from './models.js';
import { readRerank } from './rerank.js';
import * as replies from './replies.js';
import { chatWords, completionWords, controlWords, embeddingWords, loadWords, rerankWords } from './words.js';

const hello = [{ role: 'user', content: 'Hello! Who are you?' }];
const call = { id: 'call_1', type: 'function', function: { name: 'look', arguments: '{}' } };
const customCall = { id: 'call_2', type: 'custom', custom: { name: 'say', input: 'a' } };

export const chatBody: Body = {
  name: 'CreateChatCompletionRequest',
  read: (body: Fields) => [readAdmission(body), readChatRequest(body, anyContext)],
  examples: [
    { messages: hello, max_tokens: 40 },
    {
      messages: [
        { role: 'user', content: [{ type: 'text', text: 'a' }] }, { role: 'assistant', content: [{ type: 'refusal', refusal: 'a' }], tool_calls: [call, customCall] },
        { role: 'tool', tool_call_id: 'call_1', content: 'a' }, { role: 'assistant', refusal: 'a' }, { role: 'user', content: 'a' },
      ],
      prediction: { type: 'content', content: [{ type: 'text', text: 'a' }] }, stream_options: {}, logprobs: true, top_logprobs: 1, stop: ['a'], samplers: ['top_k'],
      dry_multiplier: 1, dry_sequence_breakers: ['a'], logit_bias: {}, stream: true, reasoning_budget_tokens: 1, thinking_budget_tokens: 1, thinking_token_budget: 1,
    },
    { messages: hello, prediction: { type: 'content', content: 'a' }, thinking_budget_tokens: 1 },
    { messages: hello, thinking_token_budget: 1 },
    ...[...constraintExamples, ...toolExamples].map((part) => ({ messages: hello, ...part })),
  ],
  words: chatWords,
};

const completionBody: Body = {
  name: 'CreateCompletionRequest',
  read: (body) => [readAdmission(body), readCompletionRequest(body, anyContext)],
  examples: [
    { prompt: 'Once upon a time', max_tokens: 20 },
    { prompt: [[1]], stream: true, stream_options: {}, stop: ['a'], samplers: ['top_k'], dry_multiplier: 1, dry_sequence_breakers: ['a'], logprobs: 1 },
    ...constraintExamples.map((part) => ({ prompt: 'a', ...part })),
  ],
  words: completionWords,
};

const embeddingBody: Body = {
  name: 'CreateEmbeddingRequest', read: (body) => [readAdmission(body), readEmbeddingRequest(body)], examples: [{ input: ['a pack train', 'a llama'] }], words: embeddingWords,
};

const rerankBody: Body = {
  name: 'RerankRequest', read: (body) => [readAdmission(body), readRerank(body)],
  examples: [{ query: 'What is a recua?', documents: ['A train of llamas.', 'A kind of bread.'] }, { query: 'a', texts: ['a'], return_text: true }], words: rerankWords,
};

const loadBody: Body = { name: 'LoadModelRequest', read: readLoad, examples: [{ model: 'builtin' }], words: loadWords };
const unloadBody: Body = { name: 'UnloadModelRequest', read: readUnload, examples: [{ model: 'builtin' }], words: { model: loadWords['model']! } };
const controlBody: Body = { name: 'ChatControlRequest', read: readControl, examples: [{ id: 'chatcmpl-0123', action: 'reasoning_end' }], words: controlWords };

const error = errorResponse;
const sse = 'text/event-stream';
const unloadErrors = ['unknown_parameter', 'model_not_found', 'ambiguous_model', 'model_fixed'] as const;
const loadErrors = ['unknown_parameter', 'model_not_found', 'ambiguous_model', 'model_unusable', 'invalid_gguf', 'model_too_large', 'sandbox_unavailable', 'queue_full'] as const;

export const operations = {
  chat: {
    id: 'createChatCompletion',
    topic: 'Chat completions',
    summary: "Answer a conversation, in OpenAI's chat completions format.",
    about:
      'A stream ends with `data: [DONE]`; a stream that failed ends with an error event instead. Fast models send several tokens per chunk, at about 60 chunks a second. While a model loads or the request is queued, empty chunks keep the connection alive.',
    body: chatBody,
    reply: { schema: replies.chatCompletion },
    stream: { type: sse, event: oneOf(replies.chatCompletionChunk, error) },
    error,
    errors: chatErrors,
  },
  control: {
    id: 'controlChatCompletion',
    topic: 'Chat completions',
    summary: 'End the thinking of a running answer.',
    about: 'The answer must have been requested with `reasoning_control: true`. Ids of Responses and Messages work too.',
    body: controlBody,
    reply: { schema: replies.controlReply },
    error,
    errors: ['unknown_parameter', 'answer_not_found'],
  },
  complete: {
    id: 'createCompletion',
    topic: 'Completions',
    summary: "Continue a text, in OpenAI's completions format.",
    body: completionBody,
    reply: { schema: replies.completion },
    stream: { type: sse, event: oneOf(replies.completionChunk, error) },
    error,
    errors: [...inferenceErrors, 'invalid_grammar', 'invalid_schema', 'infill_unsupported', 'chat_unsupported', 'no_token_left'],
  },
  embed: {
    id: 'createEmbedding',
    topic: 'Embeddings and reranking',
    summary: 'Compute normalized embedding vectors for one or many texts.',
    about: 'Inputs are never truncated: an input longer than the context is an error.',
    body: embeddingBody,
    reply: { schema: replies.embeddingList },
    error,
    errors: [...inferenceErrors, 'embeddings_unsupported'],
  },
  rerank: {
    id: 'rerank',
    topic: 'Embeddings and reranking',
    summary: 'Rank documents by how well they answer a query.',
    about: 'Needs a reranking model. Start the server with `--pooling rank` if the model file does not declare it.',
    body: rerankBody,
    reply: { schema: replies.rerankReply },
    error,
    errors: [...inferenceErrors, 'rerank_unsupported'],
  },
  models: {
    id: 'listModels',
    topic: 'Models',
    summary: 'List the models that requests can name, loaded or not.',
    reply: { schema: replies.modelList },
    error,
    errors: [],
  },
  model: {
    id: 'retrieveModel',
    topic: 'Models',
    summary: 'Get one model.',
    params: { id: 'Any name of the model; it may contain slashes.' },
    reply: { schema: replies.model },
    error,
    errors: ['model_not_found', 'ambiguous_model'],
  },
  load: {
    id: 'loadModel',
    topic: 'Models',
    summary: 'Load a model, and reply when it is loaded.',
    about: 'A [single-model server](models.md#single-model-servers) only waits until its model is loaded.',
    body: loadBody,
    reply: { schema: replies.modelChanged },
    error,
    errors: loadErrors,
  },
  unload: {
    id: 'unloadModel',
    topic: 'Models',
    summary: 'Unload a model, after its running answers are complete.',
    about: 'A [single-model server](models.md#single-model-servers) refuses.',
    body: unloadBody,
    reply: { schema: replies.modelChanged },
    error,
    errors: unloadErrors,
  },
  events: {
    id: 'watchModels',
    topic: 'Models',
    summary: 'Stream an event whenever a model changes state.',
    about: 'The first event comes with the first change.',
    reply: { schema: replies.modelEvent, empty: true },
    stream: { type: sse, event: replies.modelEvent },
    error,
    errors: [],
  },
} as const satisfies Record<string, Operation>;
