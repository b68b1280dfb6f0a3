// The `messages` of a chat request → messages for chat templates. Called by chat-request. Pure.
// Lenient where real clients differ (null, empty or parts as content, in every role; absent in
// answers and results), strict where meaning would be lost.
import type { ChatMessage } from '../../engine/protocol.js';
import { RecuaError } from '../../errors.js';
import { describe, Fields, isObject, wrongType, wrongValue } from '../../request/fields.js';

const maxMessages = 10_000;
const maxParts = 10_000;
const maxToolCalls = 1_000;
const maxNameLength = 256;

const roles = ['system', 'developer', 'user', 'assistant', 'tool'] as const;

/** Else a misspelled `content` would be an empty message. */
const mayLackContent: ReadonlySet<string> = new Set(['assistant', 'tool']);

export function readMessages(body: Fields): ChatMessage[] {
  const messages = body.array('messages', maxMessages);
  if (messages === undefined) throw wrongType('messages', 'an array of messages', undefined);
  if (messages.length === 0) throw wrongValue('messages', 'at least one message', messages);
  return messages.map((message, index) => readMessage(Fields.of(message, `messages[${index}]`)));
}

function readMessage(fields: Fields): ChatMessage {
  const role = fields.word('role', roles);
  if (role === undefined) throw wrongType(fields.param('role'), 'a role', undefined);
  if (fields.get('function_call') !== undefined) {
    throw new RecuaError('unsupported_parameter', `${fields.param('function_call')} is not supported; use tool_calls instead.`,
      { param: fields.param('function_call') });
  }
  if (!mayLackContent.has(role) && fields.peek('content') === undefined) throw wrongType(fields.param('content'), 'a string or an array of text parts', undefined);
  const message: ChatMessage = { role: role === 'developer' ? 'system' : role, content: readContent(fields) };
  const name = fields.string('name');
  if (name) message.name = name;
  if (role === 'assistant') {
    const refusal = fields.string('refusal');
    if (refusal && message.content === '') message.content = refusal;
    const reasoning = fields.string('reasoning_content');
    if (reasoning) message.reasoning_content = reasoning;
    const calls = readToolCalls(fields);
    if (calls.length > 0) {
      message.tool_calls = calls;
      // By the null, templates distinguish "only called tools" from "said nothing".
      if (message.content === '') message.content = null;
    }
  }
  const callId = fields.string('tool_call_id');
  if (role === 'tool' && callId) message.tool_call_id = callId;
  return message;
}

/** Keeps parts separate, since some templates render them in their own way. */
function readContent(fields: Fields): ChatMessage['content'] {
  const content = fields.get('content');
  if (content === undefined || typeof content === 'string') return content ?? '';
  if (!Array.isArray(content)) throw wrongType(fields.param('content'), 'a string or an array of text parts', content);
  const parts = fields.array('content', maxParts) ?? [];
  if (parts.length === 0) return '';
  return parts.map((part, index) => ({ type: 'text' as const, text: readPart(part, `${fields.param('content')}[${index}]`) }));
}

function readPart(value: unknown, at: string): string {
  const part = Fields.of(value, at);
  const type = part.string('type');
  if (type === undefined) throw wrongType(part.param('type'), '"text"', undefined);
  if (type !== 'text' && type !== 'refusal') {
    throw new RecuaError('unsupported_content',
      `Expected a text part for ${at}, got a part of type ${describe(type)}; only text is supported.`, { param: at });
  }
  const text = part.string(type);
  if (text === undefined) throw wrongType(part.param(type), 'a string', undefined);
  return text;
}

/** To the model, a custom tool is a function with one string. */
function customCall(call: Fields): NonNullable<ChatMessage['tool_calls']>[number] {
  const called = call.fields('custom');
  if (called === undefined) throw wrongType(call.param('custom'), 'an object', undefined);
  const input = called.string('input');
  if (input === undefined) throw wrongType(called.param('input'), 'a string', undefined);
  return { id: call.string('id') ?? '', type: 'function', function: { name: called.name('name', maxNameLength), arguments: JSON.stringify({ input }) } };
}

function readToolCalls(fields: Fields): NonNullable<ChatMessage['tool_calls']> {
  const calls = fields.array('tool_calls', maxToolCalls) ?? [];
  return calls.map((value, index) => {
    const call = Fields.of(value, `${fields.param('tool_calls')}[${index}]`);
    if (call.word('type', ['function', 'custom']) === 'custom') return customCall(call);
    const called = call.fields('function');
    if (called === undefined) throw wrongType(call.param('function'), 'an object', undefined);
    const args = called.get('arguments');
    // Some clients send an object.
    if (typeof args !== 'string' && !isObject(args)) throw wrongType(called.param('arguments'), 'a string of JSON', args);
    const text = typeof args === 'string' ? args : JSON.stringify(args);
    return { id: call.string('id') ?? '', type: 'function', function: { name: called.name('name', maxNameLength), arguments: text } };
  });
}
