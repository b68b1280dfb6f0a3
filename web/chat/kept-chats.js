// The conversations that this browser keeps in IndexedDB. Several tabs may change one of them.
import { notify } from '../app/notice.js';
import { sentenceOf } from '../app/server.js';
import * as database from './database.js';

/** @typedef {import('./tree.js').Conversation} Conversation */
/** @typedef {import('./tree.js').Message} Message */

/** What is set once for a conversation. Another tab may have set it last. */
const fields = /** @type {const} */ (['title', 'named', 'pinned', 'changedMs', 'model', 'second', 'settings']);

/** @param {unknown} one @param {unknown} other */
const differ = (one, other) => JSON.stringify(one) !== JSON.stringify(other);

/**
 * What another tab changed since `before`, except what was changed here, too.
 * @param {Conversation} before @param {Conversation} there @param {Conversation} here
 * @returns {Partial<Conversation>}
 */
function newsOf(before, there, here) {
  /** @type {Partial<Conversation>} */
  const news = Object.fromEntries(fields.filter((name) => differ(before[name], there[name]) && !differ(before[name], here[name])).map((name) => [name, there[name]]));
  // Where nothing is shown here, another tab may have gone on.
  const isOpenEnd = (/** @type {string} */ parent) => before.chosen[parent] === '' && here.chosen[parent] === '';
  const wentOn = Object.entries(there.chosen).filter(([parent, child]) => child !== '' && isOpenEnd(parent));
  if (wentOn.length > 0) news.chosen = { ...here.chosen, ...Object.fromEntries(wentOn) };
  const name = before.saved?.name;
  if (name === there.saved?.name || name !== here.saved?.name) return news;
  // Without the ETag the server's file is read before it is written.
  return { ...news, saved: there.saved && { ...there.saved, etag: '' } };
}

export class KeptChats {
  /** The last changed first, without an empty conversation. @type {Conversation[]} */
  list = [];
  /** Deleted conversations and messages. Work that ends later must not bring one back. @type {Set<string>} */
  #gone = new Set();
  /** As they were last read or written here. @type {Map<string, Conversation>} */
  #before = new Map();
  /**
   * Messages that could not be saved, by conversation and id. The next save takes them along: a
   * message whose parent is missing would not be shown again.
   * @type {Map<string, Map<string, Message>>}
   */
  #unsaved = new Map();

  /** Reads them all, also again: then with what other tabs changed. */
  async read() {
    const all = (await database.allConversations()).filter(({ id }) => !this.#gone.has(id));
    const kept = new Map(this.list.map((one) => [one.id, one]));
    const read = all.map((there) => {
      const here = kept.get(there.id);
      const before = this.#before.get(there.id);
      kept.delete(there.id);
      this.#before.set(there.id, there);
      return here && before ? Object.assign(here, newsOf(before, there, here)) : here ?? { ...there };
    });
    // Those that could not be saved yet; the others were deleted in another tab.
    const unsaved = [...kept.values()].filter(({ id }) => !this.#before.has(id));
    this.#sort([...unsaved, ...read]);
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

  /** Its messages, also those that could not be saved. @param {string} id @returns {Promise<Message[]>} */
  async messagesOf(id) {
    const saved = await database.messagesOf(id);
    const unsaved = this.#unsaved.get(id);
    return unsaved ? [...saved.filter((message) => !unsaved.has(message.id)), ...unsaved.values()] : saved;
  }

  /** Whether there are others after these messages of a chat. @param {[Message, ...Message[]]} messages */
  async goesOn(messages) {
    const ids = new Set(messages.map(({ id }) => id));
    const all = await this.messagesOf(messages[0].conversation).catch(() => []);
    return all.some(({ id, parent }) => ids.has(parent) && !ids.has(id));
  }

  /** @param {Message[]} messages */
  async removeMessages(messages) {
    for (const { id, conversation } of messages) {
      this.#gone.add(id);
      this.#unsaved.get(conversation)?.delete(id);
    }
    await database.removeMessages(messages.map(({ id }) => id));
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
    const copy = { ...conversation };
    const all = new Map([...this.#unsaved.get(id) ?? [], ...messages.map((message) => /** @type {const} */ ([message.id, message]))].filter(([key]) => !this.#gone.has(key)));
    this.#unsaved.delete(id);
    try {
      const written = await database.save(id, (there) => {
        const before = this.#before.get(id);
        if (before && !there) return undefined;
        return before && there ? { ...copy, ...newsOf(before, there, copy) } : copy;
      }, [...all.values()].map((message) => ({ ...message })));
      if (written) {
        this.#before.set(id, written);
        Object.assign(conversation, newsOf(copy, written, conversation));
      } else if (!this.#gone.has(id)) deleted();
    } catch (thrown) {
      this.#unsaved.set(id, new Map([...all, ...this.#unsaved.get(id) ?? []]));
      notify(`Not saved: ${sentenceOf(thrown)}`);
    }
  }

  /** From now on it is not saved. @param {string} id */
  forget(id) {
    this.#gone.add(id);
    this.#unsaved.delete(id);
    this.list = this.list.filter((one) => one.id !== id);
  }
}
