// The sampling fields of a request: names on the wire and ranges, in one table. Unknown to the engine,
// which gets a whole Sampling. Called by chat-request, and by the library with names of its own. Pure.
import { samplingDefaults } from '../settings/config.js';
import type { Sampling } from '../engine/protocol.js';
import { checkNumber, int32Max, wrongType, type Fields, type Range } from './fields.js';

type NumberField = Exclude<keyof Sampling, 'seed' | 'logitBias' | 'ignoreEos' | 'temperature' | 'mirostat'>;

interface Row extends Range {
  /** OpenAI's name or llama-server's; the first one present counts. */
  names: readonly string[];
  integer?: true;
}

const table: Record<NumberField, Row> = {
  topK: { names: ['top_k'], min: -1, max: int32Max, integer: true },
  topP: { names: ['top_p'], min: 0, max: 1 },
  minP: { names: ['min_p'], min: 0, max: 1 },
  typicalP: { names: ['typical_p'], min: 0, max: 1 },
  topNSigma: { names: ['top_n_sigma'], min: -1, max: 100 },
  repeatPenalty: { names: ['repeat_penalty', 'repetition_penalty'], min: 0.01, max: 100 },
  penaltyLastN: { names: ['repeat_last_n', 'penalty_last_n'], min: -1, max: int32Max, integer: true },
  frequencyPenalty: { names: ['frequency_penalty'], min: -2, max: 2 },
  presencePenalty: { names: ['presence_penalty'], min: -2, max: 2 },
  dryMultiplier: { names: ['dry_multiplier'], min: 0, max: 100 },
  dryBase: { names: ['dry_base'], min: 1, max: 100 },
  dryAllowedLength: { names: ['dry_allowed_length'], min: 0, max: int32Max, integer: true },
  dryPenaltyLastN: { names: ['dry_penalty_last_n'], min: -1, max: int32Max, integer: true },
  xtcProbability: { names: ['xtc_probability'], min: 0, max: 1 },
  xtcThreshold: { names: ['xtc_threshold'], min: 0, max: 1 },
  mirostatTau: { names: ['mirostat_tau'], min: 0, max: 100 },
  mirostatEta: { names: ['mirostat_eta'], min: 0, max: 1 },
};

/** OpenAI ends at 2; users of min_p and XTC go further. */
const temperatureRange = { min: 0, max: 100 };
/** Below it every answer is the greedy one, and logits divided by it could overflow to infinity. */
const greedyBelow = 0.001;

export interface SamplingContext {
  /** The temperature of requests that state none. */
  temperature: number;
  vocabSize: number;
  contextSize: number;
}

/** `own`: the fields have the names of `Sampling`, not those on the wire. */
export function readSampling(fields: Fields, context: SamplingContext, own = false): Sampling {
  const numbers = Object.fromEntries(
    Object.entries(table).map(([field, row]) => [field, readNumber(fields, row, own ? [field] : row.names) ?? samplingDefaults[field as NumberField]]),
  ) as Record<NumberField, number>;
  const temperature = fields.number('temperature', temperatureRange) ?? context.temperature;
  return {
    ...numbers,
    temperature: temperature < greedyBelow ? 0 : temperature,
    // Native code reserves memory for as many tokens as it is told to look back; -1 is the whole context.
    penaltyLastN: lookBack(numbers.penaltyLastN, context.contextSize),
    dryPenaltyLastN: lookBack(numbers.dryPenaltyLastN, context.contextSize),
    mirostat: (fields.integer('mirostat', { min: 0, max: 2 }) ?? 0) as 0 | 1 | 2,
    seed: readSeed(fields),
    logitBias: readLogitBias(fields, own ? 'logitBias' : 'logit_bias', context.vocabSize),
    ignoreEos: fields.boolean(own ? 'ignoreEos' : 'ignore_eos') ?? false,
  };
}

/** The names that `readSampling` knows with `own`. */
export const samplingNames: readonly string[] = [...Object.keys(table), 'temperature', 'mirostat', 'seed', 'logitBias', 'ignoreEos'];

function readNumber(fields: Fields, row: Row, names: readonly string[]): number | undefined {
  for (const name of names) {
    const value = row.integer ? fields.integer(name, row) : fields.number(name, row);
    if (value !== undefined) return value;
  }
  return undefined;
}

function lookBack(tokens: number, contextSize: number): number {
  return tokens < 0 ? contextSize : Math.min(tokens, contextSize);
}

/** OpenAI's seeds have 64 bits, llama.cpp's 32: the low ones count. -1, all ones in 32 bits, draws a random seed. */
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
