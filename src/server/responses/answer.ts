// The words of Responses on the way out: the engine's deltas and numbers → items, whole or as
// events. Called by server/exchange. The way in is response-request.
import { randomBytes } from 'node:crypto';
import type { Finish } from '../../engine/api.js';
import type { Delta, Usage } from '../../engine/protocol.js';
import type { ToldToken } from '../../engine/telling.js';
import { newToolCallId } from '../../engine/tool-call-id.js';
import type { WholeAnswer } from '../../engine/whole-answer.js';
import type { RecuaError } from '../../errors.js';
import type { AnswerWriter, AskedRest, ChatAsked } from '../exchange/dialect.js';
import { errorBody } from '../http/error-reply.js';
import type { Frame } from '../http/stream.js';
import { toldTokens, type WireTold } from '../exchange/logprobs.js';
import { callItem, inputOf, messageItem, reasoningItem, wire, type Item } from './output-items.js';
import type { ResponseBody } from './response-request.js';
import type { ResponseStore } from './store.js';

export type ResponseAsked = ChatAsked & Omit<ResponseBody, 'request'>;

type Status = 'in_progress' | 'completed' | 'incomplete' | 'failed';

/** With the fields of the request that it repeats. */
interface WireResponse {
  id: string;
  object: 'response';
  created_at: number;
  completed_at: number | null;
  status: Status;
  background: false;
  error: { code: string; message: string } | null;
  incomplete_details: { reason: string } | null;
  model: string;
  output: readonly object[];
  usage: object | null;
  warnings?: string[];
}

export class ResponseWriter implements AnswerWriter {
  readonly #id = `resp_${randomBytes(24).toString('hex')}`;
  readonly #created = Math.floor(Date.now() / 1_000);
  readonly #asked: AskedRest<ResponseAsked>;
  readonly #model: string;
  readonly #store: ResponseStore;
  /** Items that are complete. */
  readonly #output: Item[] = [];
  #sequence = 0;
  /** The item that is being written, and of which call it is. */
  #open: Item | undefined;
  #openCall: number | undefined;

  constructor(asked: AskedRest<ResponseAsked>, model: string, store: ResponseStore) {
    this.#asked = asked;
    this.#model = model;
    this.#store = store;
  }

