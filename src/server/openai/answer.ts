// OpenAI's chat words on the way out: the wire types, and the engine's deltas and numbers → them.
// Pure, but for new ids. Called by chat-completions. The way in is chat-request.
import { randomBytes } from 'node:crypto';
import { newToolCallId } from '../../engine/tool-call-id.js';
import type { Finish } from '../../engine/api.js';
import type { WholeAnswer } from '../../engine/whole-answer.js';
import { thousandths } from '../../engine/rounding.js';
import type { Delta, FinishReason, Timings, Usage } from '../../engine/protocol.js';

export interface WireUsage {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  prompt_tokens_details: { cached_tokens: number };
  /**
   * Where tokens were guessed ahead: those that came true, and those that did not. Only the former
   * are completion tokens.
   */
  completion_tokens_details?: { accepted_prediction_tokens: number; rejected_prediction_tokens: number };
}

/** llama-server's names; all are finite, 0 where there is nothing to divide by. */
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

export interface WireToolCall {
  id: string;
  type: 'function';
  function: { name: string; arguments: string };
}

export interface WireDelta {
  role?: 'assistant';
  content?: string;
  reasoning_content?: string;
  tool_calls?: { index: number; id?: string; type?: 'function'; function: { name?: string; arguments: string } }[];
}

export interface ChatCompletionChunk {
  id: string;
  object: 'chat.completion.chunk';
  created: number;
  model: string;
  /** Absent until the model is loaded. */
  system_fingerprint?: string | undefined;
  choices: { index: 0; delta: WireDelta; logprobs: null; finish_reason: FinishReason | null }[];
  usage?: WireUsage | null;
  timings?: WireTimings;
  warnings?: string[];
}

export interface ChatCompletion {
  id: string;
  object: 'chat.completion';
  created: number;
  model: string;
  system_fingerprint?: string | undefined;
  choices: [{
    index: 0;
    message: {
      role: 'assistant';
      content: string | null;
      refusal: null;
      annotations: [];
      reasoning_content?: string;
      tool_calls?: WireToolCall[];
    };
    logprobs: null;
    finish_reason: FinishReason;
  }];
  usage: WireUsage;
  timings: WireTimings;
  warnings?: string[];
}

/** Writes one answer, whole or in chunks; both carry the same id, time and model. */
export class ChatWriter {
  readonly #head: Pick<ChatCompletionChunk, 'id' | 'created' | 'model' | 'system_fingerprint'>;
  readonly #chunkUsage: { usage?: null };
  /** Tool calls begun, by index: the first delta of each carries its id and name. */
  readonly #calls = new Set<number>();

  constructor(options: { model: string; includeUsage: boolean }) {
    this.#head = {
      id: `chatcmpl-${randomBytes(12).toString('hex')}`,
      created: Math.floor(Date.now() / 1000),
      model: options.model,
      system_fingerprint: undefined,
    };
    this.#chunkUsage = options.includeUsage ? { usage: null } : {};
  }

  /** What computes the answer. */
  set fingerprint(text: string) {
    this.#head.system_fingerprint = text;
  }

  chunk(delta: WireDelta, finish?: Finish): ChatCompletionChunk {
    return {
      ...this.#head,
      object: 'chat.completion.chunk',
      choices: [{ index: 0, delta, logprobs: null, finish_reason: finish?.finishReason ?? null }],
      ...this.#chunkUsage,
      ...(finish === undefined ? {} : ending(finish)),
    };
  }

  usageChunk(finish: Finish): ChatCompletionChunk {
    return { ...this.#head, object: 'chat.completion.chunk', choices: [], usage: usageToWire(finish.usage) };
  }

  /** What is new, one thing per chunk, thoughts first. */
  deltas({ reasoning, content, toolCalls }: Delta): WireDelta[] {
    const deltas: WireDelta[] = [];
    if (reasoning) deltas.push({ reasoning_content: reasoning });
    if (content) deltas.push({ content });
    if (toolCalls?.length) {
      deltas.push({ tool_calls: toolCalls.map((call) => {
        // Clients concatenate names and arguments alike, so the name goes once.
        if (this.#calls.has(call.index)) return { index: call.index, function: { arguments: call.arguments ?? '' } };
        this.#calls.add(call.index);
        return {
          index: call.index, id: call.id || newToolCallId(), type: 'function',
          function: { name: call.name ?? '', arguments: call.arguments ?? '' },
        };
      }) });
    }
    return deltas;
  }

  completion(said: WholeAnswer, finish: Finish): ChatCompletion {
    const { content, reasoning, toolCalls } = said;
    return {
      ...this.#head,
      object: 'chat.completion',
      choices: [{
        index: 0,
        message: {
          role: 'assistant',
          content: content === '' && toolCalls.length > 0 ? null : content,
          refusal: null,
          annotations: [],
          ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
          ...(toolCalls.length === 0 ? {} : { tool_calls: toolCalls.map(({ id, name, arguments: args }) => ({ id, type: 'function', function: { name, arguments: args } })) }),
        },
        logprobs: null,
        finish_reason: finish.finishReason,
      }],
      usage: usageToWire(finish.usage),
      ...ending(finish),
    };
  }
}

function ending({ usage, timings, warnings }: Finish): { timings: WireTimings; warnings?: string[] } {
  return { timings: timingsToWire(usage, timings), ...(warnings.length === 0 ? {} : { warnings }) };
}

export function usageToWire({ promptTokens, cachedTokens, completionTokens, draftedTokens, acceptedTokens = 0 }: Usage): WireUsage {
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens },
    ...(draftedTokens === undefined ? {} : {
      completion_tokens_details: { accepted_prediction_tokens: acceptedTokens, rejected_prediction_tokens: draftedTokens - acceptedTokens },
    }),
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
