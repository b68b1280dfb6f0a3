// What fields mean that dialects share, for the reference of the API. Their kinds and bounds are
// the readers'. Pure. Used by the dialects' operations.
import { answerSettings, samplerSettings } from '../settings/answer.js';

export interface FieldWords {
  text: string;
  /** What it may be, where its reader looks at that itself: kinds as they are read, or schemas. */
  is?: readonly ('string' | 'integer' | 'number' | 'boolean' | 'word' | 'array' | 'object' | Readonly<Record<string, unknown>>)[];
  /** Saying it is the same as leaving the field out. */
  default?: unknown;
  /** What its schema is called, where it is told of by itself. */
  name?: string;
}

/** By the field's place: `messages[].role`. */
export type Words = Readonly<Record<string, string | FieldWords>>;

/** The same fields inside another. */
export function under(place: string, words: Words): Words {
  return Object.fromEntries(Object.entries(words).map(([key, value]) => [key.startsWith('[') ? place + key : `${place}.${key}`, value]));
}

/** A field that is known and not supported, with the values that ask for nothing. */
export function refused(what: string, neutral?: Readonly<Record<string, unknown>>): FieldWords {
  return neutral
    ? { text: `Not supported: ${what}. Only what asks for nothing is taken.`, is: [neutral] }
    : { text: `Not supported: ${what}.`, is: [{ type: 'null' }] };
}

const samplers: Readonly<Record<keyof typeof samplerSettings, string>> = {
  topP: 'Keep the likeliest tokens that add up to this probability; 1 is off.',
  topK: 'Keep this many of the likeliest tokens; 0 and -1 are off.',
  minP: "Drop tokens below this share of the likeliest one's probability; 0 is off.",
  typicalP: 'Locally typical sampling; 1 is off.',
  topNSigma: 'Keep tokens within so many standard deviations of the best; -1 is off.',
  repeatPenalty: 'Penalty on tokens that came already; 1 is off.',
  penaltyLastN: 'Tokens that the penalties look back at; -1 is the whole context.',
  frequencyPenalty: 'Penalty for each time that a token came.',
  presencePenalty: 'Penalty on tokens that came at all.',
  dryMultiplier: 'DRY, against repeated phrases; 0 is off.',
  dryBase: 'By what the penalty of DRY grows with each token that a phrase repeats.',
  dryAllowedLength: 'Tokens that a phrase may repeat before DRY penalizes it.',
  dryPenaltyLastN: 'Tokens that DRY looks back at; -1 is the whole context.',
  xtcProbability: 'How often XTC drops the likeliest tokens; 0 is never.',
  xtcThreshold: 'XTC drops tokens above this probability, but for the last of them.',
  mirostatTau: 'The surprise that Mirostat aims at.',
  mirostatEta: 'How fast Mirostat learns.',
  dynatempRange: 'How far the temperature moves to both sides, lower where the model is sure; 0 is off.',
  dynatempExponent: "How the dynamic temperature depends on the distribution's entropy.",
  adaptiveTarget: 'Probability that the sampler `adaptive_p` aims at; -1 is off.',
  adaptiveDecay: 'How slowly `adaptive_p` forgets.',
  minKeep: 'Tokens that each sampler leaves at least.',
  minTokens: 'The answer does not end by itself before so many tokens.',
};

const samplerFields = Object.entries(samplerSettings).flatMap(([key, setting]): [string, FieldWords][] => {
  const [first, ...others] = setting.fields;
  const text = samplers[key as keyof typeof samplerSettings];
  return [[first, { text, default: setting.fallback }], ...others.map((name): [string, FieldWords] => [name, { text: `Another name of \`${first}\`.` }])];
});

/** What `readSampling` reads. */
export const samplingWords: Words = {
  temperature: { text: '0 always takes the likeliest token. The default is the server\'s (`--temp`).', default: answerSettings.temperature.fallback },
  ...Object.fromEntries(samplerFields),
  mirostat: { text: 'Version of Mirostat; 0 is off.', default: 0 },
  seed: { text: 'The same request with the same seed gets the same answer. Without one, and with -1, it is drawn. The low 32 bits count.', default: -1 },
  logit_bias: {
    text: 'What is added to the logits of tokens, -100 to 100; `false` bans the token. By token, or by text, each token of which is meant; also as pairs of one and its bias.',
    is: [{ type: 'object', additionalProperties: { anyOf: [{ type: 'number', minimum: -100, maximum: 100 }, { const: false }] } }, 'array'],
    default: {},
  },
  ignore_eos: { text: 'The answer does not end before it is as long as it may be.', default: false },
  samplers: {
    text: "llama.cpp's samplers in their order, by name (`penalties`, `dry`, `top_n_sigma`, `top_k`, `typ_p`, `top_p`, `min_p`, `xtc`, `temperature`, `infill`, `adaptive_p`) or as a text of letters (`edskypmxt`). None are the usual ones.",
    is: [{ type: 'string', maxLength: 32 }, 'array'],
  },
  dry_sequence_breakers: { text: 'Texts at which DRY begins anew; by default a line feed, `:`, `"` and `*`. Read where `dry_multiplier` is above 0.' },
};

