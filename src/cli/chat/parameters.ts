// The parameters of `/set parameter`, under the names of Ollama, of the HTTP API and our own. Used
// by set-command.ts, and by session.ts for parameters without a flag.
import { answerSettings, samplerSettings } from '../../settings/answer.js';
import { maxCount } from '../../settings/kinds.js';
import { nearest } from '../../models/names/nearest.js';
import type { AnswerSettings, MoreSettings } from '../flags/answer-flags.js';
import { moreKeys } from '../flags/answer-flags.js';
import { integer, misuse, real } from '../flags/flags.js';
import type { Flag } from '../flags/flags.js';

interface Parameter {
  /** The name shown and saved. */
  name: string;
  /** Other accepted names. */
  others: readonly string[];
  /** The key of the settings. */
  key: Exclude<keyof AnswerSettings, 'more' | 'stop'> | keyof MoreSettings;
  isMore: boolean;
  flag: Flag<number>;
  fallback: number;
  min: number;
  max: number;
  /** A whole number. */
  whole: boolean;
}

const most = 2 ** 32 - 1;
const mirostat = { kind: 'integer', fallback: 0, min: 0, max: 2 } as const;
const seed = { kind: 'integer', fallback: 0, min: 0, max: most } as const;
const more = new Set<string>([...moreKeys, 'mirostat']);

export const parameters: readonly Parameter[] = [
  describe('maxTokens', answerSettings.maxTokens, ['max_tokens', 'num_predict']),
  ...Object.entries({ temperature: answerSettings.temperature, ...samplerSettings }).map(([key, setting]) =>
    describe(key, setting, setting.fields),
  ),
  describe('seed', seed, ['seed']),
  describe('mirostat', mirostat, ['mirostat']),
];

/** Parameters without a flag. A saved chat contains them only if they were set. */
export const moreParameters = parameters.filter(({ isMore }) => isMore);

type Numeric = { kind: 'integer' | 'number'; fallback: number; min: number; max: number; flag?: { names: readonly string[]; min?: number } };

function describe(key: string, setting: Numeric, [name, ...fields]: readonly string[]): Parameter {
  const range = { fallback: setting.fallback, min: setting.flag?.min ?? setting.min, max: setting.max };
  const long = (setting.flag?.names ?? []).filter((one) => one.startsWith('--')).map((one) => one.slice(2));
  return {
    name: name!, others: [...new Set([key, ...fields, ...long, ...long.map((one) => one.replaceAll('-', '_'))])].filter((one) => one !== name), key: key as Parameter['key'],
    isMore: more.has(key), flag: setting.kind === 'integer' ? integer([name!], 'n', '', range) : real([name!], 'x', '', range),
    ...range, whole: setting.kind === 'integer',
  };
}

/** Ollama parameters that are fixed when the model is loaded, and our flags for them. */
const ofLoading: Readonly<Record<string, string>> = {
  num_ctx: '-c <n>', num_gpu: '-ngl <n>', num_thread: '--threads <n>', num_batch: '--batch-size <n>', use_mmap: '--no-mmap', use_mlock: '--mlock',
};

function valueOf(settings: AnswerSettings, { key, isMore, fallback }: Parameter): number {
  return (isMore ? settings.more?.[key as keyof MoreSettings] : settings[key as 'seed']) ?? fallback;
}

/** The value as the chat shows it. */
export function valueText(settings: AnswerSettings, parameter: Parameter): string {
  const value = valueOf(settings, parameter);
  return parameter.name === 'seed' && value === 0 ? '0 (random)' : String(value);
}

/** Throws `invalid_usage`, with the nearest name, for an unknown parameter. */
export function findParameter(given: string): Parameter {
  const found = parameters.find(({ name, others }) => name === given || others.includes(given));
  if (found) return found;
  const flag = ofLoading[given];
  if (flag !== undefined) throw misuse(`${given} is fixed when the model is loaded. Leave the chat and continue it with: recua chat --continue ${flag}`);
  const near = nearest(given, ['stop', ...parameters.flatMap(({ name, others }) => [name, ...others])]);
  throw misuse(`There is no parameter ${JSON.stringify(given)}.${near === undefined ? '' : ` Did you mean ${near}?`} /set parameter lists them.`);
}

/** The settings with this one changed. */
export function withParameter(settings: AnswerSettings, parameter: Parameter, text: string): AnswerSettings {
  const { key, isMore, flag } = parameter;
  // Ollama's values for "as many as fit".
  const value = key === 'maxTokens' && /^-[12]$/.test(text) ? maxCount : flag.read(text);
  return isMore ? { ...settings, more: { ...settings.more, [key]: value } } : { ...settings, [key]: value };
}
