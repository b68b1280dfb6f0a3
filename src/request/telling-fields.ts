// The additional output that a request asks for, by the fields that chats and completions share.
// Pure. Called by the dialects' readers.
import type { Telling } from '../engine/telling.js';
import { RecuaError } from '../errors.js';
import { Fields, int32Max, wrongType } from './fields.js';

/** OpenAI's maximum. */
export const maxTopLogprobs = 20;
/** llama-server has no bound; each token of the answer carries this many. */
const maxProbs = 100;

/**
 * llama-server's `n_probs`: how many of the likeliest tokens to report at each position; 0 is none.
 */
export function readProbs(body: Fields): number | undefined {
  return body.integer('n_probs', { min: 0, max: maxProbs }) || undefined;
}

/** OpenAI's `logprobs` and `top_logprobs` of chats. */
export function readTopLogprobs(body: Fields): number | undefined {
  const asked = body.boolean('logprobs') ?? false;
  const top = body.integer('top_logprobs', { min: 0, max: maxTopLogprobs });
  if (asked) return top ?? 0;
  if (top) throw new RecuaError('invalid_value', `Expected logprobs: true with top_logprobs, got top_logprobs ${top} without it.`, { param: 'top_logprobs' });
  return undefined;
}

/** `logprobs`: the count from the dialect's own fields. */
export function readTelling(body: Fields, logprobs: number | undefined, vocabSize: number, stream: boolean): Telling {
  const tells: Telling = {};
  const probs = readProbs(body);
  if (logprobs !== undefined && probs !== undefined && probs !== logprobs) {
    throw new RecuaError('invalid_value', `Expected n_probs without logprobs, or equal to the ${logprobs} of logprobs; got ${probs}.`, { param: 'n_probs' });
  }
  const top = logprobs ?? probs;
  const afterSampling = body.boolean('post_sampling_probs') ?? false;
  if (top !== undefined) {
    tells.logprobs = Math.min(top, vocabSize);
    if (afterSampling) tells.afterSampling = true;
  }
  if (body.boolean('return_tokens')) tells.tokens = true;
  // A complete answer has no intermediate pieces to report on.
  const progress = body.boolean('return_progress');
  const timings = body.boolean('timings_per_token');
  if (stream && progress) tells.progress = true;
  if (stream && timings) tells.timings = true;
  return tells;
}

/** Each takes some 20 bytes until the answer is complete, and 75 in the reply. */
const maxChances = 2_000_000;
/** Responses keep theirs as objects, which are stored and repeated in events. */
export const maxChancesOfResponse = 200_000;

/** Answers with log probabilities: how many, and what the engine reads for them. */
interface Tellers {
  answers?: number;
  promptTokens?: number;
  /** Most log probabilities of all answers and prompts together. */
  most?: number;
}

/**
 * The most tokens of an answer: those that the request asks for, else the usual ones, as far as
 * their log probabilities do not take too much memory. While the model is not known yet, nothing
 * takes too much.
 * @throws RecuaError `invalid_value` if what the request asks for does
 */
export function boundTold(
  { logprobs }: Telling,
  asked: number | undefined,
  usual: number,
  contextSize: number,
  { answers = 1, promptTokens = 0, most = maxChances }: Tellers = {},
): number {
  const maxTokens = asked ?? usual;
  if (logprobs === undefined || contextSize === int32Max) return maxTokens;
  const fit = Math.floor((most / (1 + logprobs) - promptTokens) / answers);
  if (Math.min(maxTokens, contextSize) <= fit) return maxTokens;
  if ((asked === undefined || asked === int32Max) && fit > 0) return fit;
  const wanted = (answers * Math.min(maxTokens, contextSize) + promptTokens) * (1 + logprobs);
  throw new RecuaError(
    'invalid_value',
    `Expected at most ${most} log probabilities in all answers together, got a request for up to ${wanted}; ask for fewer tokens, answers or likeliest tokens.`,
    { param: 'logprobs' },
  );
}

/** Time limit for generation after the first token; 0 means none. */
export function readGenerateMs(body: Fields): { generateMs?: number } {
  const ms = body.integer('t_max_predict_ms', { min: -1, max: Number.MAX_SAFE_INTEGER }) ?? 0;
  return ms > 0 ? { generateMs: ms } : {};
}

/** OpenAI's predicted output: a text, or a list of its parts. '' means none. */
export function readPrediction(body: Fields): { prediction?: string } {
  const given = body.fields('prediction');
  if (given === undefined) return {};
  if (given.word('type', ['content']) === undefined) throw wrongType(given.param('type'), '"content"', undefined);
  const content = given.get('content');
  if (typeof content === 'string') return content === '' ? {} : { prediction: content };
  const parts = given.array('content', 10_000);
  if (parts === undefined) throw wrongType(given.param('content'), 'a string or an array of text parts', undefined);
  const text = parts.map((part, index) => readPart(Fields.of(part, `${given.param('content')}[${index}]`))).join('');
  return text === '' ? {} : { prediction: text };
}

function readPart(part: Fields): string {
  part.word('type', ['text']);
  const text = part.string('text');
  if (text === undefined) throw wrongType(part.param('text'), 'a string', undefined);
  return text;
}
