// The reference entries of llama-server's routes: descriptions of fields, replies, examples.
// Mounted with the routes by dialect.
import { admissionWords, constraintExamples, constraintWords, refused, samplingWords, streamWords, tellingWords, type Words } from '../../request/words.js';
import { advice } from '../../request/unsupported.js';
import { anyContext, readAdmission } from '../exchange/admission.js';
import { chatBody } from '../openai/operations.js';
import { progress, timings } from '../openai/replies.js';
import { answerWords, foreignWords } from '../openai/words.js';
import { errorResponse as error } from '../reference/errors.js';
import { chatErrors, inferenceErrors, type Body, type Operation } from '../reference/operation.js';
import { anything, boolean, integer, list, mapOf, named, object, oneOf, text, told, words } from '../reference/schema.js';
import { tokenLogprob, warnings } from '../reference/shapes.js';
import { readInfillRequest, readNativeRequest } from './completion-request.js';
import { readSlotBody } from './slot-files.js';
import { readDetokenize, readTokenize } from './tokens.js';

const none = { type: 'array', maxItems: 0 };

const common: Words = {
  ...foreignWords,
  ...admissionWords,
  ...streamWords,
  ...answerWords,
  max_tokens: { text: 'Another name of `n_predict`.' },
  n_predict: { text: "Maximum number of tokens of the answer; 0 only evaluates the prompt, -1 means as many as the context holds. The default is the server's (`--max-tokens`)." },
  ...samplingWords,
  ...constraintWords,
  ...tellingWords,
  response_fields: 'Fields of the reply to return; `a/b` is the `b` in `a`. An empty list returns all. No effect on a stream.',
  n_indent: refused('indentation', { const: 0 }),
  grammar_lazy: refused(advice.grammar_lazy, { const: false }),
  lora: 'Not supported: LoRA adapters. Only an empty list is accepted.',
};

const tokenList = { type: 'array', items: { type: 'integer', minimum: 0 }, minItems: 1 };
const promptObject = { type: 'object', properties: { prompt_string: { type: 'string' }, multimodal_data: none }, required: ['prompt_string'] };
const onePrompt = { anyOf: [{ type: 'string' }, tokenList, promptObject] };

const some = { n_predict: 20 };
const all = [{ n_probs: 1, stream: true, stop: ['a'], samplers: ['top_k'], dry_multiplier: 1, dry_sequence_breakers: ['a'], response_fields: ['content'] }, ...constraintExamples];

const nativeBody: Body = {
  name: 'NativeCompletionRequest',
  read: (body) => [readAdmission(body), readNativeRequest(body, anyContext)],
  examples: [{ prompt: 'Once upon a time', ...some }, { prompt: { prompt_string: 'a' } }, ...all.map((part) => ({ prompt: 'a', ...part }))],
  words: {
    prompt: { text: 'The text to continue, as a string, token ids or an object, or a list of these.', is: [...onePrompt.anyOf, { type: 'array', items: onePrompt, minItems: 1, maxItems: 128 }] },
    ...common,
  },
};

const infillBody: Body = {
  name: 'InfillRequest',
  read: (body) => [readAdmission(body), readInfillRequest(body, anyContext)],
  examples: [
    { input_prefix: 'def add(a, b):\n    return ', input_suffix: '\n', ...some }, { input_prefix: '', input_suffix: '', input_extra: [{ filename: 'a', text: 'a' }] },
    ...all.map((part) => ({ input_prefix: '', input_suffix: '', ...part })),
  ],
  words: {
    input_prefix: 'Code before the gap.',
    input_suffix: 'Code after the gap.',
    prompt: { text: 'Text right before the gap, after `input_prefix`; the answer continues it.', default: '' },
    input_extra: 'Other files, for context.',
    'input_extra[].filename': { text: 'Name of the file.', default: 'tmp' },
    'input_extra[].text': 'Contents of the file.',
    ...common,
  },
};

