// Writes answers in OpenAI's chat format, from the engine's deltas and numbers, and defines the
// wire types. Pure, except for new ids. Called by server/exchange. The counterpart of chat-request.
import { randomBytes } from 'node:crypto';
import { newToolCallId } from '../../engine/tool-call-id.js';
import type { Finish } from '../../engine/api.js';
import type { WholeAnswer } from '../../engine/whole-answer.js';
import { idsOf, unpack, type ToldList } from '../../engine/packed-tokens.js';
import { thousandths } from '../../engine/rounding.js';
import type { Delta, FinishReason, ModelDescription, Timings, Usage } from '../../engine/protocol.js';
import type { Progress, Telling, ToldToken } from '../../engine/telling.js';
import type { RecuaError } from '../../errors.js';
import { CustomInput, customInput } from '../exchange/custom-input.js';
import type { AnswerWriter } from '../exchange/dialect.js';
import { chatLogprobs, type ChatLogprobs } from '../exchange/logprobs.js';
import { errorBody } from '../http/error-reply.js';
import type { Frame } from '../http/stream.js';

export interface WireUsage {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  prompt_tokens_details: { cached_tokens: number };
  /**
   * Tokens of thinking, if the model thought; accepted and rejected tokens, if tokens were drafted.
   * Rejected tokens are not completion tokens.
   */
  completion_tokens_details?: { reasoning_tokens?: number; accepted_prediction_tokens?: number; rejected_prediction_tokens?: number };
}

/** llama-server's names. All values are finite: 0 instead of a division by 0. */
export interface WireTimings {
  cache_n: number;
  prompt_n: number;
  prompt_ms: number;
  prompt_per_token_ms: number;
  prompt_per_second: number;
  predicted_n: number;
  predicted_ms: number;
  predicted_per_token_ms: number;
  predicted_per_second: number;
  draft_n?: number;
  draft_n_accepted?: number;
}

export type WireToolCall =
  | { id: string; type: 'function'; function: { name: string; arguments: string } }
  | { id: string; type: 'custom'; custom: { name: string; input: string } };

/** The first delta of a call has its id, type and name. */
export interface WireCallDelta {
  index: number;
  id?: string;
  type?: 'function' | 'custom';
  function?: { name?: string; arguments: string };
  custom?: { name?: string; input: string };
}

export interface WireDelta {
  role?: 'assistant';
  content?: string;
  reasoning_content?: string;
  tool_calls?: WireCallDelta[];
}

export interface ChatCompletionChunk {
  id: string;
  object: 'chat.completion.chunk';
  created: number;
  model: string;
  /** Absent until the model is loaded. */
  system_fingerprint?: string | undefined;
  choices: { index: number; delta: WireDelta; logprobs: ChatLogprobs | null; tokens?: number[]; finish_reason: FinishReason | null }[];
  usage?: WireUsage | null;
  timings?: WireTimings;
  prompt_progress?: WireProgress;
  warnings?: string[];
}

/** Prefill progress, in llama-server's format. */
export interface WireProgress {
  total: number;
  cache: number;
  processed: number;
  time_ms: number;
}

export interface ChatCompletion {
  id: string;
  object: 'chat.completion';
  created: number;
  model: string;
  system_fingerprint?: string | undefined;
  choices: {
    index: number;
    message: {
      role: 'assistant';
      content: string | null;
      refusal: null;
      annotations: [];
      reasoning_content?: string;
      tool_calls?: WireToolCall[];
    };
    logprobs: ChatLogprobs | null;
    tokens?: number[];
    finish_reason: FinishReason;
  }[];
  usage: WireUsage;
  timings: WireTimings;
  warnings?: string[];
}

/** The parts of a request that affect the format of the answer. */
export interface ChatShape {
  count: number;
  includeUsage: boolean;
  tells: Telling;
  /** Names of custom tools. */
  customTools?: readonly string[];
}

/** Writes the answers, complete or in chunks, all with the same id, time and model. */
export class ChatWriter implements AnswerWriter {
  readonly #head: Pick<ChatCompletionChunk, 'id' | 'created' | 'model' | 'system_fingerprint'>;
  readonly #asked: ChatShape;
  /**
   * Tool calls that have begun, by answer and index, since only the first delta has id and name.
   * The value reads the input of a custom tool.
   */
  readonly #calls = new Map<string, CustomInput | undefined>();

