// `system` and `messages` of a request → messages for chat templates. Called by message-request.
// Pure. Blocks of a user message keep their order: tool results become messages of their own, and
// the text around them stays with the user.
import type { ChatMessage } from '../../engine/protocol.js';
import { RecuaError } from '../../errors.js';
import { describe, Fields, isObject, wrongType, wrongValue } from '../../request/fields.js';

const maxMessages = 10_000;
const maxBlocks = 10_000;
const maxNameLength = 256;

const roles = ['user', 'assistant', 'system'] as const;

/** `sources`: the request's field that each message comes from. */
export function readMessages(body: Fields): { messages: ChatMessage[]; sources: string[] } {
  const messages = body.array('messages', maxMessages);
  if (messages === undefined) throw wrongType('messages', 'an array of messages', undefined);
  if (messages.length === 0) throw wrongValue('messages', 'at least one message', messages);
  // As in Anthropic's API, consecutive turns of the assistant are one. Joined at the end, since
  // there may be thousands.
  const turns: ChatMessage[][] = [];
  const sources: string[] = [];
  const add = (message: ChatMessage, source: string): void => {
    const before = turns.at(-1);
    if (message.role === 'assistant' && before?.[0]!.role === 'assistant') return void before.push(message);
    turns.push([message]);
    sources.push(source);
  };
  const system = readSystem(body);
  if (system) add(system, 'system');
  messages.forEach((message, index) => {
    const source = `messages[${index}]`;
    for (const one of readMessage(Fields.of(message, source))) add(one, source);
  });
  return { messages: turns.map(joined), sources };
}

