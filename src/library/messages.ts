// Conversations: from the program's messages to those of the engine's templates.
import type { ChatMessage } from '../engine/protocol.js';
import { RecuaError } from '../errors.js';
import { checkName, Fields, wrongType, wrongValue } from '../request/fields.js';

/** A tool call that the model made. */
export interface ToolCall {
  /** Links the result to the call. */
  id: string;
  /** Name of the tool. */
  name: string;
  /** The parsed JSON, or the raw text if it is not valid JSON. */
  arguments: unknown;
}

/** One turn of a conversation. */
export type Message =
  | { role: 'system'; content: string }
  | { role: 'user'; content: string }
  | {
    role: 'assistant';
    content: string;
    /** The thinking before the answer; most templates drop it from later prompts. */
    reasoning?: string | undefined;
    toolCalls?: readonly ToolCall[] | undefined;
  }
  | {
    role: 'tool';
    /** The tool's result, as text. */
    content: string;
    /** The `id` of the call. */
    toolCallId: string;
  };

const maxMessages = 10_000;
const maxNameLength = 256;

/**
 * @throws RecuaError `invalid_type` or `invalid_value`; `param` names the field, e.g.
 *   `messages[0].role`.
 */
export function readMessages(input: string | readonly Message[]): ChatMessage[] {
  if (typeof input === 'string') return [{ role: 'user', content: input }];
  if (!Array.isArray(input)) throw wrongType('messages', 'a text or an array of messages', input);
  if (input.length === 0 || input.length > maxMessages) throw wrongValue('messages', `1 to ${maxMessages} messages`, input);
  return Array.from(input as unknown[], (message, index) => readMessage(Fields.of(message, `messages[${index}]`)));
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
    // A null tells templates "called tools, said nothing" apart from "said nothing".
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

/** @throws RecuaError `invalid_type` for values that JSON cannot represent. */
export function toJson(value: unknown, param: string): string {
  try {
    return JSON.stringify(value) ?? 'null';
  } catch (cause) {
    throw new RecuaError('invalid_type', `Expected a value that JSON can represent for ${param}: ${(cause as Error).message}`, { param, cause });
  }
}

/** Parses the arguments that the model wrote; returns the text itself if it is not valid JSON. */
export function readArguments(text: string): unknown {
  try {
    return JSON.parse(text === '' ? '{}' : text) as unknown;
  } catch {
    return text;
  }
}
