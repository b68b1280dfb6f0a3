// The fields that chats and completions share: length, number and stop strings of answers. Called
// by chat-request and completion-request. Pure.
import type { Sampling } from '../../engine/protocol.js';
import { RecuaError } from '../../errors.js';
import { conflict } from '../../request/constraint-fields.js';
import { checkName, int32Max, wrongType, type Fields } from '../../request/fields.js';
import { unsupported } from '../../request/unsupported.js';

const maxPerPrompt = 128;
const maxAnswers = 1_024;
const maxStops = 16;
const maxStopLength = 1_024;
/** A longer pause would look like an answer that hangs. */
const mostIntervalMs = 1_000;

/**
 * Reads OpenAI's two names, of which the newer one wins, and llama-server's. -1 means no limit but
 * the context. In completions, 0 means only the prompt.
 */
export function readMaxTokens(body: Fields, least: 0 | 1 = 1): number | undefined {
  const older = readMost(body, 'max_tokens', least);
  const newer = readMost(body, 'max_completion_tokens', least);
  const openAi = newer ?? older;
  const predict = readMost(body, 'n_predict', least);
  if (predict !== undefined && openAi !== undefined && openAi !== predict) throw conflict('n_predict', newer === undefined ? 'max_tokens' : 'max_completion_tokens');
  return predict ?? openAi;
}

function readMost(body: Fields, name: string, least: 0 | 1): number | undefined {
  const most = body.integer(name, { min: least, max: int32Max, besides: [-1] });
  return most === -1 ? int32Max : most;
}

/** How the stream is sent. */
export function readStreamOptions(body: Fields): { includeUsage: boolean; intervalMs: number } {
  const options = body.fields('stream_options');
  options?.allow('include_obfuscation');
  return { includeUsage: options?.boolean('include_usage') ?? false, intervalMs: options?.integer('interval_ms', { min: 0, max: mostIntervalMs }) ?? 0 };
}

/** `count`: answers per prompt. */
export function boundAnswers(prompts: number, count: number): void {
  if (prompts * count <= maxAnswers) return;
  throw new RecuaError('invalid_value', `Expected at most ${maxAnswers} answers, got a request for ${count} for each of ${prompts} prompts; send several requests.`, { param: 'n' });
}

/** OpenAI's `n`, or llama-server's `n_cmpl`. */
export function readCount(body: Fields): number {
  const range = { min: 1, max: maxPerPrompt };
  const [count, same] = [body.integer('n', range), body.integer('n_cmpl', range)];
  return count ?? same ?? 1;
}

/** Copies of the request with consecutive seeds, as if a client sent `count` requests. */
export function times<Request extends { sampling: Sampling }>(request: Request, count: number): Request[] {
  const { sampling } = request;
  return Array.from({ length: count }, (_, index) =>
    index === 0
      ? request
      : { ...request, sampling: { ...sampling, seed: sampling.seed === undefined ? undefined : (sampling.seed + index) >>> 0 } },
  );
}

/** OpenAI's fields that have no effect here. */
export const allowed = ['user', 'metadata', 'store', 'safety_identifier', 'prompt_cache_key', 'prompt_cache_retention', 'n_keep', 'n_discard'];

/** vLLM's fields that would change the answer, each with a test for values that request nothing. */
export const foreign: Readonly<Record<string, (value: unknown) => boolean>> = {
  stop_token_ids: isEmptyArray,
  bad_words: isEmptyArray,
  allowed_token_ids: isEmptyArray,
  use_beam_search: (value) => value === false,
  include_stop_str_in_output: (value) => value === false,
};

/** Refuses each field whose value requests something. */
export function refuseAll(body: Fields, fields: typeof foreign): void {
  for (const [name, isNeutral] of Object.entries(fields)) {
    const value = body.get(name);
    if (value !== undefined && !isNeutral(value)) refuse(body, name);
  }
}

export function isEmptyArray(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0;
}

/** llama-server's fields for the KV cache, which requests cannot control here. Returns warnings. */
export function readSlot(body: Fields): string[] {
  const slot = body.integer('id_slot', { min: -1, max: int32Max }) ?? -1;
  const caches = body.boolean('cache_prompt') ?? true;
  return [
    ...(slot < 0 ? [] : ['id_slot has no effect: the server finds conversations by their tokens, in any slot.']),
    ...(caches ? [] : ['cache_prompt has no effect: the server always reuses tokens that it has already evaluated.']),
  ];
}

export function refuse(body: Fields, name: string): void {
  const value = body.get(name);
  if (value === undefined) return;
  throw unsupported(name, value);
}

export function readStop(body: Fields): string[] {
  const stop = body.get('stop');
  if (stop === undefined) return [];
  if (typeof stop === 'string') return [checkName(stop, 'stop', maxStopLength)];
  if (!Array.isArray(stop)) throw wrongType('stop', 'a string or an array of strings', stop);
  const stops = body.array('stop', maxStops) ?? [];
  return stops.map((text, index) => checkName(text, `stop[${index}]`, maxStopLength));
}
