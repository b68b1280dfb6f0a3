// The sampling fields of a request: names on the wire and ranges, from the table in
// settings/answer. The engine does not know them; it gets a complete Sampling. Called by
// chat-request, and by the library with its own names. Pure.
import { answerSettings, samplerSettings } from '../settings/answer.js';
import { samplingDefaults } from '../settings/config.js';
import type { Setting } from '../settings/kinds.js';
import type { Sampling } from '../engine/protocol.js';
import { checkName, checkNumber, wrongType, wrongValue, type Fields } from './fields.js';

type NumberField = keyof typeof samplerSettings;

/**
 * Below this, every answer is greedy anyway, and dividing logits by it could overflow to infinity.
 */
const greedyBelow = 0.001;

/** Values for fields that a request leaves out. */
export interface RequestDefaults {
  temperature: number;
  /** Most tokens of an answer. */
  maxTokens: number;
  /** Override Recua's own defaults. */
  sampling?: Partial<Record<NumberField, number>>;
}

export interface SamplingContext extends Pick<RequestDefaults, 'temperature' | 'sampling'> {
  vocabSize: number;
  contextSize: number;
}

/** `own`: the fields have the names of `Sampling` instead of those on the wire. */
export function readSampling(fields: Fields, context: SamplingContext, own = false): Sampling {
  const numbers = Object.fromEntries(
    Object.entries(samplerSettings).map(([key, setting]) => {
      const given = readNumber(fields, setting, own ? [key] : setting.fields);
      return [key, given ?? context.sampling?.[key as NumberField] ?? samplingDefaults[key as NumberField]];
    }),
  ) as Record<NumberField, number>;
  const temperature = fields.number('temperature', answerSettings.temperature) ?? context.temperature;
  const breakers = own ? 'drySequenceBreakers' : 'dry_sequence_breakers';
  fields.allow(breakers);
  return {
    ...numbers,
    temperature: temperature < greedyBelow ? 0 : temperature,
    // Native code reserves memory for every token that it looks back; -1 means the whole context.
    penaltyLastN: lookBack(numbers.penaltyLastN, context.contextSize),
    dryPenaltyLastN: lookBack(numbers.dryPenaltyLastN, context.contextSize),
    mirostat: (fields.integer('mirostat', { min: 0, max: 2 }) ?? 0) as 0 | 1 | 2,
    seed: readSeed(fields),
    ...readLogitBias(fields, own ? 'logitBias' : 'logit_bias', context.vocabSize),
    ignoreEos: fields.boolean(own ? 'ignoreEos' : 'ignore_eos') ?? false,
    ...readSamplers(fields, numbers.topK),
    ...(numbers.dryMultiplier > 0 ? readBreakers(fields, breakers) : {}),
  };
}

/** The inverse of `readSampling`: the fields on the wire for this sampling. */
export function writeSampling({
  temperature,
  mirostat,
  seed,
  logitBias,
  textBias,
  ignoreEos,
  samplers,
  drySequenceBreakers,
  ...numbers
}: Sampling): Record<string, unknown> {
  const biases = [
    ...logitBias.map(({ token, bias }) => [token, onWire(bias)]),
    ...(textBias ?? []).map(({ text, bias }) => [text, onWire(bias)]),
  ];
  return {
    temperature,
    ...Object.fromEntries(Object.entries(samplerSettings).map(([key, { fields }]) => [fields[0], numbers[key as NumberField]])),
    mirostat,
    ...(seed === undefined ? {} : { seed }),
    ...(biases.length === 0 ? {} : { logit_bias: biases }),
    ignore_eos: ignoreEos,
    ...(samplers ? { samplers } : {}),
    ...(drySequenceBreakers ? { dry_sequence_breakers: drySequenceBreakers } : {}),
  };
}

function onWire(bias: number): number | false {
  return bias === -Infinity ? false : bias;
}

/** The names that `readSampling` reads with `own`. */
export const samplingNames: readonly string[] = [
  ...Object.keys(samplerSettings), 'temperature', 'mirostat', 'seed', 'logitBias', 'ignoreEos', 'samplers', 'drySequenceBreakers',
];

function readNumber(fields: Fields, setting: Setting & { min: number; max: number }, names: readonly string[]): number | undefined {
  const given = names.map((name) => (setting.kind === 'integer' ? fields.integer(name, setting) : fields.number(name, setting)));
  return given.find((value) => value !== undefined);
}

function lookBack(tokens: number, contextSize: number): number {
  return tokens < 0 ? contextSize : Math.min(tokens, contextSize);
}

/**
 * OpenAI's seeds have 64 bits, llama.cpp's have 32, so only the low bits count: over 2^53, those of
 * the nearest double. -1, all ones in 32 bits, draws a random seed.
 */
function readSeed(fields: Fields): number | undefined {
  const seed = fields.integer('seed', { min: -(2 ** 63), max: 2 ** 64 });
  if (seed === undefined) return undefined;
  const low = seed >>> 0;
  return low === 0xffff_ffff ? undefined : low;
}

/** Texts per request; each is tokenized separately. */
const maxTexts = 1_000;
const maxTextLength = 1_024;

