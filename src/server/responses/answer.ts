// Writes answers in the format of Responses, from the engine's deltas and numbers: items, complete
// or as events. Called by server/exchange. The counterpart of response-request.
import { setImmediate } from 'node:timers/promises';
import type { Finish } from '../../engine/api.js';
import type { Delta, Usage } from '../../engine/protocol.js';
import { unpack, type ToldList } from '../../engine/packed-tokens.js';
import type { ToldToken } from '../../engine/telling.js';
import { newToolCallId } from '../../engine/tool-call-id.js';
import type { WholeAnswer } from '../../engine/whole-answer.js';
import { RecuaError } from '../../errors.js';
import { CustomInput } from '../exchange/custom-input.js';
import type { AnswerWriter, AskedRest, ChatAsked } from '../exchange/dialect.js';
import { errorBody } from '../http/error-reply.js';
import type { Frame } from '../http/stream.js';
import { toldTokens, type WireTold } from '../exchange/logprobs.js';
import { callItem, inputOf, itemId, messageItem, newResponseId, reasoningItem, sealed, storedInput, wire, type Item } from './output-items.js';
import type { ResponseBody } from './response-request.js';
import type { StoredResponse, WireResponse } from './store.js';

export type ResponseAsked = ChatAsked & Omit<ResponseBody, 'request'>;

type Status = WireResponse['status'];

/** A background response, whose first events were sent before the answer begins. */
export interface Beginning {
  readonly response: WireResponse;
  /** The number of the next event. */
  readonly sequence: number;
  /** Its client has cancelled it. */
  readonly isCancelled: boolean;
  /** `now` returns its current state. */
  follow(now: () => WireResponse): void;
  tell(frame: Frame): void;
  /** Sets its final state. */
  settle(stored: StoredResponse): void;
}

type Save = (stored: StoredResponse) => Promise<void>;
/** Receives each response that did not fail, stored or not. */
type Hear = (stored: StoredResponse) => void;

export class ResponseWriter implements AnswerWriter {
  readonly #id: string;
  readonly #created: number;
  readonly #asked: AskedRest<ResponseAsked>;
  readonly #model: string;
  readonly #save: Save;
  readonly #background: Beginning | undefined;
  readonly #hear: Hear | undefined;
  /** Complete items. */
  readonly #output: Item[] = [];
  #sequence: number;
  /** The item in progress, and the call that it belongs to. */
  #open: Item | undefined;
  /** Of tokens that wait for their text, as halves of a character do. */
  readonly #textless: WireTold[] = [];
  #openCall: number | undefined;
  /** Usage so far, if the engine reports it. */
  #usage: Usage | undefined;
  /** Extracts the input of a custom tool from the JSON that the model writes. */
  #input: CustomInput | undefined;

  constructor(asked: AskedRest<ResponseAsked>, model: string, save: Save, background?: Beginning, hear?: Hear) {
    this.#asked = asked;
    this.#model = model;
    this.#save = save;
    this.#background = background;
    this.#hear = hear;
    this.#id = background?.response.id ?? newResponseId();
    this.#created = background?.response.created_at ?? Math.floor(Date.now() / 1_000);
    this.#sequence = background?.sequence ?? 0;
  }

  get id(): string {
    return this.#id;
  }