  constructor({ count, includeUsage, tells, customTools = [] }: ChatShape, model: string) {
    this.#head = {
      id: `chatcmpl-${randomBytes(12).toString('hex')}`,
      created: Math.floor(Date.now() / 1000),
      model,
      system_fingerprint: undefined,
    };
    this.#asked = { count, includeUsage, tells, customTools };
  }

  get id(): string {
    return this.#head.id;
  }

  computedBy({ llamaCpp }: Pick<ModelDescription, 'llamaCpp'>): void {
    this.#head.system_fingerprint = `llama.cpp-${llamaCpp}`;
  }

  opening(): Frame[] {
    return Array.from({ length: this.#asked.count }, (_, index) => this.#chunk({ role: 'assistant', content: '' }, index));
  }

  ping(): Frame {
    return this.#chunk({}, 0);
  }

  /** One kind of content per chunk, thinking first. The last chunk has the tokens of all. */
  deltas(delta: Delta, index: number): Frame[] {
    const { reasoning, content, toolCalls, tokens, progress, soFar } = delta;
    const deltas: WireDelta[] = [];
    if (reasoning) deltas.push({ reasoning_content: reasoning });
    if (content) deltas.push({ content });
    if (toolCalls?.length) {
      deltas.push({ tool_calls: toolCalls.map((call) => this.#call(call, `${index} ${call.index}`)) });
    }
    if (!tokens && !progress && !soFar) return deltas.map((one) => this.#chunk(one, index));
    const last = deltas.pop() ?? {};
    return [...deltas.map((one) => this.#chunk(one, index)), this.#chunk(last, index, undefined, delta)];
  }

  /** Clients concatenate names as well as arguments, so the name is sent only once. */
  #call({ index, id, name = '', arguments: text = '' }: NonNullable<Delta['toolCalls']>[number], key: string): WireCallDelta {
    const begun = this.#calls.has(key);
    const isCustom = this.#asked.customTools?.includes(name);
    if (!begun) this.#calls.set(key, isCustom ? new CustomInput() : undefined);
    const custom = this.#calls.get(key);
    const head = begun ? { index } : { index, id: id || newToolCallId(), type: custom ? 'custom' as const : 'function' as const };
    const named = begun ? {} : { name };
    return custom ? { ...head, custom: { ...named, input: custom.add(text) } } : { ...head, function: { ...named, arguments: text } };
  }

  ended(finish: Finish, index: number): Frame[] {
    return [this.#chunk({}, index, finish)];
  }

  ending(finishes: readonly Finish[]): Frame[] {
    const usage = { ...this.#head, object: 'chat.completion.chunk', choices: [], usage: usageToWire(sumOf(finishes, this.#asked.count)), ...ending(finishes) };
    return [...(this.#asked.includeUsage ? [{ data: usage }] : []), { data: '[DONE]' }];
  }

  /** The missing [DONE] shows that the answer is incomplete. */
  failure(error: RecuaError): Frame[] {
    return [{ data: errorBody(error) }];
  }

  whole(said: readonly WholeAnswer[], finishes: readonly Finish[]): ChatCompletion {
    return {
      ...this.#head,
      object: 'chat.completion',
      choices: finishes.map(({ finishReason }, index) => (
        { ...choice(said[index]!, finishReason, index, this.#asked.customTools), ...this.#told(said[index]!.tokens) }
      )),
      usage: usageToWire(sumOf(finishes, this.#asked.count)),
      ...ending(finishes),
    };
  }

  #chunk(delta: WireDelta, index: number, finish?: Finish, { tokens, progress, soFar }: Delta = {}): Frame {
    const chunk: ChatCompletionChunk = {
      ...this.#head,
      object: 'chat.completion.chunk',
      choices: [
        { index, delta, logprobs: null, ...(tokens ? this.#told(unpack(tokens)) : {}), finish_reason: finish?.finishReason ?? null },
      ],
      ...(this.#asked.includeUsage ? { usage: null } : {}),
      ...(soFar ? { timings: timingsToWire(soFar.usage, soFar.timings) } : {}),
      ...(progress ? { prompt_progress: progressToWire(progress) } : {}),
      ...(finish === undefined ? {} : ending([finish])),
    };
    return { data: chunk };
  }

  #told(tokens: readonly ToldToken[] | ToldList): { logprobs?: ChatLogprobs; tokens?: number[] } {
    const { tells } = this.#asked;
    return {
      ...(tells.logprobs === undefined ? {} : { logprobs: chatLogprobs(tokens, tells) }),
      ...(tells.tokens ? { tokens: idsOf(tokens) } : {}),
    };
  }
}

function choice(
  { content, reasoning, toolCalls }: WholeAnswer, finishReason: FinishReason, index: number, customTools: readonly string[] = [],
): ChatCompletion['choices'][number] {
  const calls = toolCalls.map(({ id, name, arguments: args }): WireToolCall => (
    customTools.includes(name) ? { id, type: 'custom', custom: { name, input: customInput(args) } } : { id, type: 'function', function: { name, arguments: args } }
  ));
  return {
    index,
    message: {
      role: 'assistant',
      content: content === '' && toolCalls.length > 0 ? null : content,
      refusal: null,
      annotations: [],
      ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
      ...(calls.length === 0 ? {} : { tool_calls: calls }),
    },
    logprobs: null,
    finish_reason: finishReason,
  };
}

/**
 * The usage of several answers. Each prompt counts once, with the cached tokens of the first of its
 * `perPrompt` answers.
 */
export function sumOf(finishes: readonly Finish[], perPrompt: number): Usage {
  const sum: Usage = { promptTokens: 0, cachedTokens: 0, completionTokens: 0 };
  for (const [index, { usage }] of finishes.entries()) {
    sum.completionTokens += usage.completionTokens;
    if (usage.reasoningTokens !== undefined) sum.reasoningTokens = (sum.reasoningTokens ?? 0) + usage.reasoningTokens;
    if (usage.draftedTokens !== undefined) {
      sum.draftedTokens = (sum.draftedTokens ?? 0) + usage.draftedTokens;
      sum.acceptedTokens = (sum.acceptedTokens ?? 0) + (usage.acceptedTokens ?? 0);
    }
    if (index % perPrompt !== 0) continue;
    sum.promptTokens += usage.promptTokens;
    sum.cachedTokens += usage.cachedTokens;
  }
  return sum;
}

/** Timings of the first answer, and the distinct warnings of all. */
export function ending(finishes: readonly Finish[]): { timings: WireTimings; warnings?: string[] } {
  const { usage, timings } = finishes[0]!;
  const warnings = [...new Set(finishes.flatMap((finish) => finish.warnings))];
  return { timings: timingsToWire(usage, timings), ...(warnings.length === 0 ? {} : { warnings }) };
}

export function progressToWire({ total, cached, processed, elapsedMs }: Progress): WireProgress {
  return { total, cache: cached, processed, time_ms: Math.round(elapsedMs) };
}

export function usageToWire({
  promptTokens,
  cachedTokens,
  completionTokens,
  reasoningTokens,
  draftedTokens,
  acceptedTokens = 0,
}: Usage): WireUsage {
  const details = {
    ...(reasoningTokens === undefined ? {} : { reasoning_tokens: reasoningTokens }),
    ...(draftedTokens === undefined
      ? {}
      : { accepted_prediction_tokens: acceptedTokens, rejected_prediction_tokens: draftedTokens - acceptedTokens }),
  };
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens },
    ...(Object.keys(details).length === 0 ? {} : { completion_tokens_details: details }),
  };
}

export function timingsToWire(usage: Usage, { promptMs, generateMs }: Timings): WireTimings {
  const promptN = usage.promptTokens - usage.cachedTokens;
  return {
    cache_n: usage.cachedTokens,
    prompt_n: promptN,
    prompt_ms: thousandths(promptMs),
    prompt_per_token_ms: ratio(promptMs, promptN),
    prompt_per_second: ratio(promptN * 1000, promptMs),
    predicted_n: usage.completionTokens,
    predicted_ms: thousandths(generateMs),
    predicted_per_token_ms: ratio(generateMs, usage.completionTokens),
    predicted_per_second: ratio(usage.completionTokens * 1000, generateMs),
    ...(usage.draftedTokens === undefined ? {} : { draft_n: usage.draftedTokens, draft_n_accepted: usage.acceptedTokens ?? 0 }),
  };
}

function ratio(amount: number, per: number): number {
  return per > 0 ? thousandths(amount / per) : 0;
}
