// The items that a response consists of. Pure, but for new ids. Called by answer.
import { randomBytes } from 'node:crypto';
import type { WireTold } from '../exchange/logprobs.js';

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
  /** JSON text, as the model wrote it. */
  arguments: string;
}

export type Item =
  | (Common & { type: 'message'; role: 'assistant'; content: [TextPart] })
  | (Common & { type: 'reasoning'; summary: []; content: [ThoughtPart] })
  | CallItem;

export function messageItem(text: string, status: Status, logprobs: WireTold[] = []): Item {
  return { id: newId('msg'), type: 'message', role: 'assistant', status, content: [{ type: 'output_text', text, annotations: [], logprobs }] };
}

export function reasoningItem(text: string, status: Status): Item {
  return { id: newId('rs'), type: 'reasoning', status, summary: [], content: [{ type: 'reasoning_text', text }] };
}

/** `isCustom`: the tool takes a text instead of JSON. */
export function callItem(callId: string, name: string, text: string, status: Status, isCustom: boolean): Item {
  const type = isCustom ? 'custom_tool_call' : 'function_call';
  return { id: newId(isCustom ? 'ctc' : 'fc'), type, status, call_id: callId, name, arguments: text };
}

/** As clients see it, apart from what is still being written. */
export function wire(item: Item): object {
  if (!('content' in item)) {
    const { arguments: text, ...rest } = item;
    return item.type === 'function_call' ? { ...rest, arguments: text } : { ...rest, input: inputOf(item) };
  }
  // A part is told by an event of its own.
  return { ...item, content: item.status === 'in_progress' ? [] : item.content.map((part) => ({ ...part })) };
}

/** What a custom tool is given: all that the model wrote where that is no whole JSON. */
export function inputOf({ arguments: text }: CallItem): string {
  try {
    const { input } = JSON.parse(text) as { input?: unknown };
    return typeof input === 'string' ? input : text;
  } catch {
    return text;
  }
}

function newId(kind: string): string {
  return `${kind}_${randomBytes(24).toString('hex')}`;
}