/** What admission reads. */
export const admissionWords: Words = {
  model: 'Any name of a model; an unknown one is a 404 with the nearest. Left out, it is the default model.',
  keep_alive: {
    text: 'How long the model stays loaded after this request: seconds, or a text such as "10m" or "1h30m"; negative is for ever.',
    is: [{ type: 'number' }, { type: 'string' }],
  },
};

const schemaOrTrue = { anyOf: [{ type: 'object' }, { type: 'boolean' }] };
const schemaText = { anyOf: [{ type: 'object' }, { type: 'boolean' }, { type: 'string' }] };
const pattern = { type: 'string' };
const expression = { type: 'string', minLength: 1 };
const choices = { type: 'array', items: { type: 'string' }, minItems: 1 };

const formatWords: Words = {
  type: '`text`; `json_object`, any object; `json_schema`; `grammar`, a GBNF grammar; `regex`; `choice`, one of some texts.',
  schema: { text: 'Of `json_object` and `json_schema`: the JSON schema; `true` is any JSON.', is: [schemaOrTrue] },
  strict: { text: 'What of the schema cannot be enforced is a 400 instead of a warning.', default: false },
  name: 'A label; the answer does not depend on it.',
  grammar: { text: 'Of `grammar`: in GBNF.', is: [pattern] },
  regex: { text: 'Of `regex`: the whole answer matches it.', is: [pattern] },
  pattern: { text: 'Another name of `regex`.', is: [pattern] },
  choice: { text: 'Of `choice`: the texts.', is: [choices] },
};

/** `text.format` of Responses. */
export const flatFormatWords: Words = formatWords;

const sugarWords = (of: (name: string) => string): Words => ({
  [of('regex')]: { text: 'The whole answer matches this regular expression. What is not regular, as lookaround, is a 400 with its place.', is: [expression] },
  [of('choice')]: { text: 'The answer is one of these texts.', is: [choices] },
});

const vllmWords = (of: (name: string) => string): Words => ({
  ...sugarWords(of),
  [of('json')]: { text: 'A JSON schema, also as a text.', is: [schemaText] },
  [of('grammar')]: { text: 'In GBNF or Lark.', is: [pattern] },
});

/** What `readConstraint` reads. At most one of them may be there. */
export const constraintWords: Words = {
  grammar: 'A GBNF grammar that the answer follows from its first token on; with guided_grammar thoughts come first.',
  json_schema: { text: 'A JSON schema that the answer follows.', is: [schemaOrTrue] },
  response_format: { text: 'What form the answer has, enforced while it is written.', name: 'ResponseFormat' },
  ...under('response_format', {
    ...formatWords,
    json_schema: { text: 'Of `json_schema`: the schema with its name. The fields may stand beside `type`, too.', is: ['object'] },
    'json_schema.name': 'A label; the answer does not depend on it.',
    'json_schema.schema': { text: 'The JSON schema; `true` is any JSON.', is: [schemaOrTrue] },
    'json_schema.strict': { text: 'What of the schema cannot be enforced is a 400 instead of a warning.', default: false },
  }),
  ...sugarWords((name) => name),
  ...vllmWords((name) => `guided_${name}`),
  structured_outputs: "vLLM's newer names of the same.",
  ...under('structured_outputs', {
    ...vllmWords((name) => name),
    json_object: { text: 'The answer is a JSON object.', is: ['boolean'] },
  }),
};

/** What `readTelling` and its neighbors read. */
export const tellingWords: Words = {
  n_probs: { text: "llama-server's name: so many of the likeliest tokens beside each; 0 asks for nothing.", default: 0 },
  post_sampling_probs: { text: 'Probabilities after all samplers, instead of before.', default: false },
  return_tokens: { text: "The answer has its tokens' ids, too.", default: false },
  return_progress: { text: 'A stream tells how far the prompt is read.', default: false },
  timings_per_token: { text: 'A stream tells timings with each piece.', default: false },
  t_max_predict_ms: { text: 'Time to generate after the first token, in milliseconds; 0 and -1 are without a limit.', default: 0 },
};

/** What `readTopLogprobs` reads. */
export const topLogprobsWords: Words = {
  logprobs: { text: 'Log probabilities of the answer\'s tokens.', default: false },
  top_logprobs: 'So many of the likeliest tokens beside each. Asks for `logprobs: true`.',
};