/**
 * OpenAI's form is an object keyed by token. llama-server also takes texts as keys, and pairs.
 * `false` bans the token, or each token of the text.
 */
function readLogitBias(fields: Fields, name: string, vocabSize: number): Pick<Sampling, 'logitBias' | 'textBias'> {
  const value = fields.get(name);
  const param = fields.param(name);
  const logitBias: Sampling['logitBias'] = [];
  const textBias: NonNullable<Sampling['textBias']> = [];
  const add = (key: unknown, given: unknown, at: string): void => {
    const bias = given === false ? -Infinity : checkNumber(given, at, { min: -100, max: 100 });
    if (typeof key !== 'string') {
      logitBias.push({ token: checkNumber(key, at, { min: 0, max: vocabSize - 1 }, true), bias });
      return;
    }
    if (textBias.length === maxTexts) throw wrongValue(param, `at most ${maxTexts} texts`, value);
    textBias.push({ text: checkName(key, at, maxTextLength), bias });
  };
  if (Array.isArray(value)) {
    for (const [index, pair] of (fields.array(name, Math.max(vocabSize, maxTexts)) ?? []).entries()) {
      const at = `${param}[${index}]`;
      if (!Array.isArray(pair) || pair.length !== 2) throw wrongType(at, 'a pair of a token or text and its bias', pair);
      add(pair[0], pair[1], at);
    }
  } else {
    for (const [key, bias] of Object.entries(fields.object(name) ?? {})) add(/^\d{1,10}$/.test(key) ? Number(key) : key, bias, `${param}.${key.slice(0, 40)}`);
  }
  return { logitBias, ...(textBias.length > 0 ? { textBias } : {}) };
}

/** llama.cpp's names of its samplers, with the letter for each. */
const samplers = {
  dry: 'd', top_k: 'k', top_p: 'p', top_n_sigma: 's', typ_p: 'y', min_p: 'm', temperature: 't', xtc: 'x', infill: 'i', penalties: 'e', adaptive_p: 'a',
} as const;
const otherNames: Readonly<Record<string, string>> = { nucleus: 'top_p', temp: 'temperature', typ: 'typ_p', typical_p: 'typ_p' };
const maxSamplers = Object.keys(samplers).length;
/** `infill` compares each candidate with each other one. */
const mostInfillCandidates = 256;

/** An array of names, or a string of letters. An empty one means llama.cpp's default samplers. */
function readSamplers(fields: Fields, topK: number): Pick<Sampling, 'samplers'> {
  const named = namedSamplers(fields);
  if (named.length === 0) return {};
  const param = fields.param('samplers');
  const again = named.find((name, at) => named.indexOf(name) < at);
  if (again !== undefined) throw wrongValue(param, 'each sampler once', fields.get('samplers'));
  const [first, last] = [named.indexOf('top_k'), named.indexOf('infill')];
  if (last >= 0 && (first < 0 || first > last || topK < 1 || topK > mostInfillCandidates)) {
    throw wrongValue(param, `top_k before infill, and a top_k from 1 to ${mostInfillCandidates}`, `${named.join(', ')} with a top_k of ${topK}`);
  }
  return { samplers: named };
}

function namedSamplers(fields: Fields): string[] {
  const param = fields.param('samplers');
  const value = fields.get('samplers');
  const expected = `names among ${Object.keys(samplers).join(', ')}`;
  if (typeof value === 'string') {
    if (value.length > maxSamplers) throw wrongValue(param, `at most ${maxSamplers} letters`, value);
    const named = Array.from(value, (letter) => Object.entries(samplers).find(([, own]) => own === letter)?.[0]);
    if (named.includes(undefined)) throw wrongValue(param, `${expected}, or letters among ${Object.values(samplers).join('')}`, value);
    return named as string[];
  }
  return (fields.array('samplers', maxSamplers) ?? []).map((given, index) => {
    const word = checkName(given, `${param}[${index}]`, 40).toLowerCase();
    const found = Object.keys(samplers).find((name) => [name, name.replaceAll('_', '-'), name.replaceAll('_', '')].includes(word)) ?? otherNames[word];
    if (found === undefined || !Object.hasOwn(samplers, found)) throw wrongValue(`${param}[${index}]`, expected, given);
    return found;
  });
}

const maxBreakers = 16;
/** In bytes. llama.cpp would cut longer ones, and at a null character, with a warning for each. */
const maxBreakerLength = 40;

function readBreakers(fields: Fields, name: string): Pick<Sampling, 'drySequenceBreakers'> {
  const given = fields.array(name, maxBreakers);
  if (given === undefined) return {};
  if (given.length === 0) throw wrongValue(fields.param(name), 'at least one text', given);
  const texts = given.map((text, index) => {
    const param = `${fields.param(name)}[${index}]`;
    const breaker = checkName(text, param, maxBreakerLength);
    if (Buffer.byteLength(breaker) > maxBreakerLength || breaker.includes('\0')) throw wrongValue(param, `a text of at most ${maxBreakerLength} bytes without null characters`, breaker);
    return breaker;
  });
  return { drySequenceBreakers: [...new Set(texts)] };
}
