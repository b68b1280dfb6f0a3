// The flags that control an answer, for the commands that ask a model themselves (run, chat), and
// how they translate to a request.
import { answerSettings, samplerSettings } from '../../settings/answer.js';
import { samplingDefaults } from '../../settings/config.js';
import type { ChatMessage, ChatRequest, Constraint, Sampling } from '../../engine/protocol.js';
import { chatTemplates } from '../../models/chat-templates.js';
import type { TemplateName } from '../../models/chat-templates.js';
import { isObject } from '../../request/fields.js';
import { weighJson } from '../../request/json-weight.js';
import { readTextFile } from '../../system/given-file.js';
import { integer, misuse, on, perCall, quote, text } from './flags.js';
import type { Values } from './flags.js';
import { settingFlag, settingFlags } from './setting-flags.js';

const { maxTokens, temperature } = answerSettings;
const samplerFlags = settingFlags(samplerSettings);
type SamplerFlag = keyof typeof samplerFlags;
const samplerKeys = Object.keys(samplerFlags) as SamplerFlag[];
type MoreKey = Exclude<keyof typeof samplerSettings, SamplerFlag>;
export const moreKeys = (Object.keys(samplerSettings) as (keyof typeof samplerSettings)[]).filter(
  (key): key is MoreKey => !Object.hasOwn(samplerFlags, key),
);
/** Samplers that have no flag. */
export type MoreSettings = Partial<Record<MoreKey | 'mirostat', number>>;

type OwnDefaults = { maxTokens: number } & Partial<Record<SamplerFlag, number>>;

/** Commands differ only in some defaults. */
export function answerFlags(own: OwnDefaults) {
  const samplers = samplerKeys.map((key) => {
    const flag = samplerFlags[key];
    return [key, { ...flag, fallback: own[key] ?? flag.fallback }];
  });
  return {
    system: text(['--system', '-s'], 'text', 'Put this system message before the prompt'),
    maxTokens: settingFlag(maxTokens, { fallback: own.maxTokens }),
    temperature: settingFlag(temperature),
    ...Object.fromEntries(samplers) as typeof samplerFlags,
    seed: integer(['--seed'], 'n', 'Sample with this random seed; 0 draws one', { fallback: 0, min: 0, max: 2 ** 32 - 1 }),
    grammar: perCall(text(['--grammar', '-g'], 'gbnf', 'Make the answer follow this GBNF grammar')),
    grammarFile: perCall(text(['--grammar-file', '-gf'], 'file', 'Make the answer follow the GBNF grammar in this file')),
    jsonSchema: perCall(text(['--json-schema', '-j'], 'schema', 'Make the answer JSON that follows this JSON schema')),
    jsonSchemaFile: perCall(text(['--json-schema-file', '-jf'], 'file', 'Make the answer JSON that follows the JSON schema in this file')),
    json: perCall(on(['--json'], 'Print one JSON object with the answer, usage and timings instead of the text')),
    raw: on(['--raw'], 'On a terminal, print the answer unchanged: do not render Markdown, do not remove control characters'),
    quiet: on(['--quiet', '-q'], 'Print nothing about loading'),
  } as const;
}

export type AnswerValues = Values<ReturnType<typeof answerFlags>>;

/** Defaults of a chat; for the rest, the defaults of all commands apply. */
export const chatDefaults = { maxTokens: 2048, topP: 0.9, topK: 40, repeatPenalty: 1.1 };

/** The settings of a new chat. */
export function chatSettings(): AnswerSettings {
  const { topP, topK, repeatPenalty } = chatDefaults;
  return {
    maxTokens: chatDefaults.maxTokens,
    temperature: temperature.fallback,
    topP,
    topK,
    minP: samplerSettings.minP.fallback,
    repeatPenalty,
    seed: 0,
  };
}

/** The settings of an answer that the user chooses and a saved chat keeps. */
export type AnswerSettings = Pick<AnswerValues, 'maxTokens' | 'temperature' | SamplerFlag | 'seed'> & { more?: MoreSettings; stop?: readonly string[] };

const constraintFlags = { grammar: '--grammar', grammarFile: '--grammar-file', jsonSchema: '--json-schema', jsonSchemaFile: '--json-schema-file' } as const;

/** The grammar or JSON schema that the flags name, as a constraint. */
export async function readConstraint(values: Pick<AnswerValues, keyof typeof constraintFlags>): Promise<Constraint> {
  const given = Object.entries(constraintFlags).filter(([key]) => values[key as keyof typeof constraintFlags] !== '').map(([, flag]) => flag);
  const [flag, other] = given;
  if (flag === undefined) return { kind: 'none' };
  if (other !== undefined) throw misuse(`Expected ${flag} or ${other}, got both.`);
  const path = values.grammarFile || values.jsonSchemaFile;
  const read = path === '' ? values.grammar || values.jsonSchema : await readTextFile(path);
  const isGrammar = flag.startsWith('--grammar');
  if (read.trim() === '') throw misuse(`Expected a ${isGrammar ? 'grammar' : 'JSON schema'} ${path === '' ? `after ${flag}, got only spaces` : `in ${path}, got an empty file`}.`);
  return isGrammar ? { kind: 'grammar', grammar: read } : { kind: 'schema', schema: checkedSchema(read, path || flag), strict: false, param: flag };
}

/** `from`: the file or the flag. */
function checkedSchema(json: string, from: string): string {
  try {
    weighJson(Buffer.from(json), 'The JSON schema');
    const schema = JSON.parse(json) as unknown;
    if (isObject(schema) || schema === true) return json;
  } catch (thrown) {
    const isFlag = from.startsWith('--') && !from.endsWith('-file');
    throw misuse(`Expected a JSON schema in ${from}: ${(thrown as Error).message}${isFlag ? ' (for a file: --json-schema-file)' : ''}`);
  }
  throw misuse(`Expected a JSON object in ${from}, got ${quote(json)}.`);
}

export function makeRequest(messages: ChatMessage[], settings: AnswerSettings, constraint: Constraint, template: TemplateName = 'auto', thinks = true): ChatRequest {
  const { source, stops } = chatTemplates[template];
  return {
    messages: JSON.stringify(messages),
    tools: '',
    toolSources: [],
    toolChoice: 'none',
    parallelToolCalls: undefined,
    constraint,
    sampling: makeSampling(settings),
    maxTokens: settings.maxTokens,
    stop: [...stops, ...settings.stop ?? []],
    enableThinking: thinks,
    templateKwargs: {},
    template: source,
  };
}

function makeSampling({ temperature, seed, more = {}, ...settings }: AnswerSettings): Sampling {
  const samplers = Object.fromEntries(samplerKeys.map((key) => [key, settings[key]]));
  return {
    ...samplingDefaults, ...samplers as Pick<AnswerSettings, SamplerFlag>, ...more, temperature,
    mirostat: (more.mirostat ?? 0) as Sampling['mirostat'], seed: seed === 0 ? undefined : seed, logitBias: [], ignoreEos: false,
  };
}
