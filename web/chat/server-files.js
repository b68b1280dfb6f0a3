// Keeps conversations and their files on the server the same: reads what `recua chat` or another
// browser added, and writes the branch that is shown.
import { models } from '../app/models.js';
import { notify } from '../app/notice.js';
import { sentenceOf, ServerError } from '../app/server.js';
import { alone } from './one-tab.js';
import { savedChats, servedModel } from './saved-chats.js';
import { furthest, newConversation, titleOf } from './tree.js';

/** @typedef {import('./tree.js').Conversation} Conversation */
/** @typedef {import('./tree.js').Message} Message */
/**
 * What the session does for its files.
 * @typedef {object} Host
 * @property {(conversation: Conversation) => boolean} isWriting
 * @property {(conversation: Conversation, messages: Message[]) => Promise<void>} save
 * @property {() => void} changed
 */

/** @param {unknown} thrown @param {string} code */
const isCode = (thrown, code) => thrown instanceof ServerError && thrown.code === code;

export class ServerFiles {
  #kept;
  #chats;
  #host;
  /** Chats that this browser reads for the first time. @type {Map<string, Promise<string>>} */
  #reading = new Map();
  /** The last work on each file, by the conversation's id. @type {Map<string, Promise<unknown>>} */
  #last = new Map();

  /**
   * @param {import('./kept-chats.js').KeptChats} kept
   * @param {import('./chats-in-memory.js').ChatsInMemory} chats @param {Host} host
   */
  constructor(kept, chats, host) {
    this.#kept = kept;
    this.#chats = chats;
    this.#host = host;
  }

  /** Returns the id of the conversation in this browser; reads it if it is new. @param {string} name */
  async find(name) {
    const known = this.#kept.findSaved(name);
    if (known) return known.id;
    // A second click must not make a second copy.
    const reading = this.#reading.get(name) ?? alone(`file-${name}`, () => this.#readNew(name)).finally(() => this.#reading.delete(name));
    this.#reading.set(name, reading);
    return await reading;
  }

