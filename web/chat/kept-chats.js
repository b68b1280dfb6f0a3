// The conversations that this browser keeps in IndexedDB. Several tabs may change one of them.
import { notify } from '../app/notice.js';
import { sentenceOf } from '../app/server.js';
import * as database from './database.js';
import { comeBack, leave, leaveNothing, leftWork } from './left-work.js';
import { byId, furthest, isAhead } from './tree.js';

/** @typedef {import('./tree.js').Conversation} Conversation */
/** @typedef {import('./tree.js').Message} Message */

/** What is set once for a conversation. Another tab may have set it last. */
const fields = /** @type {const} */ (['title', 'named', 'pinned', 'changedMs', 'model', 'second', 'settings']);

/** @param {unknown} one @param {unknown} other */
const differ = (one, other) => JSON.stringify(one) !== JSON.stringify(other);

/**
 * What another tab changed since `before`, except what was changed here, too. Of the versions that
 * it chose, those where nothing is shown here; all of them if the chat is not shown yet.
 * @param {Conversation} before @param {Conversation} there @param {Conversation} here
 * @returns {Partial<Conversation>}
 */
function newsOf(before, there, here, isShown = true) {
  /** @type {Partial<Conversation>} */
  const news = Object.fromEntries(
    fields.filter((name) => differ(before[name], there[name]) && !differ(before[name], here[name])).map((name) => [name, there[name]]),
  );
  const isOpenEnd = (/** @type {string} */ parent) => !before.chosen[parent] && !here.chosen[parent];
  const isFree = (/** @type {string} */ parent) => (isShown ? isOpenEnd(parent) : before.chosen[parent] === here.chosen[parent]);
  const wentOn = Object.entries(there.chosen).filter(([parent, child]) => child !== '' && isFree(parent));
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
  /** Whether the list was read from the database. */
  #isRead = false;
  /** Saves that have not ended: the conversation's id, and the messages. @type {Set<[string, Map<string, Message>]>} */
  #saving = new Set();
  /** Chats that the database is deleting. @type {Set<string>} */
  #deleting = new Set();

  /** @param {() => Message[]} growing the answers that are being written */
  constructor(growing) {
    const { chats, deleted } = leftWork();
    for (const { conversation, before, messages } of chats) {
      const { id } = conversation;
      this.list.push(conversation);
      if (before) this.#before.set(id, before);
      this.#unsaved.set(id, byId(messages));
    }
    for (const id of deleted) void this.remove(id).catch(() => undefined);
    const keep = () => this.#leave(growing());
    addEventListener('pagehide', keep);
    // Then the browser asks. Without a database the user was told that nothing is saved.
    addEventListener('beforeunload', (event) => { if (this.#isRead && !keep()) event.preventDefault(); });
    // The browser may discard a hidden tab without a word.
    document.addEventListener('visibilitychange', () => (document.hidden ? keep() : comeBack()));
    addEventListener('pageshow', ({ persisted }) => { if (persisted) comeBack(); });
  }

  /** Keeps in this tab what is not saved. Returns whether there is room for all of it. @param {Message[]} growing */
  #leave(growing) {
    /** @type {Map<string, Map<string, Message>>} */
    const all = new Map();
    const ends = growing.map((message) => /** @type {const} */ ([message.conversation, byId([message])]));
    for (const [id, messages] of [...this.#unsaved, ...this.#saving, ...ends]) all.set(id, new Map([...all.get(id) ?? [], ...messages]));
    return leave([...all].flatMap(([id, messages]) => {
      const conversation = this.find(id);
      const kept = [...messages.values()].filter((message) => !this.#gone.has(message.id));
      return conversation ? [{ conversation, before: this.#before.get(id), messages: kept }] : [];
    }), this.#deleting);
  }

  /** Conversations with something that could not be saved, here or in the page before a reload. */
  get unsaved() {
    return [...this.#unsaved.keys()].map((id) => this.find(id)).filter((one) => one !== undefined);
  }

  /** Once all is saved, the tab need not keep anything. */
  #clearLeft() {
    if (this.#unsaved.size + this.#saving.size + this.#deleting.size === 0) leaveNothing();
  }

  /** Reads them all, also again: then with what other tabs changed. */
  async read() {
    const all = (await database.allConversations()).filter(({ id }) => !this.#gone.has(id));
    const kept = new Map(this.list.map((one) => [one.id, one]));
    const read = all.map((there) => {
      const here = kept.get(there.id);
      const before = this.#before.get(there.id);
      kept.delete(there.id);
      this.#before.set(there.id, there);
      return here && before ? Object.assign(here, newsOf(before, there, here, this.#isRead)) : here ?? { ...there };
    });
    // Those that could not be saved yet; the others were deleted in another tab.
    const unsaved = [...kept.values()].filter(({ id }) => !this.#before.has(id));
    for (const id of kept.keys()) if (this.#before.has(id)) this.#unsaved.delete(id);
    this.#sort([...unsaved, ...read]);
    this.#isRead = true;
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

  /** Its messages, also those that are not saved yet. @param {string} id @returns {Promise<Message[]>} */
  async messagesOf(id) {
    const saved = await database.messagesOf(id);
    const unsaved = [...this.#unsaved, ...this.#saving].filter(([one]) => one === id).flatMap(([, messages]) => [...messages.values()]);
    return unsaved.length > 0 ? furthest(saved, byId(unsaved)) : saved;
  }

  /** Whether there are others after these messages of a chat. @param {[Message, ...Message[]]} messages */
  async goesOn(messages) {
    const ids = new Set(messages.map(({ id }) => id));
    const all = await this.messagesOf(messages[0].conversation).catch(() => []);
    return all.some(({ id, parent }) => ids.has(parent) && !ids.has(id));
  }

  /** Messages that were removed and are in a chat's file again. @param {Message[]} messages */
  bringBack(messages) {
    for (const { id } of messages) this.#gone.delete(id);
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
    // Those that could not be saved earlier: another tab may have gone on with them since.
    const earlier = new Map([...this.#unsaved.get(id) ?? []].filter(([key]) => !this.#gone.has(key)));
    const now = byId(messages.filter((message) => !this.#gone.has(message.id)));
    const all = new Map([...earlier, ...now]);
    const stays = (/** @type {Message} */ there) => {
      const ours = now.get(there.id);
      // Another tab may have written the answer, too: what its user has read stays.
      if (!ours) return isAhead(there, all.get(there.id));
      return Boolean(there.finish) && (there.continued ?? 0) >= (ours.continued ?? 0) && there.content !== ours.content;
    };
    this.#unsaved.delete(id);
    /** @type {[string, Map<string, Message>]} */
    const work = [id, all];
    this.#saving.add(work);
    try {
      const written = await database.save(id, (there) => {
        const before = this.#before.get(id);
        if (before && !there) return undefined;
        return before && there ? { ...copy, ...newsOf(before, there, copy) } : copy;
      }, [...all.values()].map((message) => ({ ...message })), stays);
      if (written) {
        this.#before.set(id, written);
        Object.assign(conversation, newsOf(copy, written, conversation));
      } else if (!this.#gone.has(id)) deleted();
    } catch (thrown) {
      this.#unsaved.set(id, new Map([...all, ...this.#unsaved.get(id) ?? []]));
      notify(`Not saved: ${sentenceOf(thrown)}`);
    } finally {
      this.#saving.delete(work);
      this.#clearLeft();
    }
  }

  /** From now on it is not saved. @param {string} id */
  forget(id) {
    this.#gone.add(id);
    this.#unsaved.delete(id);
    this.#clearLeft();
    this.list = this.list.filter((one) => one.id !== id);
  }

  /** Deletes it from the database; if that fails, the next page tries again. @param {string} id */
  async remove(id) {
    this.#deleting.add(id);
    this.forget(id);
    await database.remove(id);
    this.#deleting.delete(id);
    this.#clearLeft();
  }
}
