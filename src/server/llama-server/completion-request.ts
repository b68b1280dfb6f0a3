// Parses and checks the body of POST /completion and /infill → the engine's CompletionRequests.
// Pure. Called by dialect. Unsupported fields that would change the answer are refused by name.
import type { CompletionRequest, Sampling } from '../../engine/protocol.js';
import type { Telling } from '../../engine/telling.js';
import { RecuaError } from '../../errors.js';
import { readConstraint } from '../../request/constraint-fields.js';
import { checkName, Fields, isObject, wrongType, wrongValue } from '../../request/fields.js';
import { readPriority } from '../../request/priority.js';
import { readSampling } from '../../request/sampling-fields.js';
import { boundTold, readGenerateMs, readTelling } from '../../request/telling-fields.js';
import { readTokens } from '../../request/tokens.js';
import type { ChatAsked, ChatContext } from '../exchange/dialect.js';
import { allowed, boundAnswers, foreign, readCount, readMaxTokens, readSlot, readStop, refuse, refuseAll, times } from '../openai/answer-fields.js';

const maxPrompts = 128;
const maxFields = 100;
/** Characters that all answers of a request may repeat of it. */
const mostEchoed = 32 * 2 ** 20;

export interface NativeBody extends ChatAsked {
  /** Answers per prompt. */
  count: number;
  tells: Telling;
  /** Complete answers also report their tokens. */
  returnTokens: boolean;
  /** Fields of the reply to return; empty means all. */
  responseFields: readonly string[];
  /** Texts of the prompts; undefined for tokens, whose text the engine supplies. */
  texts: readonly (string | undefined)[];
  /** Settings that the answer echoes. */
  settings: { sampling: Sampling; maxTokens: number; stop: readonly string[]; stream: boolean; probs: number; grammar: string };
}

/** Fields that would change the answer, each with the value that requests nothing. */
const neutral: Record<string, unknown> = { n_indent: 0, grammar_lazy: false };

export function readNativeRequest(body: Fields, context: ChatContext): NativeBody {
  const prompts = readPrompts(body, context.model.vocabSize);
  return readAround(body, context, prompts.map((prompt) => ({ prompt, ...(typeof prompt === 'string' ? {} : { echo: true }) })), prompts.map((prompt) => (typeof prompt === 'string' ? prompt : undefined)));
}

/** Code between a prefix and a suffix, for models with fill-in-the-middle tokens. */
export function readInfillRequest(body: Fields, context: ChatContext): NativeBody {
  for (const name of ['input_prefix', 'input_suffix']) if (body.string(name) === undefined) throw wrongType(name, 'a string', undefined);
  const extra = (body.array('input_extra', maxFields) ?? []).map((value, index) => {
    const fields = Fields.of(value, `input_extra[${index}]`);
    const text = fields.string('text');
    if (text === undefined) throw wrongType(fields.param('text'), 'a string', undefined);
    return { filename: fields.string('filename') ?? 'tmp', text };
  });
  const infill = { prefix: body.string('input_prefix')!, suffix: body.string('input_suffix')!, extra };
  return readAround(body, context, [{ prompt: body.string('prompt') ?? '', infill, echo: true }], [undefined]);
}

function readAround(body: Fields, { defaults, model }: ChatContext, prompts: Pick<CompletionRequest, 'prompt' | 'echo' | 'infill'>[], texts: NativeBody['texts']): NativeBody {
  for (const [name, value] of Object.entries(neutral)) if (body.get(name) !== value) refuse(body, name);
  refuseAll(body, foreign);
  body.allow(...allowed);
  const lora = body.array('lora', maxFields) ?? [];
  if (lora.length > 0) refuse(body, 'lora');
  const stream = body.boolean('stream') ?? false;
  const tells = readTelling(body, undefined, model.vocabSize, stream);
  const returnTokens = body.boolean('return_tokens') ?? false;
  const asked: Telling = stream ? { ...tells, tokens: true } : tells;
  const constraint = readConstraint(body);
  const sampling = readSampling(body, { ...defaults, vocabSize: model.vocabSize, contextSize: model.contextSize });
  const stop = readStop(body);
  const count = readCount(body);
  boundAnswers(prompts.length, count);
  const maxTokens = boundTold(tells, readMaxTokens(body, 0), defaults.maxTokens, model.contextSize, { answers: prompts.length * count });
  const common = {
    constraint,
    sampling,
    maxTokens,
    stop,
    ...readGenerateMs(body),
    ...readPriority(body),
    ...(Object.keys(asked).length > 0 ? { tells: asked } : {}),
  };
  const settings = { sampling, maxTokens, stop, stream, probs: tells.logprobs ?? 0, grammar: constraint.kind === 'grammar' ? constraint.grammar : '' };
  const responseFields = (body.array('response_fields', maxFields) ?? []).map((name, index) => checkName(name, `response_fields[${index}]`, 100));
  // In a stream, they have no effect.
  if (stream || responseFields.length === 0 || responseFields.some((name) => /^(prompt|generation_settings)(\/|$)/.test(name))) boundEchoes(texts, settings, count);
  return {
    prompts: prompts.map((prompt) => times<CompletionRequest>({ ...prompt, ...common }, count)),
    stream,
    count,
    warnings: readSlot(body),
    tells,
    returnTokens,
    responseFields,
    texts,
    settings,
  };
}

/** Each answer repeats its prompt and the settings. */
function boundEchoes(texts: NativeBody['texts'], { grammar, stop, sampling }: NativeBody['settings'], count: number): void {
  if (texts.length * count === 1) return;
  const own = texts.reduce((sum, text = '') => sum + text.length, 0);
  const common = grammar.length + JSON.stringify([stop, sampling.logitBias, sampling.drySequenceBreakers ?? []]).length;
  const characters = count * (own + texts.length * common);
  if (characters <= mostEchoed) return;
  throw new RecuaError('invalid_value',
    `Expected at most ${mostEchoed} characters of prompts and settings, which each answer repeats, got ${characters} in all; ask for fewer answers, or, without stream, only for their content: "response_fields": ["content"].`,
    { param: 'n' });
}

/** A string, tokens, or an array of these; a string may be inside an object. */
function readPrompts(body: Fields, vocabSize: number): (string | Int32Array)[] {
  const prompt = body.get('prompt');
  if (Array.isArray(prompt) && prompt.length > 0 && !prompt.every((one) => typeof one === 'number')) {
    if (prompt.some((one) => typeof one === 'number')) {
      throw new RecuaError('unsupported_parameter', 'A prompt that mixes tokens and texts is not supported; send one or the other.', { param: 'prompt' });
    }
    if (prompt.length > maxPrompts) throw wrongValue('prompt', `at most ${maxPrompts} prompts`, prompt);
    return prompt.map((one, index) => readPrompt(one, `prompt[${index}]`, vocabSize));
  }
  return [readPrompt(prompt, 'prompt', vocabSize)];
}

function readPrompt(value: unknown, param: string, vocabSize: number): string | Int32Array {
  if (typeof value === 'string') return value;
  if (Array.isArray(value)) return readTokens(value, param, vocabSize);
  if (!isObject(value)) throw wrongType(param, 'a string, an array of tokens or an object with prompt_string', value);
  const fields = Fields.of(value, param);
  if ((fields.array('multimodal_data', maxFields) ?? []).length > 0) {
    throw new RecuaError('unsupported_content', `Expected no ${fields.param('multimodal_data')}: only text is supported.`, { param: fields.param('multimodal_data') });
  }
  const text = fields.string('prompt_string');
  if (text === undefined) throw wrongType(fields.param('prompt_string'), 'a string', undefined);
  return text;
}
