// The sampling fields of a request: names on the wire, ranges and defaults, in one table. Unknown to the engine,
// which gets a whole Sampling. Called by chat-request. Pure.
import type { Sampling } from '../engine/protocol.js';
import { checkNumber, int32Max, wrongType, type Fields, type Range } from './fields.js';

type NumberField = Exclude<keyof Sampling, 'seed' | 'logitBias' | 'ignoreEos' | 'temperature' | 'mirostat'>;

interface Row extends Range {
  /** OpenAI's name or llama-server's; the first one present counts. */
  names: readonly string[];
  default: number;
  integer?: true;
}

/** "Off" is the default where a sampler can be off; top_k, top_p and min_p have llama-server's values. */
const table: Record<NumberField, Row> = {
  topK: { names: ['top_k'], default: 40, min: -1, max: int32Max, integer: true },
  topP: { names: ['top_p'], default: 0.95, min: 0, max: 1 },
  minP: { names: ['min_p'], default: 0.05, min: 0, max: 1 },
  typicalP: { names: ['typical_p'], default: 1, min: 0, max: 1 },
  topNSigma: { names: ['top_n_sigma'], default: -1, min: -1, max: 100 },
  repeatPenalty: { names: ['repeat_penalty', 'repetition_penalty'], default: 1, min: 0.01, max: 100 },
  penaltyLastN: { names: ['repeat_last_n', 'penalty_last_n'], default: 64, min: -1, max: int32Max, integer: true },
  frequencyPenalty: { names: ['frequency_penalty'], default: 0, min: -2, max: 2 },
  presencePenalty: { names: ['presence_penalty'], default: 0, min: -2, max: 2 },
  dryMultiplier: { names: ['dry_multiplier'], default: 0, min: 0, max: 100 },
  dryBase: { names: ['dry_base'], default: 1.75, min: 1, max: 100 },
  dryAllowedLength: { names: ['dry_allowed_length'], default: 2, min: 0, max: int32Max, integer: true },
  dryPenaltyLastN: { names: ['dry_penalty_last_n'], default: -1, min: -1, max: int32Max, integer: true },
  xtcProbability: { names: ['xtc_probability'], default: 0, min: 0, max: 1 },
  xtcThreshold: { names: ['xtc_threshold'], default: 0.1, min: 0, max: 1 },
  mirostatTau: { names: ['mirostat_tau'], default: 5, min: 0, max: 100 },
  mirostatEta: { names: ['mirostat_eta'], default: 0.1, min: 0, max: 1 },
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

export function readSampling(fields: Fields, context: SamplingContext): Sampling {
  const numbers = Object.fromEntries(
    Object.entries(table).map(([field, row]) => [field, readNumber(fields, row)]),
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
    logitBias: readLogitBias(fields, context.vocabSize),
    ignoreEos: fields.boolean('ignore_eos') ?? false,
  };
}

function readNumber(fields: Fields, row: Row): number {
  for (const name of row.names) {
    const value = row.integer ? fields.integer(name, row) : fields.number(name, row);
    if (value !== undefined) return value;
  }
  return row.default;
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

function readLogitBias(fields: Fields, vocabSize: number): Sampling['logitBias'] {
  return Object.entries(fields.object('logit_bias') ?? {}).map(([key, value]) => {
    const param = `${fields.param('logit_bias')}.${key.slice(0, 40)}`;
    if (!/^\d{1,10}$/.test(key)) throw wrongType(param, 'a token id as the key', key);
    return {
      token: checkNumber(Number(key), param, { min: 0, max: vocabSize - 1 }, true),
      bias: checkNumber(value, param, { min: -100, max: 100 }),
    };
  });
}
