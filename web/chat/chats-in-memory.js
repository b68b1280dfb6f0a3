// The chats whose messages are in memory. There is one copy of each, whoever uses it: the view, an
// answer being written, a message being sent, work on the server's file.
import { learn } from './one-tab.js';
import { OpenChat } from './open-chat.js';

/** @typedef {import('./tree.js').Conversation} Conversation */
/** @typedef {{ users: number, chat?: OpenChat, reading: Promise<OpenChat> }} Entry */

export class ChatsInMemory {
  #kept;
  /** By conversation id. @type {Map<string, Entry>} */
  #entries = new Map();

  /** @param {import('./kept-chats.js').KeptChats} kept */
  constructor(kept) {
    this.#kept = kept;
  }

  /** The chat, if it is in memory. @param {string} id */
  find(id) {
    return this.#entries.get(id)?.chat;
  }

  /** Adds a new chat, and keeps it until it is released. @param {OpenChat} chat */
  add(chat) {
    this.#entries.set(chat.conversation.id, { users: 1, chat, reading: Promise.resolve(chat) });
  }

  /**
   * Keeps the chat in memory until it is released. Reads it if it is not there.
   * @param {Conversation} conversation
   */
  async take(conversation) {
    const { id } = conversation;
    const entry = this.#entries.get(id) ?? this.#read(conversation);
    this.#entries.set(id, entry);
    entry.users++;
    try {
      return await entry.reading;
    } catch (thrown) {
      this.release(id);
      throw thrown;
    }
  }

  /** @param {Conversation} conversation @returns {Entry} */
  #read(conversation) {
    /** @type {Entry} */
    const entry = {
      users: 0,
      reading: this.#kept.messagesOf(conversation.id).then(async (messages) => {
        const chat = new OpenChat(conversation, messages);
        await learn(chat.cut.map(({ id }) => id));
        return (entry.chat = chat);
      }),
    };
    return entry;
  }

  /** Keeps a chat that is in memory until it is released once more. @param {OpenChat} chat */
  hold({ conversation }) {
    const entry = this.#entries.get(conversation.id);
    if (entry) entry.users++;
  }

  /** @param {string} id */
  release(id) {
    const entry = this.#entries.get(id);
    if (entry && --entry.users === 0) this.#entries.delete(id);
  }

  /** @param {Conversation} conversation @returns {Promise<import('./tree.js').Message[]>} */
  async messagesOf(conversation) {
    return await this.using(conversation, async ({ messages }) => [...messages.values()]);
  }

  /**
   * Keeps the chat in memory while the work lasts.
   * @template T @param {Conversation} conversation @param {(chat: OpenChat) => Promise<T>} work
   */
  async using(conversation, work) {
    const chat = await this.take(conversation);
    try {
      return await work(chat);
    } finally {
      this.release(conversation.id);
    }
  }
}
