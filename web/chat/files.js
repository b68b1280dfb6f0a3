// Files that go into a message as text, and conversations that come from and go to files.
import { sentenceOf } from '../app/server.js';
import { messagesOf } from './database.js';
import { childrenOf, newId, pathOf } from './tree.js';

/** @typedef {import('./tree.js').Conversation} Conversation */
/** @typedef {import('./tree.js').Message} Message */

const mostBytes = 4 * 2 ** 20;

/**
 * @param {File} file
 * @returns {Promise<import('./tree.js').Attached>}
 */
export async function readAttached(file) {
  if (file.size > mostBytes) throw new Error(`${file.name} has ${Math.ceil(file.size / 2 ** 20)} MiB; files of up to ${mostBytes / 2 ** 20} MiB go into a message.`);
  const bytes = await file.arrayBuffer();
  if (new TextDecoder('latin1').decode(bytes.slice(0, 5)) === '%PDF-') {
    throw new Error(`${file.name} is a PDF, which this page does not read. Make text of it, for example by pdftotext, and attach that.`);
  }
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    if (text.includes('\0')) throw new Error('a zero byte');
    return { name: file.name, text };
  } catch {
    throw new Error(`${file.name} is no text. Files of text (UTF-8) go into a message: .txt, .md, .csv, .json, code.`);
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
const fileName = (title) => title.replace(/[^\p{L}\p{N} _-]+/gu, '').trim().slice(0, 60) || 'chat';

/** @param {Conversation[]} conversations @param {string} title */
export async function exportJson(conversations, title) {
  const chats = [];
  for (const conversation of conversations) chats.push({ conversation, messages: await messagesOf(conversation.id) });
  download(`${fileName(title)}.json`, JSON.stringify({ format: 'recua-chats', version: 1, chats }, undefined, 1), 'application/json');
}

/** The branch that is shown. @param {Conversation} conversation */
export async function exportMarkdown(conversation) {
  const path = pathOf(childrenOf(await messagesOf(conversation.id)), conversation.chosen);
  const parts = path.map(({ role, content, model, toolCalls = [], attached = [] }) => [
    `## ${role === 'user' ? 'You' : role === 'tool' ? 'Tool' : model || 'Assistant'}`,
    ...attached.map(({ name, text }) => `File ${name}:\n\n\`\`\`\`\n${text}\n\`\`\`\``),
    content,
    ...toolCalls.map((call) => `\`${call.name}(${call.arguments})\``),
  ].filter(Boolean).join('\n\n'));
  download(`${fileName(conversation.title)}.md`, `# ${conversation.title}\n\n${parts.join('\n\n')}\n`, 'text/markdown');
}

/**
 * Conversations of a file that was exported, under ids of their own.
 * @param {File} file
 * @returns {Promise<{ conversation: Conversation, messages: Message[] }[]>}
 */
export async function importJson(file) {
  let read;
  try {
    read = JSON.parse(await file.text());
  } catch (thrown) {
    throw new Error(`${file.name} is no JSON: ${sentenceOf(thrown)}`);
  }
  if (read?.format !== 'recua-chats' || !Array.isArray(read.chats)) throw new Error(`${file.name} holds no conversations of this page. It takes what "Export" wrote.`);
  return read.chats.map((/** @type {any} */ chat, /** @type {number} */ at) => renamed(chat, `${file.name}, conversation ${at + 1}`));
}

/** @param {any} chat @param {string} where @returns {{ conversation: Conversation, messages: Message[] }} */
function renamed({ conversation, messages } = {}, where) {
  const isWhole = typeof conversation?.title === 'string' && Array.isArray(messages)
    && messages.every((message) => typeof message?.id === 'string' && typeof message.parent === 'string' && typeof message.content === 'string' && ['user', 'assistant', 'tool'].includes(message.role));
  if (!isWhole) throw new Error(`${where} is damaged: a title and messages were expected.`);
  const id = newId();
  /** @type {Map<string, string>} */
  const ids = new Map(messages.map((/** @type {Message} */ message) => [message.id, newId()]));
  /** @param {string} old */
  const idOf = (old) => ids.get(old) ?? '';
  const chosen = Object.fromEntries(Object.entries(conversation.chosen ?? {}).map(([parent, child]) => [idOf(parent), idOf(String(child))]));
  return {
    conversation: { ...conversation, id, chosen, second: conversation.second ?? '', settings: conversation.settings ?? {}, named: true },
    messages: messages.map((/** @type {Message} */ message) => ({ ...message, id: idOf(message.id), parent: idOf(message.parent), conversation: id })),
  };
}
