// `messages` of POST /api/chat → messages for chat templates. Called by chat-request. Pure.
import type { ChatMessage } from '../../engine/protocol.js';
import { newToolCallId } from '../../engine/tool-call-id.js';
import { RecuaError } from '../../errors.js';
import { Fields, isObject, wrongType } from '../../request/fields.js';

const maxMessages = 10_000;
const maxToolCalls = 1_000;
const maxNameLength = 256;

const roles = ['system', 'user', 'assistant', 'tool'] as const;

export function readMessages(body: Fields): ChatMessage[] {
  const messages = body.array('messages', maxMessages);
  if (messages === undefined) throw wrongType('messages', 'an array of messages', undefined);
  /** Calls without a result so far. Ollama's results only have the name of the tool, no id. */
  const open: { name: string; id: string }[] = [];
  return messages.map((message, index) => readMessage(Fields.of(message, `messages[${index}]`), open));
}

function readMessage(fields: Fields, open: { name: string; id: string }[]): ChatMessage {
  const role = fields.word('role', roles);
  if (role === undefined) throw wrongType(fields.param('role'), 'a role', undefined);
  if ((fields.array('images', maxMessages) ?? []).length > 0) {
    throw new RecuaError('unsupported_content', `Expected no images in ${fields.param('images')}; only text is supported.`, { param: fields.param('images') });
  }
  const content = fields.string('content') ?? '';
  if (role === 'tool') {
    const name = fields.string('tool_name') ?? fields.string('name');
    const at = Math.max(0, open.findIndex((call) => call.name === name));
    const id = fields.string('tool_call_id') ?? open.splice(at, 1)[0]?.id;
    return { role, content, ...(name ? { name } : {}), ...(id ? { tool_call_id: id } : {}) };
  }
  if (role !== 'assistant') return { role, content };
  const reasoning = fields.string('thinking');
  const calls = readCalls(fields);
  open.push(...calls.map(({ id, function: { name } }) => ({ id, name })));
  return {
    role,
    // By the null, templates distinguish "only called tools" from "said nothing".
    content: content === '' && calls.length > 0 ? null : content,
    ...(reasoning ? { reasoning_content: reasoning } : {}),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
}

function readCalls(fields: Fields): NonNullable<ChatMessage['tool_calls']> {
  return (fields.array('tool_calls', maxToolCalls) ?? []).map((value, index) => {
    const call = Fields.of(value, `${fields.param('tool_calls')}[${index}]`);
    const called = call.fields('function');
    if (called === undefined) throw wrongType(call.param('function'), 'an object', undefined);
    const args = called.get('arguments') ?? {};
    if (!isObject(args)) throw wrongType(called.param('arguments'), 'an object', args);
    return { id: call.string('id') ?? newToolCallId(), type: 'function', function: { name: called.name('name', maxNameLength), arguments: JSON.stringify(args) } };
  });
}
