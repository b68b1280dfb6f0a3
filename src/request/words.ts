// Descriptions, for the API reference, of the fields that dialects share. Types and bounds come
// from the readers. Pure. Used by the dialects' operations.
import { answerSettings, samplerSettings } from '../settings/answer.js';

export interface FieldWords {
  text: string;
  /** Accepted types, for fields that a reader takes with `get`: kinds of `Ask`, or schemas. */
  is?: readonly ('string' | 'integer' | 'number' | 'boolean' | 'word' | 'array' | 'object' | Readonly<Record<string, unknown>>)[];
  /** Sending this value is the same as leaving the field out. */
  default?: unknown;
  /** Name of its schema, if it becomes a component of the document. */
  name?: string;
}

/** Keyed by the field's place: `messages[].role`. */
export type Words = Readonly<Record<string, string | FieldWords>>;

/** The same fields, nested inside `place`. */
export function under(place: string, words: Words): Words {
  return Object.fromEntries(Object.entries(words).map(([key, value]) => [key.startsWith('[') ? place + key : `${place}.${key}`, value]));
}

/** A known field that is not supported. `neutral`: the values that request nothing and so pass. */
export function refused(what: string, neutral?: Readonly<Record<string, unknown>>): FieldWords {
  return neutral
    ? { text: `Not supported: ${what}. Only a value that requests nothing is accepted.`, is: [neutral] }
    : { text: `Not supported: ${what}.`, is: [{ type: 'null' }] };
}

const samplers: Readonly<Record<keyof typeof samplerSettings, string>> = {
  topP: 'Keep the likeliest tokens whose probabilities add up to this; 1 is off.',
  topK: 'Keep this many of the likeliest tokens; 0 and -1 are off.',
  minP: "Drop tokens below this fraction of the likeliest token's probability; 0 is off.",
  typicalP: 'Locally typical sampling; 1 is off.',
  topNSigma: 'Keep tokens within this many standard deviations of the best logit; 0 and -1 are off.',
  repeatPenalty: 'Penalty on tokens that already occurred; 1 is off.',
  penaltyLastN: 'How many tokens back the penalties look; -1 means the whole context.',
  frequencyPenalty: 'Penalty for each occurrence of a token.',
  presencePenalty: 'Penalty on every token that occurred at least once.',
  dryMultiplier: 'Strength of DRY, which penalizes repeated phrases; 0 is off.',
  dryBase: 'Factor by which the DRY penalty grows with each repeated token of a phrase.',
  dryAllowedLength: 'How many tokens a phrase may repeat before DRY penalizes it.',
  dryPenaltyLastN: 'How many tokens back DRY looks; -1 means the whole context.',
  xtcProbability: 'How often XTC drops the likeliest tokens; 0 is never.',
  xtcThreshold: 'XTC drops the tokens above this probability, except the least likely of them; above 0.5, XTC is off.',
  mirostatTau: 'The entropy that Mirostat aims at.',
  mirostatEta: 'Learning rate of Mirostat.',
  dynatempRange: 'How far the temperature may move up and down; it is lower where the model is certain; 0 is off.',
  dynatempExponent: "How the dynamic temperature follows the distribution's entropy.",
  adaptiveTarget: 'Probability that the sampler `adaptive_p` aims at, if `samplers` lists it; -1 is off.',
  adaptiveDecay: 'How slowly `adaptive_p` forgets.',
  minKeep: 'Minimum number of tokens that `typ_p`, `top_p`, `min_p` and `xtc` each keep.',
  minTokens: 'Before this many tokens, neither an end-of-text token nor a stop string ends the answer; the end of a grammar still does.',
};

const samplerFields = Object.entries(samplerSettings).flatMap(([key, setting]): [string, FieldWords][] => {
  const [first, ...others] = setting.fields;
  const text = samplers[key as keyof typeof samplerSettings];
  return [[first, { text, default: setting.fallback }], ...others.map((name): [string, FieldWords] => [name, { text: `Another name of \`${first}\`.` }])];
});

/** `telling-fields` limits them. */
export const mostChances = 'All answers of a request together can have 2,000,000 log probabilities; answers without a limit on tokens end there.';

