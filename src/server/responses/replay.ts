// Recreates the events of a stored response, for a client that streams it later. Pure. The original
// deltas are not stored, so each part comes in one piece.
import { isObject } from '../../request/fields.js';
import type { Frame } from '../http/stream.js';
import type { StoredResponse } from './store.js';

/** After an event that the client has seen, only the last one, which has the whole response. */
export function replay({ response, lastEvent }: Pick<StoredResponse, 'response' | 'lastEvent'>, after?: number): Frame[] {
  const frames: Frame[] = [];
  const add = (type: string, data: object, sequence = frames.length): void =>
    void frames.push({ event: type, data: { type, sequence_number: sequence, ...data } });
  const end = response.status === 'completed' || response.status === 'failed' ? `response.${response.status}` : 'response.incomplete';
  if (after !== undefined) {
    if (lastEvent === undefined || after < lastEvent) add(end, { response }, lastEvent ?? after + 1);
    return frames;
  }
  const begun = { ...response, status: 'in_progress', completed_at: null, error: null, incomplete_details: null, output: [], usage: null };
  add('response.created', { response: begun });
  add('response.in_progress', { response: begun });
  response.output.forEach((item, index) => addItem(add, item as WireItem, index));
  add(end, { response }, Math.max(frames.length, lastEvent ?? 0));
  return frames;
}

interface WireItem {
  id: string;
  type: string;
  content?: { type: string; text: string; logprobs?: object[] }[];
  name?: string;
  arguments?: string;
  input?: string;
}

function addItem(add: (type: string, data: object) => void, item: WireItem, index: number): void {
  const at = { item_id: item.id, output_index: index };
  const empty = { ...item, status: 'in_progress', ...(item.content ? { content: [] } : {}), ...(item.arguments === undefined ? {} : { arguments: '' }), ...(item.input === undefined ? {} : { input: '' }) };
  add('response.output_item.added', { output_index: index, item: empty });
  (item.content ?? []).forEach((part, content) => {
    if (!isObject(part)) return;
    const place = { ...at, content_index: content };
    const more = part.type === 'output_text' ? { logprobs: part.logprobs ?? [] } : {};
    add('response.content_part.added', { ...place, part: { ...part, text: '' } });
    add(`response.${part.type}.delta`, { ...place, delta: part.text, ...more });
    add(`response.${part.type}.done`, { ...place, text: part.text, ...more });
    add('response.content_part.done', { ...place, part });
  });
  if (item.type === 'function_call') {
    add('response.function_call_arguments.delta', { ...at, delta: item.arguments });
    add('response.function_call_arguments.done', { ...at, name: item.name, arguments: item.arguments });
  } else if (item.type === 'custom_tool_call') {
    add('response.custom_tool_call_input.delta', { ...at, delta: item.input });
    add('response.custom_tool_call_input.done', { ...at, input: item.input });
  }
  add('response.output_item.done', { output_index: index, item });
}
