// The sampling fields of a request: names on the wire and ranges, by the table in settings/answer.
// Unknown to the engine, which gets a whole Sampling. Called by chat-request, and by the library
// with names of its own. Pure.
import { answerSettings, samplerSettings } from '../settings/answer.js';
import { samplingDefaults } from '../settings/config.js';
import type { Setting } from '../settings/kinds.js';
import type { Sampling } from '../engine/protocol.js';
import { checkNumber, wrongType, type Fields } from './fields.js';

type NumberField = keyof typeof samplerSettings;

/** Below it every answer is the greedy one, and logits divided by it could overflow to infinity. */
const greedyBelow = 0.001;

/** What a request means where it says nothing. */
export interface RequestDefaults {
  temperature: number;
  /** Tokens of an answer. */
  maxTokens: number;
  /** Instead of Recua's own. */
  sampling?: Partial<Record<NumberField, number>>;
}

export interface SamplingContext extends Pick<RequestDefaults, 'temperature' | 'sampling'> {
  vocabSize: number;
  contextSize: number;
}

/** `own`: the fields have the names of `Sampling`, not those on the wire. */
export function readSampling(fields: Fields, context: SamplingContext, own = false): Sampling {
  const numbers = Object.fromEntries(
    Object.entries(samplerSettings).map(([key, setting]) => {
      const given = readNumber(fields, setting, own ? [key] : setting.fields);
      return [key, given ?? context.sampling?.[key as NumberField] ?? samplingDefaults[key as NumberField]];
    }),
  ) as Record<NumberField, number>;
  const temperature = fields.number('temperature', answerSettings.temperature) ?? context.temperature;
  return {
    ...numbers,
    temperature: temperature < greedyBelow ? 0 : temperature,
    // Native code reserves memory for as many tokens as it is told to look back; -1 is the whole
    // context.
    penaltyLastN: lookBack(numbers.penaltyLastN, context.contextSize),
    dryPenaltyLastN: lookBack(numbers.dryPenaltyLastN, context.contextSize),
    mirostat: (fields.integer('mirostat', { min: 0, max: 2 }) ?? 0) as 0 | 1 | 2,
    seed: readSeed(fields),
    logitBias: readLogitBias(fields, own ? 'logitBias' : 'logit_bias', context.vocabSize),
    ignoreEos: fields.boolean(own ? 'ignoreEos' : 'ignore_eos') ?? false,
  };
}

/** The fields on the wire that `readSampling` reads as this sampling. */
export function writeSampling({ temperature, mirostat, seed, logitBias, ignoreEos, ...numbers }: Sampling): Record<string, unknown> {
  return {
    temperature,
    ...Object.fromEntries(Object.entries(samplerSettings).map(([key, { fields }]) => [fields[0], numbers[key as NumberField]])),
    mirostat,
    ...(seed === undefined ? {} : { seed }),
    ...(logitBias.length === 0 ? {} : { logit_bias: Object.fromEntries(logitBias.map(({ token, bias }) => [token, bias])) }),
    ignore_eos: ignoreEos,
  };
}

/** The names that `readSampling` knows with `own`. */
export const samplingNames: readonly string[] = [...Object.keys(samplerSettings), 'temperature', 'mirostat', 'seed', 'logitBias', 'ignoreEos'];

function readNumber(fields: Fields, setting: Setting & { min: number; max: number }, names: readonly string[]): number | undefined {
  for (const name of names) {
    const value = setting.kind === 'integer' ? fields.integer(name, setting) : fields.number(name, setting);
    if (value !== undefined) return value;
  }
  return undefined;
}

function lookBack(tokens: number, contextSize: number): number {
  return tokens < 0 ? contextSize : Math.min(tokens, contextSize);
}

/**
 * OpenAI's seeds have 64 bits, llama.cpp's 32: the low ones count. -1, all ones in 32 bits, draws a
 * random seed.
 */
function readSeed(fields: Fields): number | undefined {
  const seed = fields.integer('seed', { min: Number.MIN_SAFE_INTEGER, max: Number.MAX_SAFE_INTEGER });
  if (seed === undefined) return undefined;
  const low = seed >>> 0;
  return low === 0xffff_ffff ? undefined : low;
}

function readLogitBias(fields: Fields, name: string, vocabSize: number): Sampling['logitBias'] {
  return Object.entries(fields.object(name) ?? {}).map(([key, value]) => {
    const param = `${fields.param(name)}.${key.slice(0, 40)}`;
    if (!/^\d{1,10}$/.test(key)) throw wrongType(param, 'a token id as the key', key);
    return {
      token: checkNumber(Number(key), param, { min: 0, max: vocabSize - 1 }, true),
      bias: checkNumber(value, param, { min: -100, max: 100 }),
    };
  });
}