const slotBody: Body = {
  name: 'SlotRequest', read: readSlotBody, examples: [{ filename: 'story.bin' }],
  words: { filename: 'Name of the file in the folder: letters, digits, spaces and `. _ -`. Not needed for `erase`.', ...admissionWords },
};

const tokenizeBody: Body = {
  name: 'TokenizeRequest',
  read: (body) => [readAdmission(body), readTokenize(body)],
  examples: [{ content: 'Hello world', with_pieces: true }],
  words: {
    content: 'The text, at most 8 MiB.', ...admissionWords,
    add_special: { text: 'Add the tokens that a prompt of the model starts and ends with.', default: false },
    parse_special: { text: 'Turn names of control tokens in the text into those tokens.', default: true },
    with_pieces: { text: 'Include the text of each token; at most a million tokens.', default: false },
  },
};

const detokenizeBody: Body = {
  name: 'DetokenizeRequest', read: (body) => [readAdmission(body), readDetokenize(body, anyContext)], examples: [{ tokens: [1, 2, 3] }], words: { tokens: 'The tokens.', ...admissionWords },
};

const answered = {
  index: integer,
  content: text,
  tokens: list(integer),
  id_slot: integer,
  tokens_predicted: integer,
  tokens_evaluated: integer,
};
const chances = told(list(tokenLogprob), 'With `n_probs`.');
const settings = mapOf(anything);

const whole = named('NativeCompletion', object({
  ...answered,
  stop: boolean, model: text,
  generation_settings: told(settings, 'The settings of the answer.'),
  prompt: text, has_new_line: boolean, truncated: boolean,
  stop_type: words('limit', 'eos', 'word'), stopping_word: text, tokens_cached: integer,
  timings, 'completion_probabilities?': chances, 'warnings?': warnings,
}));

const chunk = named('NativeCompletionChunk', oneOf(
  object({ ...answered, stop: boolean, 'timings?': timings, 'prompt_progress?': progress, 'completion_probabilities?': chances }),
  whole,
));

const nativeReply = named('NativeCompletionReply', oneOf(whole, told(list(whole), 'For several answers.'), told(mapOf(anything), 'With `response_fields`; for several answers, a list of these.')));
const model = { model: told(text, 'Name of the model; omit it for the default model.') };
const loadedErrors = ['model_not_found', 'ambiguous_model', 'model_loading', 'model_unusable'] as const;
const count = named('InputTokens', object({ object: 'response.input_tokens', input_tokens: integer, 'warnings?': warnings }));

const props = named('Props', object({
  default_generation_settings: object({ params: settings, n_ctx: integer }),
  total_slots: integer, model_alias: text, model_ftype: text, model_path: told(text, "The model's name; paths are not revealed."),
  modalities: object({ vision: boolean, video: boolean, audio: boolean }),
  endpoint_slots: boolean, endpoint_props: boolean, endpoint_metrics: boolean, ui: boolean,
  chat_template: text, bos_token: text, eos_token: text, build_info: text, is_sleeping: boolean,
}));

const refusedReply = { schema: error, empty: true } as const;