/** Fields of `readSampling`. */
export const samplingWords: Words = {
  temperature: { text: '0 always takes the likeliest token. `--temp` of the server changes the default.', default: answerSettings.temperature.fallback },
  ...Object.fromEntries(samplerFields),
  mirostat: { text: 'Version of Mirostat; 0 is off. It replaces all other samplers, including the penalties and DRY, but not the temperature; at temperature 0 it has no effect.', default: 0 },
  seed: { text: 'The same request with the same seed gets the same answer, except where rounding decides: tokens that were cached, or other requests in the same step, change the last digits. Without a seed, or with -1, the server picks one at random. A seed may have 64 bits, of which only the low 32 count.', default: -1 },
  logit_bias: {
    text: 'Bias to add to the logits of tokens, -100 to 100; `false` bans the token. Keys are token ids, or texts, whose tokens all get the bias. A list of `[key, bias]` pairs works too.',
    is: [{ type: 'object', additionalProperties: { anyOf: [{ type: 'number', minimum: -100, maximum: 100 }, { const: false }] } }, 'array'],
    default: {},
  },
  ignore_eos: { text: 'End-of-text tokens do not end the answer: it goes on until its maximum length or a stop string.', default: false },
  samplers: {
    text: "llama.cpp's samplers in the order to apply them, by name (`penalties`, `dry`, `top_n_sigma`, `top_k`, `typ_p`, `top_p`, `min_p`, `xtc`, `temperature`, `infill`, `adaptive_p`) or as a string of their letters (`edskypmxtia`, in this order), each once. `infill` must come after `top_k`, with a `top_k` from 1 to 256. An empty list means the default: the first nine in this order.",
    is: [{ type: 'string', maxLength: 11 }, 'array'],
  },
  dry_sequence_breakers: { text: 'Texts at which DRY starts over, of at most 40 bytes each; by default a line feed, `:`, `"` and `*`. Only read if `dry_multiplier` is above 0.' },
};

/** Fields of admission. */
export const admissionWords: Words = {
  model: 'Any name of the model; an unknown name is a 404, which suggests similar names if there are any. Omit it for the default model.',
  keep_alive: {
    text: 'How long the model stays loaded after this request: seconds, or a string such as "10m" or "1h30m"; negative means forever.',
    is: [{ type: 'number' }, { type: 'string' }],
  },
};

const schemaOrTrue = { anyOf: [{ type: 'object' }, { type: 'boolean' }] };
const schemaText = { anyOf: [{ type: 'object' }, { type: 'boolean' }, { type: 'string' }] };
const pattern = { type: 'string' };
const expression = { type: 'string', minLength: 1 };
const choices = { type: 'array', items: { type: 'string' }, minItems: 1 };

const formatWords: Words = {
  type: '`text`; `json_object`: any object; `json_schema`; `grammar`: a grammar in GBNF or Lark; `regex`; `choice`: one of the given texts.',
  schema: { text: 'For `json_object` and `json_schema`: the JSON schema; `true` allows any JSON.', is: [schemaOrTrue] },
  strict: { text: 'For `json_schema`: a schema keyword that cannot be enforced is a 400 instead of a warning.', default: false },
  name: 'A label with no effect on the answer.',
  grammar: { text: 'For `grammar`: a grammar in GBNF or Lark.', is: [pattern] },
  regex: { text: 'For `regex`: the expression that the whole answer must match.', is: [pattern] },
  pattern: { text: 'Another name of `regex`.', is: [pattern] },
  choice: { text: 'For `choice`: the texts.', is: [choices] },
};

/** `text.format` of Responses. */
export const flatFormatWords: Words = formatWords;

const sugarWords = (of: (name: string) => string): Words => ({
  [of('regex')]: { text: 'The whole answer matches this regular expression. Constructs that are not regular, such as lookaround, are a 400 that says where.', is: [expression] },
  [of('choice')]: { text: 'The answer is one of these texts.', is: [choices] },
});

const vllmWords = (of: (name: string) => string): Words => ({
  ...sugarWords(of),
  [of('json')]: { text: 'A JSON schema, as JSON or as a string.', is: [schemaText] },
  [of('grammar')]: { text: 'A grammar in GBNF or Lark.', is: [pattern] },
});