  opening(): Frame[] {
    const response = this.#response('in_progress', []);
    this.#background?.follow(() => this.#response('in_progress', [...this.#output, ...(this.#open ? [this.#open] : [])]));
    return [...(this.#background ? [] : [this.#event('response.created', { response })]), this.#event('response.in_progress', { response })];
  }

  ping(): Frame {
    return this.#event('response.in_progress', { response: this.#response('in_progress', this.#output) });
  }

  deltas({ reasoning, content, toolCalls, tokens, soFar }: Delta): Frame[] {
    this.#usage = soFar?.usage ?? this.#usage;
    const logprobs = tokens ? this.#logprobs(unpack(tokens)) : [];
    const frames: Frame[] = [];
    if (reasoning) frames.push(...this.#enter('reasoning', () => reasoningItem(this.#itemId('rs'), '', 'in_progress')), ...this.#text('reasoning_text', reasoning));
    if (content) frames.push(...this.#enter('message', () => messageItem(this.#itemId('msg'), '', 'in_progress')), ...this.#text('output_text', content, logprobs));
    else this.#textless.push(...logprobs);
    for (const call of toolCalls ?? []) {
      const name = call.name ?? '';
      const isCustom = this.#asked.customTools.includes(name);
      frames.push(...this.#enter('call', () => callItem(this.#itemId(isCustom ? 'ctc' : 'fc'), call.id || newToolCallId(), this.#toolOf(name), '', 'in_progress', isCustom), call.index));
      const item = this.#open!;
      if (!call.arguments || item.type === 'message' || item.type === 'reasoning') continue;
      item.arguments += call.arguments;
      if (item.type === 'function_call') frames.push(this.#event('response.function_call_arguments.delta', { ...this.#at(item), delta: call.arguments }));
      else {
        const delta = this.#input!.add(call.arguments);
        if (delta !== '') frames.push(this.#event('response.custom_tool_call_input.delta', { ...this.#at(item), delta }));
      }
    }
    return frames;
  }

  async ending([finish]: readonly [Finish]): Promise<Frame[]> {
    const last = this.#open ?? this.#output.at(-1);
    // An answer without text or calls has an empty message.
    const empty = !last || last.type === 'reasoning' ? this.#enter('message', () => messageItem(this.#itemId('msg'), '', 'in_progress')) : [];
    const left = this.#leave(finish.finishReason === 'length' ? 'incomplete' : 'completed');
    const response = await this.#finished(finish, this.#sequence);
    return [...empty, ...left, this.#event(response.status === 'completed' ? 'response.completed' : 'response.incomplete', { response })];
  }

  failure(error: RecuaError): Frame[] {
    const { type, message, code, param } = errorBody(error).error;
    const left = this.#leave('incomplete');
    if (this.#background?.isCancelled) {
      const response = this.#cancelled(this.#usage);
      // There is no event for a cancellation; the response counts as incomplete.
      return [...left, this.#event('response.incomplete', { response })];
    }
    const response: WireResponse = { ...this.#response('failed', this.#output), error: { code, message } };
    this.#background?.settle(this.#stored(response, this.#sequence));
    return [...left, this.#event('response.failed', { response }), this.#event('error', { code, message, param, error: { type, code, message, param } })];
  }

  async whole([{ content, reasoning, toolCalls, tokens }]: readonly [WholeAnswer], [finish]: readonly [Finish]): Promise<object> {
    if (reasoning !== '') this.#complete(reasoningItem(this.#itemId('rs'), reasoning, 'completed'));
    if (content !== '' || toolCalls.length === 0) this.#complete(messageItem(this.#itemId('msg'), content, 'completed', await this.#allLogprobs(tokens)));
    for (const { id, name, arguments: text } of toolCalls) {
      const isCustom = this.#asked.customTools.includes(name);
      this.#complete(callItem(this.#itemId(isCustom ? 'ctc' : 'fc'), id, this.#toolOf(name), text, 'completed', isCustom));
    }
    if (finish.finishReason === 'length') this.#output.at(-1)!.status = 'incomplete';
    return await this.#finished(finish);
  }

  /** The response up to its cancellation. */
  #cancelled(usage: Usage | undefined): WireResponse {
    const response: WireResponse = { ...this.#response('cancelled', this.#output), usage: usage ? wireUsage(usage) : null };
    this.#background?.settle(this.#stored(response, this.#sequence));
    return response;
  }

  async #finished({ finishReason, usage, warnings }: Finish, lastEvent?: number): Promise<WireResponse> {
    const cut = finishReason === 'length';
    const response: WireResponse = {
      ...this.#response(cut ? 'incomplete' : 'completed', this.#output),
      completed_at: Math.floor(Date.now() / 1_000),
      incomplete_details: cut ? { reason: 'max_output_tokens' } : null,
      usage: wireUsage(usage),
      ...(warnings.length === 0 ? {} : { warnings }),
    };
    this.#hear?.(this.#stored(response));
    // A cancellation wins, however near the end it came.
    if (this.#background?.isCancelled) return this.#cancelled(usage);
    if (!this.#asked.store) return response;
    let given = response;
    try {
      await this.#save(this.#stored(response, lastEvent));
    } catch (thrown) {
      // The answer is complete, so it is sent even though it cannot be stored.
      given = { ...response, store: false, warnings: [...warnings, `The response is not stored: ${RecuaError.from(thrown).message}`] };
    }
    this.#background?.settle(this.#stored(given, lastEvent));
    return given;
  }

  #stored(response: WireResponse, lastEvent?: number): StoredResponse {
    const { input, previous } = this.#asked;
    return { response, input: storedInput(input, this.#id), previous, lastEvent };
  }

  #response(status: Status, output: readonly Item[]): WireResponse {
    return {
      id: this.#id,
      object: 'response',
      created_at: this.#created,
      completed_at: null,
      status,
      background: this.#background !== undefined,
      error: null,
      incomplete_details: null,
      model: this.#model,
      output: output.map(wire),
      usage: null,
      store: this.#asked.store,
      ...this.#asked.echo,
    };
  }

  #toolOf(name: string): { name: string; namespace?: string } {
    return this.#asked.namespaced.get(name) ?? { name };
  }

  #itemId(kind: 'msg' | 'rs' | 'fc' | 'ctc'): string {
    return itemId(kind, this.#id, this.#output.length);
  }

  /** Adds a complete item. */
  #complete(item: Item): void {
    if (item.type === 'reasoning' && this.#asked.seals) item.encrypted_content = sealed(item.content[0].text);
    this.#output.push(item);
  }

  /** Enters the item of that kind, starting it if necessary. */
  #enter(kind: 'reasoning' | 'message' | 'call', make: () => Item, call?: number): Frame[] {
    const open = this.#open?.type;
    const same = kind === 'call' ? this.#openCall === call && open !== undefined && open !== 'message' && open !== 'reasoning' : open === kind;
    if (same) return [];
    const left = this.#leave('completed');
    // After `#leave`, since the item's index is the number of items before it.
    const item = (this.#open = make());
    this.#input = item.type === 'custom_tool_call' ? new CustomInput() : undefined;
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
    if (item.type === 'reasoning') return [this.#event(`response.${kind}.delta`, { ...this.#at(item), content_index: 0, delta })];
    const all = [...this.#textless.splice(0), ...logprobs];
    item.content[0].logprobs.push(...all);
    return [this.#event(`response.${kind}.delta`, { ...this.#at(item), content_index: 0, delta, logprobs: all })];
  }

  #logprobs(tokens: readonly ToldToken[]): WireTold[] {
    const { tells } = this.#asked;
    return tells.logprobs === undefined ? [] : [...toldTokens(tokens.filter(({ part }) => part === undefined), tells)];
  }

  /** With turns for other work: they may be many. */
  async #allLogprobs(tokens: ToldList): Promise<WireTold[]> {
    const all: WireTold[] = [];
    for (const packed of tokens.pieces) {
      for (const one of this.#logprobs(unpack(packed))) all.push(one);
      await setImmediate();
    }
    return all;
  }

  #leave(status: 'completed' | 'incomplete'): Frame[] {
    const item = this.#open;
    if (!item) return [];
    const frames = item.type === 'message' && this.#textless.length > 0 ? this.#text('output_text', '') : [];
    this.#open = undefined;
    item.status = status;
    const at = this.#at(item);
    if (item.type === 'message' || item.type === 'reasoning') {
      const [part] = item.content;
      frames.push(
        this.#event(`response.${part.type}.done`, { ...at, content_index: 0, text: part.text, ...(part.type === 'output_text' ? { logprobs: part.logprobs } : {}) }),
        this.#event('response.content_part.done', { ...at, content_index: 0, part: { ...part } }),
      );
    } else if (item.type === 'function_call') {
      frames.push(this.#event('response.function_call_arguments.done', { ...at, name: item.name, arguments: item.arguments }));
    } else {
      frames.push(this.#event('response.custom_tool_call_input.done', { ...at, input: inputOf(item) }));
    }
    const index = this.#output.length;
    this.#complete(item);
    frames.push(this.#event('response.output_item.done', { output_index: index, item: wire(item) }));
    return frames;
  }

  #at({ id }: Item): { item_id: string; output_index: number } {
    return { item_id: id, output_index: this.#output.length };
  }

  #event(type: string, data: object): Frame {
    const frame: Frame = { event: type, data: { type, sequence_number: this.#sequence++, ...data } };
    this.#background?.tell(frame);
    return frame;
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
