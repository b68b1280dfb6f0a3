// The conversations that this browser keeps in IndexedDB.
import { notify } from '../app/notice.js';
import { sentenceOf } from '../app/server.js';
import * as database from './database.js';

/** @typedef {import('./tree.js').Conversation} Conversation */
/** @typedef {import('./tree.js').Message} Message */

export class KeptChats {
  /** The last changed first, without an empty conversation. @type {Conversation[]} */
  list = [];
  /** Deleted conversations. An answer that ends later must not bring one back. @type {Set<string>} */
  #gone = new Set();

  async read() {
    try {
      this.#sort(await database.allConversations());
    } catch (thrown) {
      notify(`Cannot read the conversations in this browser: ${sentenceOf(thrown)}`);
    }
  }

  /** @param {Conversation[]} list */
  #sort(list) {
    this.list = list.sort((a, b) => b.changedMs - a.changedMs);
  }

  /** @param {string} id */
  find(id) {
    return this.list.find((one) => one.id === id);
  }

  /** @param {string} name the name of the chat's file on the server */
  findSaved(name) {
    return this.list.find(({ saved }) => saved?.name === name);
  }

  /**
   * Saves a conversation and some of its messages. Calls `deleted` if another tab deleted it. If it
   * cannot be saved, the user is told.
   * @param {Conversation} conversation @param {Message[]} messages @param {() => void} deleted
   */
  async save(conversation, messages, deleted) {
    const { id } = conversation;
    if (this.#gone.has(id)) return;
    if (messages.length > 0) conversation.changedMs = Date.now();
    this.#sort([conversation, ...this.list.filter((one) => one.id !== id)]);
    try {
      const isThere = await database.save({ ...conversation }, messages.map((message) => ({ ...message })));
      if (!isThere && !this.#gone.has(id)) deleted();
    } catch (thrown) {
      notify(`Not saved: ${sentenceOf(thrown)}`);
    }
  }

  /** From now on it is not saved. @param {string} id */
  forget(id) {
    this.#gone.add(id);
    this.list = this.list.filter((one) => one.id !== id);
  }
}