export const operations = {
  complete: {
    id: 'createNativeCompletion', topic: 'Completions', summary: "Continue a text, in llama-server's own format.", about: 'In a stream, the last event of each answer has `stop: true` and the fields of a complete answer, without its text, tokens and probabilities.',
    body: nativeBody, reply: { schema: nativeReply }, stream: { type: 'text/event-stream', event: oneOf(chunk, error) }, error, errors: [...inferenceErrors, 'unsupported_content', 'invalid_grammar', 'invalid_schema', 'chat_unsupported', 'no_token_left'],
  },
  infill: {
    id: 'createInfill', topic: 'Completions', summary: 'Fill in code between a prefix and a suffix.', about: 'Needs a model with fill-in-the-middle tokens. If the context has no room for all, the files of `input_extra` are left out first; then the code around the gap is cut to the parts next to it, with a warning.',
    body: infillBody, reply: { schema: nativeReply }, stream: { type: 'text/event-stream', event: oneOf(chunk, error) }, error, errors: [...inferenceErrors, 'infill_unsupported', 'invalid_grammar', 'invalid_schema', 'chat_unsupported', 'no_token_left'],
  },
  props: {
    id: 'getProps', topic: 'Server', summary: "Get the properties of a model that is or was loaded, in llama-server's format.", query: model, reply: { schema: props }, error, errors: loadedErrors,
  },
  setProps: { id: 'setProps', topic: 'Server', summary: 'Refused: settings belong in the requests.', reply: refusedReply, error, errors: ['not_implemented'] },
  slots: {
    id: 'getSlots', topic: 'Server', summary: 'List the slots of a model that is or was loaded, and which are busy.',
    query: { ...model, fail_on_no_slot: told(text, 'With any value: reply with an error if no slot is free.') },
    reply: { schema: list(object({ id: told(integer, 'Number of the slot.'), n_ctx: told(integer, 'Context size of a request, in tokens.'), speculative: told(boolean, 'Always `false`.'), is_processing: told(boolean, 'The slot answers a request.') })) }, error, errors: [...loadedErrors, 'queue_full'],
  },
  slot: {
    id: 'changeSlot', topic: 'Server', summary: 'Save the KV cache of a conversation to a file, or restore it.',
    about: 'Needs a server with a folder for the files (`--slot-save-path`). `save` writes the conversation that was used last, of those that are idle and still in the KV cache, without those of keys with `cache_salt`; after `restore`, a request that begins like it '
      + 'continues it, in any slot; `restore` needs a free sequence, else it gets a 429; `erase` drops all idle conversations. A file works with the same model, cache types and `--flash-attn`, even after a restart. It contains the conversation, so keep it private. '
      + 'To make room, remove files, not the folder: in its sandbox, a loaded model cannot use a folder that replaces the one it was loaded with.',
    params: { id: 'Number of the slot; no effect, with a warning.' }, query: { ...model, action: { type: 'string', enum: ['save', 'restore', 'erase'], description: 'What to do.', example: 'save' } }, body: slotBody,
    reply: { schema: object({ id_slot: told(integer, 'The slot number that the request named.'), 'filename?': text, 'n_saved?': told(integer, 'Tokens saved.'), 'n_written?': told(integer, 'Bytes written.'), 'n_restored?': told(integer, 'Tokens restored.'), 'n_read?': told(integer, 'Bytes read.'), 'timings?': mapOf({ type: 'number' }), warnings }) },
    error, errors: ['not_implemented', 'file_not_found', 'invalid_value', 'file_unreadable', 'store_unwritable', 'disk_full', ...inferenceErrors],
  },
  tokenize: {
    id: 'tokenize', topic: 'Tokens', summary: 'Get the tokens of a text.', body: tokenizeBody,
    reply: { schema: object({ tokens: told(oneOf(list(integer), list(object({ id: integer, piece: told(oneOf(text, list(integer)), 'A list of bytes if it is not valid UTF-8.') }))), 'Token ids; with `with_pieces`, objects.'), 'warnings?': warnings }) }, error, errors: inferenceErrors,
  },
  detokenize: { id: 'detokenize', topic: 'Tokens', summary: 'Turn tokens back into text.', body: detokenizeBody, reply: { schema: object({ content: told(text, 'The text.'), 'warnings?': warnings }) }, error, errors: inferenceErrors },
  template: { id: 'applyTemplate', topic: 'Tokens', summary: 'Render a chat with the chat template, without answering it.', body: chatBody, reply: { schema: object({ prompt: told(text, 'The prompt that the model would read.'), 'warnings?': warnings }) }, error, errors: chatErrors },
  count: { id: 'countChatTokens', topic: 'Tokens', summary: 'Count the tokens of a chat prompt.', body: chatBody, reply: { schema: count }, error, errors: chatErrors },
} as const satisfies Record<string, Operation>;
