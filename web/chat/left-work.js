// What was not in the database yet when this tab was left or loaded again: messages that were being
// saved, or could not be, the end of answers that were being written, and chats that were being
// deleted. The browser ends such work with the page, but what a tab stores is there at once.
import { inTab } from '../app/stored.js';

/** @typedef {import('./tree.js').Conversation} Conversation */
/** @typedef {import('./tree.js').Message} Message */
/**
 * `before`: the conversation as it was last read or saved; without it, it never was.
 * @typedef {{ conversation: Conversation, before?: Conversation | undefined, messages: Message[] }} LeftChat
 */

const stored = 'left';

/** What was stored last. */
let last = '';

/**
 * Stores it in this tab; if that is too much for the browser, without the largest chats. Returns
 * whether all is stored.
 * @param {LeftChat[]} chats @param {Iterable<string>} deleted ids of chats
 */
export function leave(chats, deleted) {
  const texts = chats.map((chat) => JSON.stringify(chat)).sort((a, b) => a.length - b.length);
  const ids = JSON.stringify([...deleted]);
  while (texts.length > 0 || ids !== '[]') {
    last = `{"chats":[${texts.join(',')}],"deleted":${ids}}`;
    if (inTab.set(stored, last)) return texts.length === chats.length;
    if (texts.pop() === undefined) break;
  }
  leaveNothing();
  return chats.length === 0 && ids === '[]';
}

export function leaveNothing() {
  last = '';
  inTab.remove(stored);
}

/** The page is shown again as it was left: what was stored then is still here. */
export function comeBack() {
  if ((inTab.get(stored) ?? '') === last) leaveNothing();
  // Another page of this tab has left more since.
  else location.reload();
}

/** What was stored last. @returns {{ chats: LeftChat[], deleted: string[] }} */
export function leftWork() {
  try {
    last = inTab.get(stored) ?? '';
    if (last) return JSON.parse(last);
  } catch { /* Something else has changed it. */ }
  return { chats: [], deleted: [] };
}
