// The output items of a response. Pure, except for new ids. Called by answer.
import { randomBytes } from 'node:crypto';
import type { WireTold } from '../exchange/logprobs.js';
import { customInput } from '../exchange/custom-input.js';
import { isObject } from '../../request/fields.js';

type Status = 'in_progress' | 'completed' | 'incomplete';

interface Common {
  id: string;
  status: Status;
}

interface TextPart {
  type: 'output_text';
  text: string;
  annotations: [];
  logprobs: WireTold[];
}

interface ThoughtPart {
  type: 'reasoning_text';
  text: string;
}

export interface CallItem extends Common {
  type: 'function_call' | 'custom_tool_call';
  call_id: string;
  name: string;
  /** The group that the tool belongs to. */
  namespace?: string;
  /** JSON text, as the model wrote it. */
  arguments: string;
}

export type Item =
  | (Common & { type: 'message'; role: 'assistant'; content: [TextPart] })
  | (Common & { type: 'reasoning'; summary: []; content: [ThoughtPart]; encrypted_content?: string })
  | CallItem;

export function newResponseId(): string {
  return `resp_${randomBytes(24).toString('hex')}`;
}

/** Contains the id of its response, since a later request may refer to the item alone. */
export function itemId(kind: 'msg' | 'rs' | 'fc' | 'ctc' | 'in', responseId: string, index: number): string {
  return `${kind}_${responseId.slice('resp_'.length)}${index.toString(16).padStart(4, '0')}`;
}

/** The response that an item belongs to; undefined if the id is not ours. */
export function responseOf(id: string): string | undefined {
  const [, hex] = /^[a-z]+_([0-9a-f]{48})[0-9a-f]{4,8}$/.exec(id) ?? [];
  return hex === undefined ? undefined : `resp_${hex}`;
}

/** The stored form of input: each item has an id, and the text of a message is a part. */
export function storedInput(items: readonly object[], responseId: string): object[] {
  return items.map((item, index) => {
    const { id, type, role, content, ...rest } = item as Record<string, unknown>;
    const own = typeof id === 'string' && id !== '' ? id : itemId('in', responseId, index);
    if ((type ?? (role ? 'message' : undefined)) !== 'message') return { ...item, id: own };
    const parts = typeof content === 'string' ? [{ type: role === 'assistant' ? 'output_text' : 'input_text', text: content }] : content;
    return { id: own, type: 'message', role, ...rest, content: parts };
  });
}

export function idOf(item: unknown): unknown {
  return isObject(item) ? item['id'] : undefined;
}

export function messageItem(id: string, text: string, status: Status, logprobs: WireTold[] = []): Item {
  return { id, type: 'message', role: 'assistant', status, content: [{ type: 'output_text', text, annotations: [], logprobs }] };
}

export function reasoningItem(id: string, text: string, status: Status): Item {
  return { id, type: 'reasoning', status, summary: [], content: [{ type: 'reasoning_text', text }] };
}

/** `isCustom`: the tool takes text instead of JSON. */
export function callItem(
  id: string,
  callId: string,
  tool: { name: string; namespace?: string },
  text: string,
  status: Status,
  isCustom: boolean,
): Item {
  const type = isCustom ? 'custom_tool_call' : 'function_call';
  return { id, type, status, call_id: callId, ...tool, arguments: text };
}

const seal = 'recua:';

/**
 * Thinking in the opaque form that clients send back. Encoded, not encrypted: there is no secret.
 */
export function sealed(text: string): string {
  return seal + Buffer.from(text).toString('base64');
}

/** Undefined if another server sealed it. */
export function unsealed(text: string): string | undefined {
  return text.startsWith(seal) ? Buffer.from(text.slice(seal.length), 'base64').toString() : undefined;
}

/** The form that clients see, without the content of an item in progress. */
export function wire(item: Item): object {
  if (!('content' in item)) {
    const { arguments: text, ...rest } = item;
    return item.type === 'function_call' ? { ...rest, arguments: text } : { ...rest, input: inputOf(item) };
  }
  // Parts have their own events.
  return { ...item, content: item.status === 'in_progress' ? [] : item.content.map((part) => ({ ...part })) };
}

/** The input of a custom tool. */
export function inputOf({ arguments: text }: CallItem): string {
  return customInput(text);
}