  /** @param {string} name */
  async #readNew(name) {
    // Another tab may have just read it.
    await this.#kept.read().catch(() => undefined);
    const known = this.#kept.findSaved(name);
    if (known) return known.id;
    const conversation = { ...newConversation(''), named: true, saved: { name, etag: '', document: {}, model: '' } };
    await this.refresh(conversation);
    // Not before it is saved may the next tab look for it.
    await this.#kept.save(conversation, [], () => undefined);
    return conversation.id;
  }

  /** Reads the list of files, and what was added to one. @param {Conversation} conversation */
  async look(conversation) {
    await savedChats.refresh();
    if (savedChats.isServed) await this.refresh(conversation).catch(() => undefined);
  }

  /** Takes over what was added to the file since the last read. @param {Conversation} conversation */
  async refresh(conversation) {
    const { saved } = conversation;
    if (!saved || this.#host.isWriting(conversation)) return;
    if (!models.asked) await models.refresh();
    // In turn: an ETag that was read before a write must not replace that of the write.
    const read = () => this.#chats.using(conversation, (chat) => this.#refresh(conversation, chat));
    await this.#inTurn(conversation, read).catch(async (thrown) => {
      if (!isCode(thrown, 'session_not_found')) throw thrown;
      void savedChats.refresh();
      const { name } = conversation.saved ?? saved;
      if (!this.#kept.find(conversation.id)) throw new Error(`${name} is no longer on the server.`);
      await this.#change(conversation, { saved: undefined });
      throw new Error(`${name} is no longer on the server. This browser keeps its copy.`);
    });
  }

  /** @param {Conversation} conversation @param {import('./open-chat.js').OpenChat} chat */
  async #refresh(conversation, chat) {
    const { saved } = conversation;
    if (!saved || this.#host.isWriting(conversation)) return;
    const read = await savedChats.read(saved.name, conversation, () => this.#allMessages(chat), servedModel);
    if (!read || this.#host.isWriting(conversation)) return;
    const { changed, model, ...change } = read;
    // A model that the user chose here stays.
    Object.assign(conversation, change, conversation.model === saved.model ? { model } : {});
    this.#kept.bringBack(changed);
    void this.#host.save(conversation, changed);
    for (const message of changed) chat.messages.set(message.id, message);
    chat.arrange();
    this.#host.changed();
  }

  /**
   * The messages of a chat, also those that another tab has just written into it and its file.
   * @param {import('./open-chat.js').OpenChat} chat
   */
  async #allMessages({ conversation, messages }) {
    return furthest(await this.#kept.messagesOf(conversation.id).catch(() => []), messages);
  }

  /**
   * Reads or writes a file after its other reads and writes, also of other tabs: each needs the
   * ETag and the name of the one before.
   * @param {Conversation} conversation @param {() => Promise<void>} work
   */
  async #inTurn(conversation, work) {
    const { id } = conversation;
    const named = async () => {
      const name = conversation.saved?.name;
      await work().catch(async (thrown) => {
        if (!isCode(thrown, 'session_not_found')) throw thrown;
        // Another tab may have renamed it.
        await this.#kept.read().catch(() => undefined);
        if (conversation.saved?.name === name) throw thrown;
        await work();
      });
    };
    const done = (this.#last.get(id) ?? Promise.resolve()).then(() => alone(`chat-${id}`, named));
    const ended = done.catch(() => undefined);
    this.#last.set(id, ended);
    await done.finally(() => { if (this.#last.get(id) === ended) this.#last.delete(id); });
  }

  /** Writes the branch that is shown, if there is still a file. @param {Conversation} conversation */
  async push(conversation) {
    await this.#inTurn(conversation, async () => { if (conversation.saved) await this.#write(conversation); });
  }

  /** @param {Conversation} conversation */
  async #write(conversation) {
    await this.#chats.using(conversation, async (chat) => {
      const first = chat.path[0];
      // A title that the user gave; else the file gets a date, as in the terminal.
      const title = first && conversation.title !== titleOf(first.content || first.attached?.[0]?.name || '') ? conversation.title : '';
      const write = () => savedChats.write(conversation, chat.path, title);
      const written = await write().catch((thrown) => {
        // The server may have written it, and only the reply is lost. A new file would come twice.
        if (!conversation.saved || !(isCode(thrown, 'cut_off') || isCode(thrown, 'unreachable'))) throw thrown;
        return write();
      }).catch(async (thrown) => {
        if (!isCode(thrown, 'session_changed') || !await this.#isSame(conversation, chat)) throw thrown;
        return await write();
      });
      void this.#host.save(conversation, written);
    });
  }

  /**
   * Whether a file that changed still has the turns and settings that this browser knows: a reload
   * may have cut off the reply to a write. Then takes over its ETag.
   * @param {Conversation} conversation @param {import('./open-chat.js').OpenChat} chat
   */
  async #isSame(conversation, chat) {
    const { saved } = conversation;
    if (!models.asked) await models.refresh();
    const read = saved && await savedChats.read(saved.name, conversation, () => this.#allMessages(chat), servedModel);
    if (!read) return false;
    const { path } = chat;
    const turns = read.changed.map(({ id }) => id);
    const same = turns.every((id, at) => id === path[at]?.id)
      && path.every((message) => !message.saved || turns.includes(message.id))
      && ['model', 'system', 'sampling'].every((name) => JSON.stringify(read.saved.document[name]) === JSON.stringify(saved.document[name]));
    if (same) conversation.saved = read.saved;
    return same;
  }

  /** Updates the file after a change of the branch. @param {Conversation} conversation */
  async keep(conversation) {
    if (!conversation.saved || this.#host.isWriting(conversation)) return;
    await this.push(conversation).catch(async (thrown) => {
      notify(`Not saved on the server: ${sentenceOf(thrown)}`);
      await this.refresh(conversation).catch(() => undefined);
    });
  }

  /** Moves a conversation to the folder where `recua chat` saves. @param {Conversation} conversation */
  async moveThere(conversation) {
    await this.#chats.using(conversation, async ({ cut }) => {
      if (cut.length > 0 && !this.#host.isWriting(conversation)) throw new Error('An answer of this chat is not complete yet.');
    });
    await this.#inTurn(conversation, async () => {
      await this.#write(conversation);
      await this.#change(conversation, { title: conversation.saved?.name ?? conversation.title });
    });
  }

  /**
   * Moves a conversation back into this browser only.
   * @param {Conversation} conversation @param {boolean} keepsFile as the user was told
   */
  async moveHere(conversation, keepsFile) {
    if (!keepsFile) await this.refresh(conversation);
    await this.#inTurn(conversation, async () => {
      if (!keepsFile) await savedChats.remove(conversation);
      await this.#change(conversation, { saved: undefined });
    });
  }

  /** Renames a conversation, with its file if it has one. @param {Conversation} conversation @param {string} title */
  async rename(conversation, title) {
    await this.refresh(conversation);
    await this.#inTurn(conversation, async () => {
      await savedChats.rename(conversation, title);
      await this.#change(conversation, { title: conversation.saved?.name ?? title, named: true });
    });
  }

  /** Deletes the file of a conversation. @param {Conversation} conversation */
  async remove(conversation) {
    // Without an ETag, nobody knows what would be deleted. It may be gone already.
    if (conversation.saved?.etag === '') await this.refresh(conversation).catch((thrown) => { if (conversation.saved) throw thrown; });
    await this.#inTurn(conversation, async () => {
      await savedChats.remove(conversation);
      delete conversation.saved;
    });
  }

  /** @param {Conversation} conversation @param {Partial<Conversation>} change */
  async #change(conversation, change) {
    Object.assign(conversation, change);
    this.#host.changed();
    await this.#host.save(conversation, []);
  }
}