function joined(turns: readonly ChatMessage[]): ChatMessage {
  const [first] = turns;
  if (turns.length === 1) return first!;
  const texts = turns.flatMap(({ content }) => (typeof content !== 'string' || content === '' ? [] : [content]));
  const calls = turns.flatMap(({ tool_calls: own = [] }) => own);
  const reasoning = turns.map(({ reasoning_content: own = '' }) => own).join('');
  return {
    role: 'assistant',
    content: texts.length === 0 && calls.length > 0 ? null : texts.join('\n'),
    ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
}

function readSystem(body: Fields): ChatMessage | undefined {
  const given = body.get('system');
  if (given === undefined || given === '') return undefined;
  const texts = textsOf(body, 'system');
  if (texts.length === 0) return undefined;
  return { role: 'system', content: texts.map(withoutChecksum).join('') };
}

/**
 * Claude Code starts its system prompt with a billing line whose checksum differs in each request.
 * Replacing it with a constant of the same length lets the cache match everything after it.
 */
function withoutChecksum(text: string): string {
  const blank = (_all: string, head: string, sum: string): string => head + 'f'.repeat(sum.length);
  return text.replace(/^x-anthropic-billing-header:[^\n]{0,200}/, (line) => (
    line.replace(/(\bcch=)([^;\s]{1,64})/, blank).replace(/(\bcc_version=\d+\.\d+\.\d+\.)([^;\s]{1,64})/, blank)
  ));
}

function readMessage(fields: Fields): ChatMessage[] {
  const role = fields.word('role', roles);
  if (role === undefined) throw wrongType(fields.param('role'), 'a role', undefined);
  const content = fields.get('content');
  if (typeof content === 'string') return [{ role, content }];
  if (role === 'system') return [{ role, content: textsOf(fields, 'content').join('') }];
  const blocks = blocksOf(fields, 'content');
  return role === 'assistant' ? [readAssistant(blocks)] : readUser(blocks);
}

function blocksOf(fields: Fields, name: string): Fields[] {
  const value = fields.get(name);
  if (!Array.isArray(value)) throw wrongType(fields.param(name), 'a string or an array of blocks', value);
  return (fields.array(name, maxBlocks) ?? []).map((block, index) => Fields.of(block, `${fields.param(name)}[${index}]`));
}

/** The texts of blocks, or a string alone. */
function textsOf(fields: Fields, name: string): string[] {
  const value = fields.get(name);
  if (typeof value === 'string') return [value];
  return blocksOf(fields, name).map((block) => {
    if (typeOf(block) !== 'text') throw unreadable(block);
    return textOf(block);
  });
}

function readAssistant(blocks: readonly Fields[]): ChatMessage {
  const texts: string[] = [];
  const calls: NonNullable<ChatMessage['tool_calls']> = [];
  let reasoning = '';
  for (const block of blocks) {
    switch (typeOf(block)) {
      case 'text':
        texts.push(textOf(block));
        break;
      case 'thinking':
        reasoning += block.string('thinking') ?? '';
        break;
      case 'redacted_thinking': // only Anthropic can read it
        break;
      case 'tool_use':
        calls.push(readCall(block));
        break;
      default:
        throw unreadable(block);
    }
  }
  const text = texts.join('\n');
  return {
    role: 'assistant',
    // By the null, templates distinguish "only called tools" from "said nothing".
    content: text === '' && calls.length > 0 ? null : text,
    ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
}

function readCall(block: Fields): NonNullable<ChatMessage['tool_calls']>[number] {
  const input = block.get('input') ?? {};
  if (!isObject(input)) throw wrongType(block.param('input'), 'an object', input);
  return { id: block.string('id') ?? '', type: 'function', function: { name: block.name('name', maxNameLength), arguments: JSON.stringify(input) } };
}

function readUser(blocks: readonly Fields[]): ChatMessage[] {
  const messages: ChatMessage[] = [];
  let texts: string[] = [];
  const speak = (): void => {
    if (texts.length > 0) messages.push({ role: 'user', content: texts.join('\n') });
    texts = [];
  };
  for (const block of blocks) {
    switch (typeOf(block)) {
      case 'tool_result':
        speak();
        messages.push(readResult(block));
        break;
      default:
        texts.push(readableOf(block));
    }
  }
  speak();
  return messages.length > 0 ? messages : [{ role: 'user', content: '' }];
}

function readResult(block: Fields): ChatMessage {
  const content = block.get('content');
  const text = content === undefined ? '' : typeof content === 'string' ? content : resultOf(blocksOf(block, 'content'));
  const id = block.string('tool_use_id');
  // Templates cannot mark a failed call, so the text tells the model.
  const failed = block.boolean('is_error') === true && !/^\s*error/i.test(text);
  return { role: 'tool', content: failed ? `Error: ${text}` : text, ...(id ? { tool_call_id: id } : {}) };
}

function resultOf(blocks: readonly Fields[]): string {
  const hasOthers = blocks.some((block) => typeOf(block) !== 'text');
  return blocks.map(readableOf).join(hasOthers ? '\n' : '');
}

function readableOf(block: Fields): string {
  switch (typeOf(block)) {
    case 'text':
      return textOf(block);
    case 'document':
      return readDocument(block);
    case 'search_result':
      return headOf(block, 'title', 'source') + textsOf(block, 'content').join('');
    default:
      throw unreadable(block);
  }
}

/** Fields that say what the text below them is. */
function headOf(block: Fields, ...names: string[]): string {
  return names.map((name) => block.string(name)).filter(Boolean).map((text) => `${text}\n\n`).join('');
}

/** A document of plain text, with its title and context. */
function readDocument(block: Fields): string {
  const source = Fields.of(block.get('source'), block.param('source'));
  const head = headOf(block, 'title', 'context');
  switch (typeOf(source)) {
    case 'text':
      return head + (source.string('data') ?? '');
    case 'content':
      return head + textsOf(source, 'content').join('');
    default:
      throw new RecuaError('unsupported_content',
        `Expected a document of text for ${source.param('type')}, got ${describe(source.get('type'))}; send its text instead.`, { param: source.param('type') });
  }
}

function typeOf(block: Fields): string {
  const type = block.string('type');
  if (type === undefined) throw wrongType(block.param('type'), 'a type', undefined);
  return type;
}

function textOf(block: Fields): string {
  const text = block.string('text');
  if (text === undefined) throw wrongType(block.param('text'), 'a string', undefined);
  return text;
}

function unreadable(block: Fields): RecuaError {
  const at = block.param('type');
  return new RecuaError('unsupported_content',
    `Expected text, thinking, documents, search results, or tools and their results for ${at}, got ${describe(block.get('type'))}; only text is supported.`, { param: at });
}
