// Files attached to a message as text, and import and export of conversations.
import { count } from '../app/units.js';
import { parsed } from './asking.js';
import { messagesOf } from './database.js';
import { childrenOf, fileText, newConversation, newId, pathOf } from './tree.js';

/** @typedef {import('./tree.js').Conversation} Conversation */
/** @typedef {import('./tree.js').Message} Message */
/** @typedef {(conversation: Conversation) => Promise<Message[]>} MessagesOf also of those that could not be saved */

const mib = 2 ** 20;
const mostText = 4 * mib;
/** Larger, since most of a PDF is images and fonts. */
const mostPdf = 64 * mib;

/**
 * Reads a file as text. A PDF is read page by page; `told` gets the progress.
 *
 * @param {File} file
 * @param {(text: string) => void} told
 * @param {AbortSignal} signal
 * @returns {Promise<import('./tree.js').Attached>}
 */
export async function readAttached(file, told, signal) {
  const isPdf = new TextDecoder('latin1').decode(await file.slice(0, 1024).arrayBuffer()).includes('%PDF-');
  const most = isPdf ? mostPdf : mostText;
  if (file.size > most) throw new Error(`${file.name} has ${Math.ceil(file.size / mib)} MiB. A message takes ${isPdf ? 'PDFs' : 'files'} of up to ${most / mib} MiB.`);
  if (file.size === 0) throw new Error(`${file.name} is empty.`);
  const bytes = await file.arrayBuffer();
  if (isPdf) {
    const { readPdf } = await import('./pdf.js');
    const text = await readPdf(file.name, bytes, told, signal);
    if (text.length > mostText) throw new Error(`${file.name} has ${count(text.length)} characters of text. A message takes up to ${count(mostText)}.`);
    return { name: file.name, text };
  }
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    if (text.includes('\0')) throw new Error('a zero byte');
    return { name: file.name, text };
  } catch {
    throw new Error(`${file.name} is not text. Attach a PDF or a UTF-8 text file, such as .txt, .md, .csv, .json or code.`);
  }
}

