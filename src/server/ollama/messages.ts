// `messages` of POST /api/chat → messages for chat templates. Called by chat-request. Pure.
import type { ChatMessage } from '../../engine/protocol.js';
import { RecuaError } from '../../errors.js';
import { Fields, isObject, wrongType } from '../../request/fields.js';

const maxMessages = 10_000;
const maxToolCalls = 1_000;
const maxNameLength = 256;

const roles = ['system', 'user', 'assistant', 'tool'] as const;

export function readMessages(body: Fields): ChatMessage[] {
  const messages = body.array('messages', maxMessages);
  if (messages === undefined) throw wrongType('messages', 'an array of messages', undefined);
  const open = new OpenCalls();
  return messages.map((message, index) => readMessage(Fields.of(message, `messages[${index}]`), open));
}

function readMessage(fields: Fields, open: OpenCalls): ChatMessage {
  const role = fields.word('role', roles);
  if (role === undefined) throw wrongType(fields.param('role'), 'a role', undefined);
  if ((fields.array('images', maxMessages) ?? []).length > 0) {
    throw new RecuaError('unsupported_content', `Expected no images in ${fields.param('images')}; only text is supported.`, { param: fields.param('images') });
  }
  const content = fields.string('content') ?? '';
  if (role === 'tool') {
    const name = fields.string('tool_name') ?? fields.string('name');
    const given = fields.string('tool_call_id');
    if (given !== undefined) open.answered(given);
    const id = given ?? open.take(name);
    return { role, content, ...(name ? { name } : {}), ...(id ? { tool_call_id: id } : {}) };
  }
  if (role !== 'assistant') return { role, content };
  const reasoning = fields.string('thinking');
  const calls = readCalls(fields, open);
  for (const { id, function: { name } } of calls) open.add(name, id);
  return {
    role,
    // By the null, templates distinguish "only called tools" from "said nothing".
    content: content === '' && calls.length > 0 ? null : content,
    ...(reasoning ? { reasoning_content: reasoning } : {}),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
}

interface OpenCall {
  id: string;
  isAnswered: boolean;
}

/** Each call is looked at once: there may be a million. */
class CallQueue {
  readonly calls: OpenCall[] = [];
  #next = 0;

  /** The oldest call without a result. */
  take(): OpenCall | undefined {
    while (this.#next < this.calls.length) {
      const call = this.calls[this.#next++]!;
      if (call.isAnswered) continue;
      call.isAnswered = true;
      return call;
    }
    return undefined;
  }
}

/** Calls without a result so far. Ollama's results only have the name of the tool, no id. */
class OpenCalls {
  #named = 0;
  readonly #all = new CallQueue();
  readonly #ofName = new Map<string, CallQueue>();
  readonly #ofId = new Map<string, OpenCall>();

  /**
   * An id for the next call, by its position: a random one would change the prompt of every turn.
   * Mistral's templates accept only nine letters and digits.
   */
  nextId(): string {
    return `call${(this.#named++).toString(36).padStart(5, '0')}`;
  }

  add(name: string, id: string): void {
    const call = { id, isAnswered: false };
    this.#all.calls.push(call);
    this.#ofId.set(id, call);
    const own = this.#ofName.get(name) ?? new CallQueue();
    this.#ofName.set(name, own);
    own.calls.push(call);
  }

  /** A result names its call. */
  answered(id: string): void {
    const call = this.#ofId.get(id);
    if (call) call.isAnswered = true;
  }

  /** Id of the oldest call of that tool, or else of any. */
  take(name: string | undefined): string | undefined {
    const own = name === undefined ? undefined : this.#ofName.get(name);
    return (own?.take() ?? this.#all.take())?.id;
  }
}

function readCalls(fields: Fields, open: OpenCalls): NonNullable<ChatMessage['tool_calls']> {
  return (fields.array('tool_calls', maxToolCalls) ?? []).map((value, index) => {
    const call = Fields.of(value, `${fields.param('tool_calls')}[${index}]`);
    const called = call.fields('function');
    if (called === undefined) throw wrongType(call.param('function'), 'an object', undefined);
    const args = called.get('arguments') ?? {};
    if (!isObject(args)) throw wrongType(called.param('arguments'), 'an object', args);
    return { id: call.string('id') ?? open.nextId(), type: 'function', function: { name: called.name('name', maxNameLength), arguments: JSON.stringify(args) } };
  });
}
