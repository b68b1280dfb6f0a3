// The flags that say how to answer, for the commands that ask a model themselves (run, chat); and what they mean to a request.
import type { samplingDefaults as SamplingDefaults } from '../../settings/config.js';
import { defaults, samplingDefaults } from '../../settings/config.js';
import type { ChatMessage, ChatRequest, Constraint, Sampling } from '../../engine/protocol.js';
import { chatTemplates } from '../../models/chat-templates.js';
import type { TemplateName } from '../../models/chat-templates.js';
import { maxCount, readTextFile } from './engine-flags.js';
import { integer, misuse, on, perCall, real, text } from './flags.js';
import type { Values } from './flags.js';

type OwnDefaults = { maxTokens: number } & Partial<Record<keyof typeof SamplingDefaults, number>>;

/** Commands differ in some defaults only. */
export function answerFlags(own: OwnDefaults) {
  const fallback = { ...samplingDefaults, ...own };
  return {
    system: text(['--system', '-s'], 'text', 'System message before the prompt'),
    maxTokens: integer(['--max-tokens', '-n'], 'n', 'Most tokens per answer', { fallback: own.maxTokens, min: 1, max: maxCount }),
    temperature: real(['--temp', '--temperature'], 'x', 'Temperature; 0 always takes the likeliest token', { fallback: defaults.temperature, min: 0, max: 100 }),
    topP: real(['--top-p'], 'x', 'Keep the likeliest tokens that add up to this probability; 1 is off', { fallback: fallback.topP, min: 0, max: 1 }),
    topK: integer(['--top-k'], 'n', 'Keep this many of the likeliest tokens; 0 is off', { fallback: fallback.topK, min: 0, max: maxCount }),
    minP: real(['--min-p'], 'x', 'Drop tokens below this share of the likeliest one\'s probability; 0 is off', { fallback: fallback.minP, min: 0, max: 1 }),
    repeatPenalty: real(['--repeat-penalty'], 'x', 'Penalty on tokens that came already; 1 is off', { fallback: fallback.repeatPenalty, min: 0.01, max: 100 }),
    seed: integer(['--seed'], 'n', 'Random seed; 0 draws one', { fallback: 0, min: 0, max: 2 ** 32 - 1 }),
    grammar: perCall(text(['--grammar', '-g'], 'gbnf', 'GBNF grammar that the answer has to follow')),
    grammarFile: perCall(text(['--grammar-file', '-gf'], 'file', 'File with such a grammar')),
    json: perCall(on(['--json'], 'Print one JSON object with the answer, usage and timings instead of the text')),
    quiet: on(['--quiet', '-q'], 'Say nothing about loading'),
  } as const;
}

export type AnswerValues = Values<ReturnType<typeof answerFlags>>;

/** The settings of an answer that a person chooses and a saved chat keeps. */
export type AnswerSettings = Pick<AnswerValues, 'maxTokens' | 'temperature' | 'topP' | 'topK' | 'minP' | 'repeatPenalty' | 'seed'>;

/** The grammar that the flags name, as a constraint. */
export async function readConstraint(values: Pick<AnswerValues, 'grammar' | 'grammarFile'>): Promise<Constraint> {
  if (values.grammar !== '' && values.grammarFile !== '') throw misuse('Expected --grammar or --grammar-file, got both.');
  const grammar = values.grammarFile === '' ? values.grammar : await readTextFile(values.grammarFile);
  if (values.grammarFile !== '' && grammar.trim() === '') throw misuse(`Expected a grammar in ${values.grammarFile}, found nothing.`);
  return grammar === '' ? { kind: 'none' } : { kind: 'grammar', grammar };
}

export function makeRequest(messages: ChatMessage[], settings: AnswerSettings, constraint: Constraint, template: TemplateName = 'auto'): ChatRequest {
  const { source, stops } = chatTemplates[template];
  return {
    messages,
    tools: [],
    toolChoice: 'none',
    parallelToolCalls: undefined,
    constraint,
    sampling: makeSampling(settings),
    maxTokens: settings.maxTokens,
    stop: [...stops],
    enableThinking: true,
    templateKwargs: {},
    template: source,
  };
}

function makeSampling({ temperature, topK, topP, minP, repeatPenalty, seed }: AnswerSettings): Sampling {
  return {
    ...samplingDefaults, temperature, topK, topP, minP, repeatPenalty,
    mirostat: 0, seed: seed === 0 ? undefined : seed, logitBias: [], ignoreEos: false,
  };
}
