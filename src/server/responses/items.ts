// `instructions` and `input` of a request → messages for chat templates. Called by
// response-request. Pure. One turn of the model consists of several items: consecutive thinking,
// text and calls become one message.
import type { ChatMessage } from '../../engine/protocol.js';
import { RecuaError } from '../../errors.js';
import { checkAnswers } from '../../request/continuation.js';
import { describe, Fields, isObject, wrongType, wrongValue } from '../../request/fields.js';
import { unsealed } from './output-items.js';
import { joinedName } from './tools.js';

const maxItems = 10_000;
const maxParts = 10_000;
const maxNameLength = 256;

/** A string is a user message. */
function itemsOf(input: string | readonly unknown[]): readonly unknown[] {
  return typeof input === 'string' ? [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: input }] }] : input;
}

/** Earlier items that a request refers to. */
export interface Earlier {
  /** Items of the responses that this one continues from. */
  before: readonly object[];
  /** Items of stored responses, by id. */
  items: ReadonlyMap<string, object>;
  /** The size that the items have as JSON, each as often as the request refers to it. */
  itemBytes: number;
}

export const nothingEarlier: Earlier = { before: [], items: new Map(), itemBytes: 0 };

/** Ids of items that are given only by id. */
export function referencesOf(input: unknown): string[] {
  if (!Array.isArray(input)) return [];
  return input.flatMap((item: unknown) => {
    const id = isObject(item) && isReference(item) ? item['id'] : undefined;
    return typeof id === 'string' ? [id] : [];
  });
}

/** Clients may omit the type. */
function isReference(item: Record<string, unknown>): boolean {
  return item['type'] === 'item_reference' || ((item['type'] ?? item['role'] ?? null) === null && typeof item['id'] === 'string');
}

function resolve(item: unknown, index: number, earlier: Earlier): unknown {
  if (!isObject(item) || !isReference(item)) return item;
  const param = `input[${index}].id`;
  const found = earlier.items.get(String(item['id']));
  if (!found) throw new RecuaError('response_not_found', `There is no item ${JSON.stringify(String(item['id']).slice(0, 100))} for ${param}: its response was never stored, was deleted, or gave way to newer ones.`, { param });
  return found;
}

export interface ReadItems {
  messages: ChatMessage[];
  /** The request's field that each message comes from. */
  sources: string[];
  items: readonly object[];
}

export function readItems(body: Fields, earlier: Earlier): ReadItems {
  const input = body.get('input');
  if (typeof input !== 'string' && !Array.isArray(input)) throw wrongType('input', 'a string or an array of items', input);
  if (Array.isArray(input)) body.array('input', maxItems);
  const items = itemsOf(input as string | unknown[]).map((item, index) => resolve(item, index, earlier));
  if (items.length === 0) throw wrongValue('input', 'at least one item', input);
  const reader = new ItemReader();
  const instructions = body.string('instructions');
  if (instructions) reader.add({ role: 'system', content: instructions }, 'instructions');
  earlier.before.forEach((item, index) => reader.read(Fields.of(item, `previous_response_id[${index}]`)));
  items.forEach((item, index) => reader.read(Fields.of(item, `input[${index}]`)));
  checkAnswers(reader.messages, reader.sources);
  return { messages: reader.messages, sources: reader.sources, items: items as object[] };
}

const roles = ['user', 'assistant', 'system', 'developer'] as const;

class ItemReader {
  readonly messages: ChatMessage[] = [];
  readonly sources: string[] = [];
  /** The assistant message that further items may join. */
  #turn: ChatMessage | undefined;

  add(message: ChatMessage, source: string): void {
    this.#turn = undefined;
    this.sources.push(source);
    this.messages.push(message);
  }

  read(item: Fields): void {
    // Clients may omit the type of a message.
    const type = item.string('type') ?? (item.get('role') === undefined ? undefined : 'message');
    switch (type) {
      case 'message':
        return this.#message(item);
      case 'reasoning':
        return this.#reasoning(item);
      case 'function_call':
        return this.#call(item, item.string('arguments'), 'arguments');
      case 'custom_tool_call': {
        const text = item.string('input');
        return this.#call(item, text === undefined ? undefined : JSON.stringify({ input: text }), 'input');
      }
      case 'function_call_output':
      case 'custom_tool_call_output':
        return this.#result(item);
      case undefined:
        throw wrongType(item.param('type'), 'a type', undefined);
      default:
        throw new RecuaError('unsupported_content',
          `Expected a message, a call of a tool, its output or reasoning for ${item.param('type')}, got ${describe(type)}.`, { param: item.param('type') });
    }
  }

  #message(item: Fields): void {
    const role = item.word('role', roles);
    if (role === undefined) throw wrongType(item.param('role'), 'a role', undefined);
    const content = textOf(item, 'content');
    if (role !== 'assistant') return this.add({ role: role === 'developer' ? 'system' : role, content }, item.path);
    const turn = this.#turn;
    // Text after text, or after calls, starts a new turn.
    if (turn && turn.content === null && !turn.tool_calls) turn.content = content;
    else this.#begin({ role, content }, item);
  }

  #reasoning(item: Fields): void {
    const parts = (item.array('content', maxParts) ?? []).map((part, index) => Fields.of(part, `${item.param('content')}[${index}]`).string('text') ?? '');
    // Summaries are not the thinking itself, and content sealed by another server is unreadable.
    const text = parts.join('') || unsealed(item.string('encrypted_content') ?? '') || '';
    if (text !== '') this.#begin({ role: 'assistant', content: null, reasoning_content: text }, item);
  }

  #call(item: Fields, args: string | undefined, field: string): void {
    if (args === undefined) throw wrongType(item.param(field), 'a string', undefined);
    const own = item.name('name', maxNameLength);
    const namespace = item.string('namespace');
    const name = namespace ? joinedName({ namespace, name: own }) : own;
    const call = { id: item.string('call_id') ?? '', type: 'function' as const, function: { name, arguments: args === '' ? '{}' : args } };
    if (!this.#turn) this.#begin({ role: 'assistant', content: null }, item);
    (this.#turn!.tool_calls ??= []).push(call);
  }

  #result(item: Fields): void {
    const id = item.string('call_id');
    this.add({ role: 'tool', content: textOf(item, 'output'), ...(id ? { tool_call_id: id } : {}) }, item.path);
  }

  #begin(message: ChatMessage, item: Fields): void {
    this.add(message, item.path);
    this.#turn = message;
  }
}

const textTypes = ['input_text', 'output_text', 'text', 'refusal'];

function textOf(item: Fields, name: string): string {
  const value = item.get(name);
  if (typeof value === 'string') return value;
  if (!Array.isArray(value)) throw wrongType(item.param(name), 'a string or an array of parts', value);
  return (item.array(name, maxParts) ?? []).map((part, index) => {
    const at = `${item.param(name)}[${index}]`;
    const fields = Fields.of(part, at);
    const type = fields.get('type');
    if (typeof type !== 'string' || !textTypes.includes(type)) {
      throw new RecuaError('unsupported_content', `Expected a part of text for ${at}, got a part of type ${describe(type)}; only text is supported.`, { param: at });
    }
    const text = fields.string(type === 'refusal' ? 'refusal' : 'text');
    if (text === undefined) throw wrongType(fields.param('text'), 'a string', undefined);
    return text;
  }).join('\n');
}