  opening(): Frame[] {
    const response = this.#response('in_progress', []);
    return [this.#event('response.created', { response }), this.#event('response.in_progress', { response })];
  }

  ping(): Frame {
    return this.#event('response.in_progress', { response: this.#response('in_progress', this.#output) });
  }

  deltas({ reasoning, content, toolCalls, tokens = [] }: Delta): Frame[] {
    const frames: Frame[] = [];
    if (reasoning) frames.push(...this.#enter('reasoning', () => reasoningItem('', 'in_progress')), ...this.#text('reasoning_text', reasoning));
    if (content) frames.push(...this.#enter('message', () => messageItem('', 'in_progress')), ...this.#text('output_text', content, this.#logprobs(tokens)));
    else this.#add(this.#logprobs(tokens));
    for (const call of toolCalls ?? []) {
      const name = call.name ?? '';
      const isCustom = this.#asked.customTools.includes(name);
      frames.push(...this.#enter('call', () => callItem(call.id || newToolCallId(), name, '', 'in_progress', isCustom), call.index));
      const item = this.#open!;
      if (!call.arguments || item.type === 'message' || item.type === 'reasoning') continue;
      item.arguments += call.arguments;
      // The text of a custom tool is inside JSON: it is told when that is whole.
      if (item.type === 'function_call') frames.push(this.#event('response.function_call_arguments.delta', { ...this.#at(item), delta: call.arguments }));
    }
    return frames;
  }

  ending([finish]: readonly [Finish]): Frame[] {
    const left = this.#leave(finish.finishReason === 'length' ? 'incomplete' : 'completed');
    const response = this.#finished(finish);
    return [...left, this.#event(response.status === 'incomplete' ? 'response.incomplete' : 'response.completed', { response })];
  }

  failure(error: RecuaError): Frame[] {
    const { message, code, param } = errorBody(error).error;
    const left = this.#leave('incomplete');
    const response = { ...this.#response('failed', this.#output), error: { code, message } };
    return [...left, this.#event('response.failed', { response }), this.#event('error', { code, message, param })];
  }

  whole([{ content, reasoning, toolCalls, tokens }]: readonly [WholeAnswer], [finish]: readonly [Finish]): object {
    const status = finish.finishReason === 'length' ? 'incomplete' : 'completed';
    if (reasoning !== '') this.#output.push(reasoningItem(reasoning, 'completed'));
    if (content !== '' || toolCalls.length === 0) this.#output.push(messageItem(content, toolCalls.length > 0 ? 'completed' : status, this.#logprobs(tokens)));
    for (const { id, name, arguments: text } of toolCalls) this.#output.push(callItem(id, name, text, status, this.#asked.customTools.includes(name)));
    return this.#finished(finish);
  }

  #finished({ finishReason, usage, warnings }: Finish): WireResponse {
    const cut = finishReason === 'length';
    const all = [...this.#asked.warnings, ...warnings];
    const response: WireResponse = {
      ...this.#response(cut ? 'incomplete' : 'completed', this.#output),
      completed_at: Math.floor(Date.now() / 1_000),
      incomplete_details: cut ? { reason: 'max_output_tokens' } : null,
      usage: wireUsage(usage),
      ...(all.length === 0 ? {} : { warnings: all }),
    };
    const { store, input, previous } = this.#asked;
    if (store) this.#store.put(this.#id, response, input, previous);
    return response;
  }

  #response(status: Status, output: readonly Item[]): WireResponse {
    return {
      id: this.#id, object: 'response', created_at: this.#created, completed_at: null, status, background: false, error: null, incomplete_details: null,
      model: this.#model, output: output.map(wire), usage: null, ...this.#asked.echo,
    };
  }

  /** The item of that kind, begun if need be. */
  #enter(kind: 'reasoning' | 'message' | 'call', make: () => Item, call?: number): Frame[] {
    const open = this.#open?.type;
    const same = kind === 'call' ? this.#openCall === call && open !== undefined && open !== 'message' && open !== 'reasoning' : open === kind;
    if (same) return [];
    const left = this.#leave('completed');
    const item = (this.#open = make());
    this.#openCall = call;
    const added = this.#event('response.output_item.added', { output_index: this.#output.length, item: wire(item) });
    if (item.type !== 'message' && item.type !== 'reasoning') return [...left, added];
    const part = { ...item.content[0] };
    return [...left, added, this.#event('response.content_part.added', { ...this.#at(item), content_index: 0, part })];
  }

  #text(kind: 'output_text' | 'reasoning_text', delta: string, logprobs: WireTold[] = []): Frame[] {
    const item = this.#open!;
    if (item.type !== 'message' && item.type !== 'reasoning') return [];
    item.content[0].text += delta;
    this.#add(logprobs);
    return [this.#event(`response.${kind}.delta`, { ...this.#at(item), content_index: 0, delta, ...(kind === 'output_text' ? { logprobs } : {}) })];
  }

  /** To the message that is open; what has no text, as an end, comes with its last event. */
  #add(logprobs: readonly WireTold[]): void {
    if (this.#open?.type === 'message') this.#open.content[0].logprobs.push(...logprobs);
  }

  #logprobs(tokens: readonly ToldToken[]): WireTold[] {
    const { tells } = this.#asked;
    return tells.logprobs === undefined ? [] : toldTokens(tokens.filter(({ part }) => part === undefined), tells);
  }

  #leave(status: 'completed' | 'incomplete'): Frame[] {
    const item = this.#open;
    if (!item) return [];
    this.#open = undefined;
    item.status = status;
    const at = this.#at(item);
    const frames: Frame[] = [];
    if (item.type === 'message' || item.type === 'reasoning') {
      const [part] = item.content;
      frames.push(
        this.#event(`response.${part.type}.done`, { ...at, content_index: 0, text: part.text, ...(part.type === 'output_text' ? { logprobs: part.logprobs } : {}) }),
        this.#event('response.content_part.done', { ...at, content_index: 0, part: { ...part } }),
      );
    } else if (item.type === 'function_call') {
      frames.push(this.#event('response.function_call_arguments.done', { ...at, name: item.name, arguments: item.arguments }));
    } else {
      const input = inputOf(item);
      frames.push(this.#event('response.custom_tool_call_input.delta', { ...at, delta: input }), this.#event('response.custom_tool_call_input.done', { ...at, input }));
    }
    frames.push(this.#event('response.output_item.done', { output_index: this.#output.length, item: wire(item) }));
    this.#output.push(item);
    return frames;
  }

  #at({ id }: Item): { item_id: string; output_index: number } {
    return { item_id: id, output_index: this.#output.length };
  }

  #event(type: string, data: object): Frame {
    return { event: type, data: { type, sequence_number: this.#sequence++, ...data } };
  }
}

function wireUsage({ promptTokens, cachedTokens, completionTokens, reasoningTokens = 0 }: Usage): object {
  return {
    input_tokens: promptTokens,
    input_tokens_details: { cached_tokens: cachedTokens },
    output_tokens: completionTokens,
    output_tokens_details: { reasoning_tokens: reasoningTokens },
    total_tokens: promptTokens + completionTokens,
  };
}
