// Parses and checks the body of POST /v1/completions → the engine's CompletionRequests. Pure.
// Called by dialect.
import type { CompletionRequest } from '../../engine/protocol.js';
import type { Telling } from '../../engine/telling.js';
import { RecuaError } from '../../errors.js';
import { wrongType, wrongValue, type Fields } from '../../request/fields.js';
import { readPriority } from '../../request/priority.js';
import { readTokens } from '../../request/tokens.js';
import { readSampling } from '../../request/sampling-fields.js';
import { boundTold, maxTopLogprobs, readGenerateMs, readTelling } from '../../request/telling-fields.js';
import type { ChatAsked, ChatContext } from '../exchange/dialect.js';
import { readConstraint } from '../../request/constraint-fields.js';
import { allowed, boundAnswers, foreign, readCount, readMaxTokens, readSlot, readStop, readStreamOptions, refuseAll, times } from './answer-fields.js';

const maxPrompts = 128;
const maxCandidates = 128;

export interface CompletionBody extends ChatAsked {
  /** Answers to generate per prompt. */
  count: number;
  /** How many of the best to return. */
  wanted: number;
  includeUsage: boolean;
  /** As in the request. */
  tells: Telling;
  /**
   * Texts that answers start with, per prompt, because of `echo`. The engine supplies the text of a
   * prompt of tokens.
   */
  echoes: readonly (string | undefined)[] | undefined;
}

export function readCompletionRequest(body: Fields, { defaults, model }: ChatContext): CompletionBody {
  refuseAll(body, foreign);
  const prompts = readPrompts(body, model.vocabSize);
  const stream = body.boolean('stream') ?? false;
  const wanted = readCount(body);
  const count = readCandidates(body, wanted, stream);
  boundAnswers(prompts.length, count);
  const echo = body.boolean('echo') ?? false;
  const suffix = body.string('suffix') ?? '';
  const tells = readTelling(body, readLogprobs(body), model.vocabSize, stream);
  const asked: Telling = count > wanted ? { logprobs: 0, ...tells } : tells;
  const readings = echo ? prompts.reduce((sum, { length }) => sum + Math.min(length, model.contextSize), 0) : 0;
  const common = {
    constraint: readConstraint(body),
    sampling: readSampling(body, { ...defaults, vocabSize: model.vocabSize, contextSize: model.contextSize }),
    maxTokens: boundTold(asked, readMaxTokens(body, 0), defaults.maxTokens, model.contextSize, {
      answers: prompts.length * count,
      promptTokens: readings,
    }),
    stop: readStop(body),
    ...readGenerateMs(body),
    ...readPriority(body),
  };
  const streamed = readStreamOptions(body);
  body.allow(...allowed);
  return {
    prompts: prompts.map((prompt) => {
      const request: CompletionRequest = {
        ...around(prompt, suffix),
        ...common,
        ...(Object.keys(asked).length > 0 ? { tells: asked } : {}),
      };
      if (!echo) return times(request, count);
      const [first, ...others] = times({ ...request, ...(typeof prompt === 'string' ? {} : { echo }) }, count);
      // Log probabilities of the prompt are the same for all answers.
      return [{ ...first!, ...(tells.logprobs === undefined ? {} : { tells: { ...asked, prompt: true } }) }, ...others];
    }),
    count,
    wanted,
    stream,
    ...streamed,
    warnings: readSlot(body),
    tells,
    echoes: echo ? prompts.map((prompt) => (typeof prompt === 'string' ? prompt : undefined)) : undefined,
  };
}

/** With a suffix, the prompt is the text before the gap. */
function around(prompt: string | Int32Array, suffix: string): Pick<CompletionRequest, 'prompt' | 'infill'> {
  if (suffix === '') return { prompt };
  if (typeof prompt !== 'string') throw new RecuaError('invalid_value', 'Expected a prompt of text with suffix, got tokens.', { param: 'suffix' });
  return { prompt: '', infill: { prefix: prompt, suffix, extra: [] } };
}

/** OpenAI's `best_of`: how many answers to generate, of which the `n` likeliest are returned. */
function readCandidates(body: Fields, wanted: number, stream: boolean): number {
  const count = body.integer('best_of', { min: 1, max: maxCandidates }) ?? wanted;
  if (count < wanted) throw wrongValue('best_of', `at least n, which is ${wanted}`, count);
  if (count > wanted && stream) {
    throw new RecuaError('invalid_value', 'Expected best_of to equal n with stream: true, since the best answers are known only at the end; leave one of them out.', { param: 'best_of' });
  }
  return count;
}

/**
 * How many of the likeliest tokens to report per position; clients of llama-server may send false.
 */
function readLogprobs(body: Fields): number | undefined {
  return body.get('logprobs') === false ? undefined : body.integer('logprobs', { min: 0, max: maxTopLogprobs });
}

/** A string, an array of strings, tokens, or an array of these, as in OpenAI's API. */
function readPrompts(body: Fields, vocabSize: number): (string | Int32Array)[] {
  const prompt = body.get('prompt');
  const expected = 'a string, an array of strings, or tokens';
  if (typeof prompt === 'string') return [prompt];
  if (!Array.isArray(prompt)) throw wrongType('prompt', expected, prompt);
  if (prompt.length === 0) throw wrongValue('prompt', 'at least one prompt', prompt);
  if (typeof prompt[0] === 'number') return [readTokens(prompt, 'prompt', vocabSize)];
  if (prompt.length > maxPrompts) throw wrongValue('prompt', `at most ${maxPrompts} prompts`, prompt);
  return prompt.map((one: unknown, index) => {
    if (typeof one === 'string') return one;
    if (Array.isArray(one)) return readTokens(one, `prompt[${index}]`, vocabSize);
    throw wrongType(`prompt[${index}]`, 'a string or an array of tokens', one);
  });
}