/** Fields of `readConstraint`. A request may have at most one of them. */
export const constraintWords: Words = {
  grammar: 'A GBNF grammar that the answer follows from its first token; with `guided_grammar`, thinking comes first.',
  json_schema: { text: 'A JSON schema that the answer follows.', is: [schemaOrTrue] },
  response_format: { text: 'Form of the answer, enforced during generation.', name: 'ResponseFormat' },
  ...under('response_format', {
    ...formatWords,
    json_schema: { text: 'For `json_schema`: the schema with its name. Its fields may also stand next to `type`.', is: ['object'] },
    'json_schema.name': 'A label with no effect on the answer.',
    'json_schema.schema': { text: 'The JSON schema; `true` allows any JSON.', is: [schemaOrTrue] },
    'json_schema.strict': { text: 'A schema keyword that cannot be enforced is a 400 instead of a warning.', default: false },
  }),
  ...sugarWords((name) => name),
  ...vllmWords((name) => `guided_${name}`),
  structured_outputs: "vLLM's newer names for the `guided_…` fields.",
  ...under('structured_outputs', {
    ...vllmWords((name) => name),
    json_object: { text: 'The answer is a JSON object.', is: ['boolean'] },
  }),
};

/** Fields of `readTelling` and its neighbors. */
export const tellingWords: Words = {
  n_probs: { text: `llama-server's name: report this many of the likeliest tokens at each position; 0 reports none. ${mostChances}`, default: 0 },
  post_sampling_probs: { text: 'Report probabilities after all samplers instead of before.', default: false },
  return_tokens: { text: 'Include the token ids of the answer.', default: false },
  return_progress: { text: 'A stream reports prefill progress.', default: false },
  timings_per_token: { text: 'A stream reports timings with each piece.', default: false },
  t_max_predict_ms: { text: 'Time limit for generation after the first token, in milliseconds; the answer then ends at the next line feed. 0 and -1 mean no limit.', default: 0 },
};

/** Fields of `readTopLogprobs`. */
export const topLogprobsWords: Words = {
  logprobs: { text: 'Log probabilities of the answer\'s tokens.', default: false },
  top_logprobs: `Report this many of the likeliest tokens at each position. Requires \`logprobs: true\`. ${mostChances}`,
};

export const thoughtsWords: Words = {
  reasoning_budget_tokens: 'Maximum number of tokens of thinking; 0 allows none, -1 means no limit.',
  thinking_budget_tokens: 'Another name of `reasoning_budget_tokens`.',
  thinking_token_budget: 'Another name of `reasoning_budget_tokens`.',
  reasoning_budget_message: 'Text to end the thinking with when the budget or a request (`reasoning_control`) cuts it off; at most 4096 characters.',
  reasoning_control: { text: 'Allow `POST /v1/chat/completions/control` to end the thinking of this answer.', default: false },
};

export const truncationWords: Words = {
  truncation: { text: 'What to do with a conversation that does not fit the context: `disabled` refuses it, `auto` drops the oldest turns and says so in `warnings`.', default: 'disabled' },
};

/** Field of `readPriority`. */
export const priorityWords: Words = {
  service_tier: { text: '`priority` goes before all other queued requests, `flex` after them; any other value waits its turn. The `priority` of an API key limits this. Running requests are not interrupted.', is: [{}], default: 'auto' },
};

export const streamWords: Words = {
  stream: { text: 'Stream the answer.', default: false },
};

const customFormatWords: Words = {
  format: 'Format of the input, enforced during generation. Without one, any text.',
  'format.type': { text: '`text` or `grammar`.', default: 'text' },
  'format.syntax': '`lark` or `regex`; next to `type`, or inside `grammar`.',
  'format.definition': { text: 'The grammar or the regular expression.', is: [pattern] },
  'format.grammar': 'An object with `syntax` and `definition`.',
  'format.grammar.syntax': '`lark` or `regex`.',
  'format.grammar.definition': { text: 'The grammar or the regular expression.', is: [pattern] },
};

/** Fields of `readTool`; `schema` is the dialect's name for the parameters' schema. */
export const functionWords = (schema: string): Words => ({
  name: 'Name of the tool.',
  description: 'Tells the model what the tool does.',
  [schema]: { text: 'JSON schema of the arguments, enforced during generation; `true` allows any object.', is: [schemaOrTrue] },
  strict: 'A schema keyword that cannot be enforced is a 400 instead of a warning.',
});