export const thoughtsWords: Words = {
  reasoning_budget_tokens: 'Tokens that the model may think with; 0 is not at all, -1 is no bound.',
  thinking_budget_tokens: 'Another name of `reasoning_budget_tokens`.',
  thinking_token_budget: 'Another name of `reasoning_budget_tokens`.',
  reasoning_budget_message: 'What thoughts end with that the budget cuts off; at most 4096 characters.',
  reasoning_control: { text: 'The answer may be told to end its thinking: `POST /v1/chat/completions/control`.', default: false },
};

export const truncationWords: Words = {
  truncation: { text: 'What becomes of a conversation that does not fit the context: `disabled` refuses it, `auto` leaves out the oldest turns and says so in `warnings`.', default: 'disabled' },
};

/** What `readPriority` reads. */
export const priorityWords: Words = {
  service_tier: { text: '`priority` goes before all that wait, `flex` behind them; anything else in turn. Does not stop what runs.', is: [{}], default: 'auto' },
};

export const streamWords: Words = {
  stream: { text: 'Answer piece by piece.', default: false },
};

const customFormatWords: Words = {
  format: 'What the input keeps to while it is written. Without one it is any text.',
  'format.type': { text: '`text` or `grammar`.', default: 'text' },
  'format.syntax': '`lark` or `regex`; beside `type`, or in `grammar`.',
  'format.definition': { text: 'The grammar or the regular expression.', is: [pattern] },
  'format.grammar': 'Holds `syntax` and `definition`.',
  'format.grammar.syntax': '`lark` or `regex`.',
  'format.grammar.definition': { text: 'The grammar or the regular expression.', is: [pattern] },
};

/** What `readTool` reads, with the name that its schema goes by. */
export const functionWords = (schema: string): Words => ({
  name: 'What the model calls it by.',
  description: 'What it does, for the model.',
  [schema]: { text: 'A JSON schema of what it is called with, enforced while the call is written; `true` is any object.', is: [schemaOrTrue] },
  strict: 'What of the schema cannot be enforced is a 400 instead of a warning.',
});

/** What `readCustomTool` reads. */
export const customToolWords: Words = {
  name: 'What the model calls it by.',
  description: 'What it does, for the model.',
  ...customFormatWords,
};

/** A tool as `chooseByObject` has it named. */
const namedTool: Words = {
  type: { text: '`function` or `custom`.', default: 'function' },
  name: { text: "Name of the tool; also inside an object of the type's name.", is: ['string'] },
  function: { text: "Holds the tool's `name`.", is: ['object'] },
  'function.name': 'Name of the tool.',
  custom: { text: "Holds the tool's `name`.", is: ['object'] },
  'custom.name': 'Name of the tool.',
};

/** An object that `chooseByObject` reads. */
export const toolChoiceWords: Words = {
  tool_choice: {
    text: '`auto`: the model decides; `none`: no calls; `required`: nothing but calls can be sampled behind what the model thinks. An object names the tool to call, or those that are allowed.',
    is: [{ type: 'string', enum: ['auto', 'none', 'required'] }, 'object'],
    default: 'auto', name: 'ToolChoice',
  },
  ...under('tool_choice', namedTool),
  'tool_choice.type': { text: '`function` and `custom` name a tool, `allowed_tools` several.', default: 'function' },
  'tool_choice.allowed_tools': 'Holds `mode` and `tools`; these may stand beside `type`, too.',
  ...['tool_choice', 'tool_choice.allowed_tools'].map((place) => under(place, {
    mode: { text: '`auto` or `required`.', default: 'auto' },
    tools: 'The tools that are allowed.',
    ...under('tools[]', namedTool),
  })).reduce((all, some) => ({ ...all, ...some })),
  parallel_tool_calls: 'Whether an answer may call several tools. By default the chat template decides.',
};

/** Formats of answers, one of each type. */
export const formatExamples: readonly Readonly<Record<string, unknown>>[] = [
  { type: 'json_schema', json_schema: { name: 'answer', strict: true, schema: { type: 'object' } } }, { type: 'json_schema', name: 'answer', strict: true, schema: { type: 'object' } }, { type: 'json_object', schema: { type: 'object' } },
  { type: 'grammar', grammar: 'root ::= "a"' }, { type: 'regex', regex: 'a' }, { type: 'regex', pattern: 'a' }, { type: 'choice', choice: ['a'] },
];

/** Parts of bodies that have all that `readConstraint` knows. */
export const constraintExamples: readonly Readonly<Record<string, unknown>>[] = [
  ...formatExamples.map((format) => ({ response_format: format })), { structured_outputs: { json_object: true } }, { structured_outputs: { json: { type: 'object' } } },
];

const aTool = { type: 'function', function: { name: 'look' } };

/** Parts of bodies of chats that have all that is known of tools. */
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
