// A conversation as programs write it, and as the engine's templates want it.
import type { ChatMessage } from '../engine/protocol.js';
import { RecuaError } from '../errors.js';
import { checkName, Fields, wrongType, wrongValue } from '../request/fields.js';

/** A call of a tool that the model asks for. */
export interface ToolCall {
  /** Ties the result to the call. */
  id: string;
  /** Of one of the tools that were offered. */
  name: string;
  /** Parsed from JSON; the text as it is, where it is no JSON. */
  arguments: unknown;
}

/** One turn of a conversation. */
export type Message =
  | { role: 'system'; content: string }
  | { role: 'user'; content: string }
  | {
    role: 'assistant';
    content: string;
    /** What it thought before; most templates leave it out of later prompts. */
    reasoning?: string | undefined;
    toolCalls?: readonly ToolCall[] | undefined;
  }
  | {
    role: 'tool';
    /** What the tool gave, as text. */
    content: string;
    /** The call's id. */
    toolCallId: string;
  };

const maxMessages = 10_000;
const maxNameLength = 256;

/**
 * @throws RecuaError `invalid_type` or `invalid_value`, with the place as `param`, e.g.
 *   `messages[0].role`.
 */
export function readMessages(input: string | readonly Message[]): ChatMessage[] {
  if (typeof input === 'string') return [{ role: 'user', content: input }];
  if (!Array.isArray(input)) throw wrongType('messages', 'a text or an array of messages', input);
  if (input.length === 0 || input.length > maxMessages) throw wrongValue('messages', `1 to ${maxMessages} messages`, input);
  return (input as unknown[]).map((message, index) => readMessage(Fields.of(message, `messages[${index}]`)));
}

function readMessage(fields: Fields): ChatMessage {
  const role = fields.word('role', ['system', 'user', 'assistant', 'tool']);
  if (role === undefined) throw wrongType(fields.param('role'), 'a role', undefined);
  const content = fields.string('content');
  if (content === undefined && role !== 'assistant') throw wrongType(fields.param('content'), 'a text', undefined);
  if (role === 'tool') return { role, content: content!, tool_call_id: fields.name('toolCallId', maxNameLength) };
  if (role !== 'assistant') return { role, content: content! };
  const calls = (fields.array('toolCalls', 1_000) ?? []).map((call, index) => writeCall(Fields.of(call, `${fields.param('toolCalls')}[${index}]`)));
  const reasoning = fields.string('reasoning');
  return {
    role,
    // Templates tell "called tools and said nothing" from "said nothing" by the null.
    content: content === undefined || content === '' ? (calls.length > 0 ? null : '') : content,
    ...(reasoning ? { reasoning_content: reasoning } : {}),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  };
}

function writeCall(fields: Fields): NonNullable<ChatMessage['tool_calls']>[number] {
  const given = fields.get('arguments') ?? {};
  const name = checkName(fields.get('name'), fields.param('name'), maxNameLength);
  return { id: fields.string('id') ?? '', type: 'function', function: { name, arguments: typeof given === 'string' ? given : toJson(given, fields.param('arguments')) } };
}

/** @throws RecuaError `invalid_type` for what JSON cannot hold. */
export function toJson(value: unknown, param: string): string {
  try {
    return JSON.stringify(value) ?? 'null';
  } catch (cause) {
    throw new RecuaError('invalid_type', `Expected what can be written as JSON for ${param}: ${(cause as Error).message}`, { param, cause });
  }
}

/** Arguments as the model wrote them → a value. */
export function readArguments(text: string): unknown {
  try {
    return JSON.parse(text === '' ? '{}' : text) as unknown;
  } catch {
    return text;
  }
}