/** Fields of `readCustomTool`. */
export const customToolWords: Words = {
  name: 'Name of the tool.',
  description: 'Tells the model what the tool does.',
  ...customFormatWords,
};

/** A tool's name as `chooseByObject` reads it. */
const namedTool: Words = {
  type: { text: '`function` or `custom`.', default: 'function' },
  name: { text: 'Name of the tool; here, or inside the object named after the type.', is: ['string'] },
  function: { text: "An object with the tool's `name`.", is: ['object'] },
  'function.name': 'Name of the tool.',
  custom: { text: "An object with the tool's `name`.", is: ['object'] },
  'custom.name': 'Name of the tool.',
};

/** The object that `chooseByObject` reads. */
export const toolChoiceWords: Words = {
  tool_choice: {
    text: '`auto`: the model decides; `none`: no calls; `required`: after its thinking, the model can generate nothing but calls. An object names the tool to call, or the allowed tools.',
    is: [{ type: 'string', enum: ['auto', 'none', 'required'] }, 'object'],
    default: 'auto', name: 'ToolChoice',
  },
  ...under('tool_choice', namedTool),
  'tool_choice.type': { text: '`function` and `custom` name a tool, `allowed_tools` several.', default: 'function' },
  'tool_choice.allowed_tools': 'An object with `mode` and `tools`; both may also stand next to `type`.',
  ...['tool_choice', 'tool_choice.allowed_tools'].map((place) => under(place, {
    mode: { text: '`auto` or `required`.', default: 'auto' },
    tools: 'The allowed tools.',
    ...under('tools[]', namedTool),
  })).reduce((all, some) => ({ ...all, ...some })),
  parallel_tool_calls: 'Whether an answer may call several tools. By default the chat template decides.',
};

/** Answer formats, one of each type. */
export const formatExamples: readonly Readonly<Record<string, unknown>>[] = [
  { type: 'json_schema', json_schema: { name: 'answer', strict: true, schema: { type: 'object' } } }, { type: 'json_schema', name: 'answer', strict: true, schema: { type: 'object' } }, { type: 'json_object', schema: { type: 'object' } },
  { type: 'grammar', grammar: 'root ::= "a"' }, { type: 'regex', regex: 'a' }, { type: 'regex', pattern: 'a' }, { type: 'choice', choice: ['a'] },
];

/** Partial bodies that together have every field of `readConstraint`. */
export const constraintExamples: readonly Readonly<Record<string, unknown>>[] = [
  ...formatExamples.map((format) => ({ response_format: format })), { structured_outputs: { json_object: true } }, { structured_outputs: { json: { type: 'object' } } },
];

const aTool = { type: 'function', function: { name: 'look' } };

/** Partial chat bodies that together have every field about tools. */
export const toolExamples: readonly Readonly<Record<string, unknown>>[] = [
  ...[{ type: 'grammar', grammar: { syntax: 'regex', definition: 'a' } }, { type: 'grammar', syntax: 'regex', definition: 'a' }, { type: 'text' }]
    .map((format) => ({ tools: [{ type: 'custom', custom: { name: 'say', format } }] })),
  { tools: [aTool], tool_choice: aTool },
  { tools: [{ type: 'custom', custom: { name: 'say' } }], tool_choice: { type: 'custom', custom: { name: 'say' } } },
  { tools: [aTool], tool_choice: { type: 'function', name: 'look' } },
  ...[aTool, { type: 'function', name: 'look' }].flatMap((tool) => [
    { tools: [aTool], tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [tool] } } },
    { tools: [aTool], tool_choice: { type: 'allowed_tools', mode: 'auto', tools: [tool] } },
  ]),
  ...[{ type: 'custom', name: 'say' }, { type: 'custom', custom: { name: 'say' } }].flatMap((tool) => [
    { tools: [{ type: 'custom', custom: { name: 'say' } }], tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [tool] } } },
    { tools: [{ type: 'custom', custom: { name: 'say' } }], tool_choice: { type: 'allowed_tools', mode: 'auto', tools: [tool] } },
  ]),
];