/** @param {string} name @param {string} text @param {string} type */
function download(name, text, type) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = Object.assign(document.createElement('a'), { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** @param {string} title */
const fileName = (title) => title.replace(/[^\p{L}\p{N}\p{M} _-]+/gu, '').trim().slice(0, 60) || 'chat';

/** @param {Conversation[]} conversations @param {string} title @param {MessagesOf} read */
export async function exportJson(conversations, title, read) {
  const chats = [];
  for (const conversation of conversations) chats.push({ conversation, messages: await read(conversation) });
  download(`${fileName(title)}.json`, JSON.stringify({ format: 'recua-chats', version: 1, chats }, undefined, 1), 'application/json');
}

/** Exports the branch that is shown. @param {Conversation} conversation @param {MessagesOf} read */
export async function exportMarkdown(conversation, read) {
  const path = pathOf(childrenOf(await read(conversation)), conversation.chosen);
  const parts = path.map(({ role, content, model, toolCalls = [], attached = [] }) => [
    `## ${role === 'user' ? 'You' : role === 'tool' ? 'Tool' : model || 'Assistant'}`,
    ...attached.map(fileText),
    content,
    ...toolCalls.map((call) => `\`${call.name}(${call.arguments})\``),
  ].filter(Boolean).join('\n\n'));
  download(`${fileName(conversation.title)}.md`, `# ${conversation.title}\n\n${parts.join('\n\n')}\n`, 'text/markdown');
}

/**
 * Reads the conversations of an exported file and gives them new ids. Those that would add nothing
 * to one of `list`, also to one that was imported earlier, are skipped.
 * @param {File} file @param {Conversation[]} list
 * @returns {Promise<{ chats: { conversation: Conversation, messages: Message[] }[], skipped: number }>}
 */
export async function importJson(file, list) {
  const read = parsed(await file.text());
  if (read?.format !== 'recua-chats' || !Array.isArray(read.chats)) throw new Error(`${file.name} contains no chats of this page. Import takes the JSON files of “Export all” and “Export as JSON”.`);
  const chats = read.chats.map((/** @type {any} */ chat, /** @type {number} */ at) => renamed(chat, `${file.name}, chat ${at + 1}`));
  const isNew = await Promise.all(read.chats.map(async (/** @type {any} */ { conversation: { id, createdMs }, messages }) => {
    const same = list.filter((one) => one.id === id || one.createdMs === createdMs);
    const covered = await Promise.all(same.map(async (one) => covers(await messagesOf(one.id), messages)));
    return !covered.includes(true);
  }));
  const fresh = chats.filter((/** @type {unknown} */ _chat, /** @type {number} */ at) => isNew[at]);
  return { chats: fresh, skipped: chats.length - fresh.length };
}

/**
 * Whether these messages are the others, or go on where those end. Of an import, the ids differ.
 * @param {Message[]} here @param {Message[]} others
 */
function covers(here, others) {
  /** @type {Map<string, Message[]>} */
  const byTime = new Map();
  /** @param {Message} message */
  const same = ({ role, createdMs = 0 }) => byTime.get(`${role} ${createdMs}`) ?? [];
  for (const message of here) byTime.set(`${message.role} ${message.createdMs}`, [...same(message), message]);
  return others.every((other) => same(other).some((one) => one.content.startsWith(other.content) && (one.reasoning ?? '').startsWith(other.reasoning ?? '')));
}

/** @param {unknown} value */
const isRecord = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

/** @param {any} value @param {string} type of typeof, or `time`: milliseconds that a Date takes */
const is = (value, type) => (type === 'time' ? typeof value === 'number' && !Number.isNaN(new Date(value).getTime()) : typeof value === type);

/**
 * Whether each field that the value has is of that type. For a list, of what type its items'
 * fields are.
 * @param {any} value @param {Record<string, string | Record<string, string>>} types
 * @returns {boolean}
 */
const fits = (value, types) => isRecord(value) && Object.entries(types).every(([name, type]) => value[name] === undefined
  || (typeof type === 'string' ? is(value[name], type) : Array.isArray(value[name]) && value[name].every((/** @type {any} */ item) => Object.keys(type).every((part) => item?.[part] !== undefined) && fits(item, type))));

const conversationTypes = { title: 'string', pinned: 'boolean', createdMs: 'time', changedMs: 'time', model: 'string', second: 'string' };
const settingsTypes = { system: 'string', schema: 'string', tools: 'string', thinking: 'string' };
const statsTypes = { promptTokens: 'number', cachedTokens: 'number', tokens: 'number', perSecond: 'number', firstMs: 'number' };
const messageTypes = {
  id: 'string', parent: 'string', content: 'string', reasoning: 'string', callId: 'string', model: 'string', pair: 'string', finish: 'string', error: 'string', json: 'boolean', createdMs: 'time', continued: 'number', tokensBefore: 'number',
  toolCalls: { id: 'string', name: 'string', arguments: 'string' }, attached: { name: 'string', text: 'string' },
};

/** @param {any} message */
const isMessage = (message) => fits(message, messageTypes) && ['id', 'parent', 'content'].every((name) => message[name] !== undefined)
  && message.id !== '' && ['user', 'assistant', 'tool'].includes(message.role);

/** @param {any} stats */
const areStats = (stats) => fits(stats, statsTypes) && Object.keys(statsTypes).every((name) => stats[name] !== undefined);

/**
 * The conversation is this browser's alone, even if the exported one was on a server.
 * @param {any} chat @param {string} where @returns {{ conversation: Conversation, messages: Message[] }}
 */
function renamed(chat, where) {
  const { conversation, messages } = chat ?? {};
  const isWhole = fits(conversation, conversationTypes) && conversation.title !== undefined
    && fits(conversation.settings ?? {}, settingsTypes) && isRecord(conversation.chosen ?? {})
    && Array.isArray(messages) && messages.every(isMessage) && new Set(messages.map((message) => message.id)).size === messages.length;
  if (!isWhole) throw new Error(`${where} is damaged: expected a title and messages.`);
  const id = newId();
  /** @type {Map<string, string>} */
  const ids = new Map(messages.map((/** @type {Message} */ message) => [message.id, newId()]));
  /** @param {string} old */
  const idOf = (old) => ids.get(old) ?? '';
  // A message that was chosen may have been taken back since.
  const isHere = (/** @type {any} */ old) => old === '' || ids.has(old);
  const chosen = Object.fromEntries(
    Object.entries(conversation.chosen ?? {})
      .filter((pair) => pair.every(isHere))
      .map(([parent, child]) => [idOf(parent), idOf(String(child))]),
  );
  return {
    conversation: {
      ...newConversation(''),
      ...conversation,
      id,
      chosen,
      settings: conversation.settings ?? {},
      named: true,
      saved: undefined,
    },
    messages: messages.map((/** @type {any} */ message) => ({
      createdMs: 0,
      ...message,
      id: idOf(message.id),
      parent: idOf(message.parent),
      conversation: id,
      saved: undefined,
      stats: areStats(message.stats) ? message.stats : undefined,
    })),
  };
}
