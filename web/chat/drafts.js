// What is written and not sent: in the box of each chat, in editors of messages, and as results of
// tool calls. Also kept when the tab is loaded again.
import { notify } from '../app/notice.js';
import { inTab } from '../app/stored.js';
import { newConversation, newId } from './tree.js';

/**
 * @typedef {import('./tree.js').Attached} Attached
 * @typedef {{ key: number, chat: string, name: string, how: string, stop: AbortController }} Reading
 */

const stored = 'drafts';

/** The draft of an editor, or of a tool call's result. @param {import('./tree.js').Message} message @param {string} [call] */
export const draftOf = ({ conversation, id }, call = '') => `${conversation} ${id} ${call}`;

export class Drafts {
  /** By conversation id, or draftOf(). @type {Map<string, string>} */
  texts = new Map();
  /** Attached files, by the same. @type {Map<string, Attached[]>} */
  files = new Map();
  /** Files being read, for all chats, also while another view is open. @type {Reading[]} */
  reading = [];
  /** The next new chat, so that its settings and what is written into its box stay. */
  newChat = newConversation('');
  /** Counts messages that were put back. */
  returned = 0;

  constructor() {
    this.#read();
    addEventListener('pagehide', () => this.#write());
    // Then the browser asks.
    addEventListener('beforeunload', (event) => {
      if (!this.#write()) event.preventDefault();
      // If the user stays.
      setTimeout(() => this.#forgetStored());
    });
    // Browsers discard hidden tabs unasked.
    document.addEventListener('visibilitychange', () => (document.hidden ? this.#write() : this.#forgetStored()));
    addEventListener('pageshow', () => this.#forgetStored());
  }

  #read() {
    try {
      const { newChat, texts, files, lost } = JSON.parse(inTab.get(stored) ?? '');
      // A copy of a hidden tab has read the same.
      const id = newId();
      /** @param {[string, unknown][]} list */
      const mapOf = (list) => new Map(list.map(([key, value]) => [key === newChat.id ? id : key, value]));
      Object.assign(this, { newChat: { ...newChat, id }, texts: mapOf(texts), files: mapOf(files) });
      if (lost.length > 0) notify(`These files were lost when the page was loaded again; attach them again: ${lost.join(', ')}.`);
    } catch {
      // There are none.
    }
    this.#forgetStored();
  }

  /** They are here again, and may be sent. A copy of this tab has no use for them. */
  #forgetStored() {
    inTab.remove(stored);
  }

  /** Returns whether there is room for the texts. Of files without room, the names are kept. */
  #write() {
    const files = [...this.files].filter(([, list]) => list.length > 0);
    const texts = [...this.texts].filter(([, text]) => text !== '');
    const lost = this.reading.map(({ name }) => name);
    const { newChat } = this;
    const isSet = newChat.second !== '' || Object.keys(newChat.settings).length > 0;
    if (files.length + texts.length + lost.length === 0 && !isSet) {
      this.#forgetStored();
      return true;
    }
    if (inTab.set(stored, JSON.stringify({ newChat, texts, files, lost }))) return true;
    const all = [...files.flatMap(([, list]) => list.map(({ name }) => name)), ...lost];
    return inTab.set(stored, JSON.stringify({ newChat, texts, files: [], lost: all }));
  }

  /**
   * Puts a message back into the box, before what was written meanwhile.
   * @param {Pick<import('./tree.js').Message, 'conversation' | 'content' | 'attached'>} message
   */
  putBack({ conversation, content, attached = [] }) {
    this.texts.set(conversation, [content, this.texts.get(conversation)].filter(Boolean).join('\n\n'));
    this.files.set(conversation, [...attached, ...this.files.get(conversation) ?? []]);
    this.returned++;
    if (document.hidden) this.#write();
  }

  /**
   * Makes the drafts and the settings of a conversation those of the next new chat. Returns false
   * if that has a draft of its own.
   * @param {import('./tree.js').Conversation} conversation
   */
  beginAgain({ id, model, second, settings }) {
    const to = this.newChat.id;
    if (this.texts.get(to) || this.files.get(to)?.length) return false;
    Object.assign(this.newChat, { model, second, settings });
    this.texts.set(to, this.texts.get(id) ?? '');
    this.files.set(to, this.files.get(id) ?? []);
    return true;
  }

  /** @param {string} key a conversation id, or draftOf() */
  drop(key) {
    this.texts.delete(key);
    this.files.delete(key);
  }

  /** Drops all drafts of a chat. @param {string} id */
  forget(id) {
    for (const key of [...this.texts.keys(), ...this.files.keys()]) if (key === id || key.startsWith(`${id} `)) this.drop(key);
  }
}
