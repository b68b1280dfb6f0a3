// What is written in the message boxes, and not sent: one box for each conversation.

/**
 * @typedef {import('./tree.js').Attached} Attached
 * @typedef {{ key: number, chat: string, name: string, how: string, stop: AbortController }} Reading
 */

export class MessageBoxes {
  /** By conversation id. @type {Map<string, string>} */
  texts = new Map();
  /** Attached files, by conversation id. @type {Map<string, Attached[]>} */
  files = new Map();
  /** Files being read, for all chats, also while another view is open. @type {Reading[]} */
  reading = [];
  /** Counts messages that were put back. */
  returned = 0;

  /**
   * Puts a message back into the box, before what was written meanwhile.
   * @param {import('./tree.js').Message} message
   */
  putBack({ conversation, content, attached = [] }) {
    this.texts.set(conversation, [content, this.texts.get(conversation)].filter(Boolean).join('\n\n'));
    this.files.set(conversation, [...attached, ...this.files.get(conversation) ?? []]);
    this.returned++;
  }
}
