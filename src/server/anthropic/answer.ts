// Writes answers in Anthropic's format, from the engine's deltas and numbers: a complete message or
// events. Pure, except for new ids. Called by server/exchange. The counterpart of message-request.
import { randomBytes } from 'node:crypto';
import type { Finish } from '../../engine/api.js';
import type { Delta, Usage } from '../../engine/protocol.js';
import { newToolCallId } from '../../engine/tool-call-id.js';
import type { WholeAnswer } from '../../engine/whole-answer.js';
import type { RecuaError } from '../../errors.js';
import { partOfArguments, wholeArguments } from '../exchange/cut-json.js';
import type { AnswerWriter, AskedRest, ChatAsked } from '../exchange/dialect.js';
import type { Frame } from '../http/stream.js';
import { errorBody } from './error-body.js';
import type { MessageBody } from './message-request.js';

export type MessageAsked = ChatAsked & Omit<MessageBody, 'request'>;

/** Kind of a block of the answer. Each call is a block of its own. */
type Kind = 'thinking' | 'text' | `call ${number}`;

export class MessageWriter implements AnswerWriter {
  readonly #head: { id: string; type: 'message'; role: 'assistant'; model: string };
  readonly #asked: AskedRest<MessageAsked>;
  /** The block that is being written. */
  #open: Kind | undefined;
  #index = -1;

  constructor(asked: AskedRest<MessageAsked>, model: string) {
    this.#asked = asked;
    this.#head = { id: `msg_${randomBytes(12).toString('hex')}`, type: 'message', role: 'assistant', model };
  }

  get id(): string {
    return this.#head.id;
  }

  opening(promptTokens = 0): Frame[] {
    // How many of them were cached is known, and reported, only at the end.
    const usage = wireUsage({ promptTokens, cachedTokens: 0, completionTokens: 0 });
    return [event({ type: 'message_start', message: { ...this.#head, content: [], stop_reason: null, stop_sequence: null, usage } })];
  }

  ping(): Frame {
    return event({ type: 'ping' });
  }

  deltas({ reasoning, content, toolCalls }: Delta): Frame[] {
    const frames: Frame[] = [];
    if (reasoning) frames.push(...this.#enter('thinking', { type: 'thinking', thinking: '', signature: '' }), this.#delta({ type: 'thinking_delta', thinking: reasoning }));
    if (content) frames.push(...this.#enter('text', { type: 'text', text: '' }), this.#delta({ type: 'text_delta', text: content }));
    for (const call of toolCalls ?? []) {
      const block = { type: 'tool_use', id: call.id || newToolCallId(), name: call.name ?? '', input: {} };
      frames.push(...this.#enter(`call ${call.index}`, block));
      if (call.arguments) frames.push(this.#delta({ type: 'input_json_delta', partial_json: call.arguments }));
    }
    return frames;
  }

  ending([finish]: readonly [Finish]): Frame[] {
    // Clients read the first content block without checking that there is one.
    const empty = this.#index < 0 ? this.#enter('text', { type: 'text', text: '' }) : [];
    const warnings = this.#warnings(finish);
    return [
      ...empty, ...this.#leave(),
      event({ type: 'message_delta', delta: this.#stop(finish), usage: wireUsage(finish.usage), ...(warnings.length === 0 ? {} : { warnings }) }),
      event({ type: 'message_stop' }),
    ];
  }

  failure(error: RecuaError, requestId: string): Frame[] {
    return [{ event: 'error', data: errorBody(error, requestId) }];
  }

  whole([{ content, reasoning, toolCalls }]: readonly [WholeAnswer], [finish]: readonly [Finish]): object {
    const warnings = this.#warnings(finish);
    const calls = toolCalls.map(({ id, name, arguments: text }) => {
      const input = wholeArguments(text);
      if (!input) warnings.push(`The input of the call of ${name} is incomplete: ${text}`);
      return { type: 'tool_use', id, name, input: input ?? partOfArguments(text) };
    });
    return {
      ...this.#head,
      content: [
        ...(reasoning === '' ? [] : [{ type: 'thinking', thinking: reasoning, signature: '' }]),
        ...(content === '' && (reasoning !== '' || calls.length > 0) ? [] : [{ type: 'text', text: content }]),
        ...calls,
      ],
      ...this.#stop(finish),
      usage: wireUsage(finish.usage),
      ...(warnings.length === 0 ? {} : { warnings }),
    };
  }

  #warnings({ warnings }: Finish): string[] {
    return [...warnings];
  }

  #stop({ finishReason, stop }: Finish): { stop_reason: string; stop_sequence: string | null } {
    if (finishReason === 'tool_calls') return { stop_reason: 'tool_use', stop_sequence: null };
    if (finishReason === 'length') return { stop_reason: 'max_tokens', stop_sequence: null };
    const own = stop !== undefined && this.#asked.stops.includes(stop);
    return own ? { stop_reason: 'stop_sequence', stop_sequence: stop } : { stop_reason: 'end_turn', stop_sequence: null };
  }

  /** Enters the block of that kind, starting it if necessary. */
  #enter(kind: Kind, block: object): Frame[] {
    if (this.#open === kind) return [];
    const left = this.#leave();
    this.#open = kind;
    this.#index++;
    return [...left, event({ type: 'content_block_start', index: this.#index, content_block: block })];
  }

  #delta(delta: object): Frame {
    return event({ type: 'content_block_delta', index: this.#index, delta });
  }

  #leave(): Frame[] {
    if (this.#open === undefined) return [];
    // A local model does not sign its thinking.
    const signature = this.#open === 'thinking' ? [this.#delta({ type: 'signature_delta', signature: '' })] : [];
    this.#open = undefined;
    return [...signature, event({ type: 'content_block_stop', index: this.#index })];
  }
}

function event(data: { type: string; [field: string]: unknown }): Frame {
  return { event: data.type, data };
}

/** Cached tokens are counted separately. */
function wireUsage({ promptTokens, cachedTokens, completionTokens, reasoningTokens }: Usage): object {
  return {
    input_tokens: promptTokens - cachedTokens, cache_creation_input_tokens: 0, cache_read_input_tokens: cachedTokens,
    output_tokens: completionTokens,
    // Tokens of thinking, a field that Anthropic's API does not have.
    ...(reasoningTokens === undefined ? {} : { output_tokens_details: { reasoning_tokens: reasoningTokens } }),
  };
}
