// The state and the actions of the chat: the open conversation, and answers being written, also in
// other conversations. The views draw it.
import { Emitter } from '../app/emitter.js';
import { models } from '../app/models.js';
import { notify, unnotify } from '../app/notice.js';
import { sentenceOf, ServerError } from '../app/server.js';
import { hasSchema, wrongIn } from './asking.js';
import * as database from './database.js';
import { KeptChats } from './kept-chats.js';
import { isFree, untilFree } from './one-tab.js';
import { RunningAnswers } from './running-answers.js';
import { savedChats, servedModel } from './saved-chats.js';
import { childrenOf, lacksResults, newConversation, newId, pathOf, pathTo, titleOf } from './tree.js';

/** @typedef {import('./tree.js').Conversation} Conversation */
/** @typedef {import('./tree.js').Message} Message */

/** An answer that was cut longer ago continues only when the user asks. */
const resumeWithinMs = 3_600_000;

class Session extends Emitter {
  #kept = new KeptChats();
  running = new RunningAnswers();
  /** @type {Conversation} */
  conversation = newConversation('');
  /** @type {Map<string, Message>} */
  messages = new Map();
  /** @type {Map<string, Message[]>} */
  children = new Map();
  /** @type {Message[]} */
  path = [];
  /** Text in the message box, by conversation id. @type {Map<string, string>} */
  drafts = new Map();
  /** Attached files, by conversation id. @type {Map<string, import('./tree.js').Attached[]>} */
  attached = new Map();
  #opening = 0;
  /** Ids of conversations with a message that is being written to the server's file. @type {Set<string>} */
  #sending = new Set();
  /** Chats of the server that this browser reads for the first time. @type {Map<string, Promise<string>>} */
  #reading = new Map();
  /** Counts messages that were put back into the box. */
  returned = 0;

  /** The last changed first, without an empty conversation. */
  get list() {
    return this.#kept.list;
  }

  async start() {
    await this.#kept.read().catch((thrown) => notify(`Cannot read the conversations in this browser: ${sentenceOf(thrown)}`));
    this.changed();
  }

  /** @param {string} model */
  begin(model) {
    this.#opening++;
    this.#show(newConversation(model), []);
  }

  /** @param {string} id */
  async open(id) {
    if (id === this.conversation.id) return;
    const conversation = this.#kept.find(id);
    if (!conversation) {
      notify('This chat is not in this browser.');
      return location.replace('#/');
    }
    unnotify();
    const opening = ++this.#opening;
    /** @type {Message[]} */
    let messages;
    try {
      messages = await database.messagesOf(id);
    } catch (thrown) {
      if (opening !== this.#opening) return;
      notify(`Cannot read this chat: ${sentenceOf(thrown)}`);
      // Else the message box would belong to the chat that was open before.
      return location.replace('#/');
    }
    if (opening !== this.#opening) return;
    // Answers being written are ahead of their saved copies.
    const live = this.running.messagesOf(id);
    this.#show(conversation, messages.map((message) => live.find((one) => one.id === message.id) ?? message));
    await this.#refresh(conversation).catch((thrown) => notify(sentenceOf(thrown)));
    void this.#resume();
  }

  /** Opens a chat of the server, even one new to this browser. Returns its id in the browser. @param {string} name */
  async openSaved(name) {
    const known = this.#kept.findSaved(name);
    if (known) return known.id;
    // A second click must not make a second copy.
    const reading = this.#reading.get(name) ?? this.#readSaved(name).finally(() => this.#reading.delete(name));
    this.#reading.set(name, reading);
    return await reading;
  }

  /** @param {string} name */
  async #readSaved(name) {
    const conversation = { ...newConversation(''), named: true, saved: { name, etag: '', document: {}, model: '' } };
    await this.#refresh(conversation);
    return conversation.id;
  }

  /** @param {Conversation} conversation */
  #isWriting({ id }) {
    return this.running.messagesOf(id).length > 0 || this.#sending.has(id);
  }

  /** @param {Conversation} conversation @returns {Promise<Message[]>} */
  async #messagesOf({ id }) {
    return id === this.conversation.id ? [...this.messages.values()] : await database.messagesOf(id);
  }

  /** Shows what was added to the server's file since the last read. @param {Conversation} conversation */
  async #refresh(conversation) {
    const { saved } = conversation;
    if (!saved || this.#isWriting(conversation)) return;
    if (!models.asked) await models.refresh();
    const messages = await this.#messagesOf(conversation);
    const read = await savedChats.read(saved.name, conversation, messages, servedModel).catch((thrown) => {
      if (!(thrown instanceof ServerError) || thrown.code !== 'session_not_found') throw thrown;
      this.alter(conversation, { saved: undefined });
      throw new Error(`${saved.name} is no longer on the server. This browser keeps its copy.`);
    });
    if (!read || this.#isWriting(conversation)) return;
    const { changed, model, ...change } = read;
    // A model that the user chose here stays.
    Object.assign(conversation, change, conversation.model === saved.model ? { model } : {});
    void this.#save(conversation, changed);
    const ids = new Set(changed.map(({ id }) => id));
    if (conversation === this.conversation) this.#show(conversation, [...messages.filter(({ id }) => !ids.has(id)), ...changed]);
    else this.changed();
  }

  /** Writes the branch that is shown to the server's file. @param {Conversation} conversation */
  async #push(conversation) {
    const path = pathOf(childrenOf(await this.#messagesOf(conversation)), conversation.chosen);
    const written = await savedChats.write(conversation, path);
    void this.#save(conversation, written);
  }

  /** Updates the server's file after a change of the branch. @param {Conversation} conversation */
  async #keep(conversation) {
    if (!conversation.saved || this.#isWriting(conversation)) return;
    await this.#push(conversation).catch(async (thrown) => {
      notify(`Not saved on the server: ${sentenceOf(thrown)}`);
      await this.#refresh(conversation).catch(() => undefined);
    });
  }

  /** Moves a conversation to the folder where `recua chat` saves. @param {Conversation} conversation */
  async moveToServer(conversation) {
    await this.#push(conversation);
    this.alter(conversation, { title: conversation.saved?.name ?? conversation.title });
  }

  /** Another tab may have renamed the server's file: see kept-chats. @param {Conversation} conversation */
  async #readRenamed(conversation) {
    if (conversation.saved?.etag === '') await this.#refresh(conversation);
  }

  /** Moves a conversation back into this browser only. @param {Conversation} conversation */
  async moveHere(conversation) {
    await this.#readRenamed(conversation);
    if (savedChats.isServed) await savedChats.remove(conversation);
    this.alter(conversation, { saved: undefined });
  }

  /** @param {Conversation} conversation @param {string} title */
  async rename(conversation, title) {
    await this.#readRenamed(conversation);
    await savedChats.rename(conversation, title);
    this.alter(conversation, { title: conversation.saved?.name ?? title, named: true });
  }

  /** Reads changes that other tabs made, and others to the server's chats. */
  async lookAgain() {
    await this.#kept.read().catch(() => undefined);
    await this.#readAgain(this.conversation).catch(() => undefined);
    this.changed();
    await savedChats.refresh();
    if (savedChats.isServed) await this.#refresh(this.conversation).catch(() => undefined);
  }

  /** Continues the last answer if a reload cut it off, unless another tab is writing it. */
  async #resume() {
    const last = this.path.at(-1);
    const isCut = last?.role === 'assistant' && !last.finish && !last.error && !last.toolCalls?.length && !this.running.has(last.id);
    if (!isCut || Date.now() - last.createdMs > resumeWithinMs || this.pair.length > 0) return;
    if (!await isFree(last.id)) {
      await untilFree(last.id);
      return await this.#readAgain(this.conversation);
    }
    if (this.path.at(-1) === last && !this.running.has(last.id)) void this.goOn(last);
  }

  /** Shows what another tab wrote into the open chat. @param {Conversation} conversation */
  async #readAgain(conversation) {
    const isOpen = () => conversation === this.conversation && this.messages.size > 0 && !this.#isWriting(conversation);
    if (!isOpen()) return;
    const read = await database.messagesOf(conversation.id);
    if (!isOpen()) return;
    const news = read.filter(({ id, content, finish, error }) => {
      const here = this.messages.get(id);
      // A complete answer that could not be saved is ahead of its saved copy.
      return !here || ((finish || error || !here.finish) && (content !== here.content || finish !== here.finish));
    });
    for (const message of news) this.messages.set(message.id, message);
    if (news.length > 0) this.#arrange();
  }

  /** @param {Conversation} conversation @param {Message[]} messages */
  #show(conversation, messages) {
    this.conversation = conversation;
    this.messages = new Map(messages.map((message) => [message.id, message]));
    this.#arrange();
  }

  #arrange() {
    this.children = childrenOf(this.messages.values());
    this.path = pathOf(this.children, this.conversation.chosen);
    this.changed();
  }

  get busy() {
    return this.#sending.has(this.conversation.id) || this.path.some(({ id }) => this.running.has(id)) || this.pair.some(({ id }) => this.running.has(id));
  }

  /** The two answers shown side by side at the end, or none. */
  get pair() {
    const last = this.path.at(-1);
    if (!last?.pair) return [];
    return (this.children.get(last.parent) ?? []).filter(({ pair }) => pair === last.pair);
  }

  /** All versions of a message, itself included. @param {Message} message */
  siblings(message) {
    return this.children.get(message.parent) ?? [message];
  }

  /** @param {Message} message */
  choose(message) {
    this.#change({ chosen: { ...this.conversation.chosen, [message.parent]: message.id } });
    this.#arrange();
    void this.#keep(this.conversation);
  }

  /** @param {Partial<Conversation>} change */
  change(change) {
    this.#change(change);
    this.changed();
  }

  /** @param {string} name @param {unknown} value undefined: the server's default */
  set(name, value) {
    const settings = { ...this.conversation.settings };
    if (value === undefined || value === '') delete settings[name];
    else settings[name] = value;
    this.change({ settings });
  }

  /** @param {Partial<Conversation>} change @param {Message[]} [messages] */
  #change(change, messages = []) {
    Object.assign(this.conversation, change);
    if (this.messages.size > 0) void this.#save(this.conversation, messages);
  }

  /** @param {Conversation} conversation @param {Message[]} messages */
  async #save(conversation, messages) {
    await this.#kept.save(conversation, messages, () => {
      // What is shown stays, so that it can be copied.
      this.#forget(conversation.id);
      notify('This chat was deleted in another tab. What is written here is not saved.');
      this.changed();
    });
  }

  /** @param {Omit<Message, 'id' | 'conversation' | 'createdMs'>} said @returns {Message} */
  #add(said) {
    const last = Math.max(0, ...this.siblingsUnder(said.parent).map(({ createdMs }) => createdMs));
    const message = { ...said, id: newId(), conversation: this.conversation.id, createdMs: Math.max(Date.now(), last + 1) };
    this.messages.set(message.id, message);
    this.children.set(said.parent, [...this.siblingsUnder(said.parent), message]);
    this.#change({ chosen: { ...this.conversation.chosen, [said.parent]: message.id } }, [message]);
    return message;
  }

  /** @param {string} parent */
  siblingsUnder(parent) {
    return this.children.get(parent) ?? [];
  }

  /** Tells what is wrong with the settings. Then nothing is added to the chat, and nothing sent. */
  #isRefused() {
    const wrong = wrongIn(this.conversation);
    if (wrong) notify(wrong);
    return wrong !== '';
  }

  /**
   * Adds a user's message, at the end or as another version of `instead`, and asks for an answer.
   * Returns false if the settings do not allow that.
   * @param {string} content @param {import('./tree.js').Attached[]} attached @param {Message} [instead]
   */
  say(content, attached, instead) {
    if (this.#isRefused()) return false;
    unnotify();
    const parent = instead ? instead.parent : this.path.at(-1)?.id ?? '';
    const before = this.conversation.chosen;
    const message = this.#add({ parent, role: 'user', content, ...(attached.length > 0 ? { attached } : {}) });
    if (!this.conversation.named) this.#change({ title: titleOf(content || attached[0]?.name || ''), named: true });
    this.#arrange();
    if (this.conversation.saved) void this.#sayOnServer(this.conversation, message, before);
    else this.reply(message);
    return true;
  }

  /**
   * Writes the message to the file first, which fails if the file has changed; then asks the model.
   * @param {Conversation} conversation @param {Message} message
   * @param {Record<string, string>} before `chosen` as it was, to restore on failure
   */
  async #sayOnServer(conversation, message, before) {
    this.#sending.add(conversation.id);
    this.changed();
    try {
      await this.#push(conversation);
    } catch (thrown) {
      const { id, content, attached = [] } = message;
      notify(`Not sent: ${sentenceOf(thrown)}`);
      if (conversation === this.conversation) this.messages.delete(id);
      await database.removeMessage(id).catch(() => undefined);
      this.drafts.set(conversation.id, content);
      this.attached.set(conversation.id, attached);
      this.returned++;
      conversation.chosen = before;
      void this.#save(conversation, []);
      if (conversation === this.conversation) this.#arrange();
    }
    this.#sending.delete(conversation.id);
    const isThere = this.messages.has(message.id);
    if (isThere) this.reply(message);
    else await this.#refresh(conversation).catch(() => undefined);
    this.changed();
  }

  /** Adds a tool result that the user typed. @param {Message} caller @param {string} callId @param {string} content */
  giveResult(caller, callId, content) {
    if (this.#isRefused()) return;
    const last = this.path.at(-1) ?? caller;
    const result = this.#add({ parent: last.id, role: 'tool', callId, content });
    this.#arrange();
    if (!lacksResults(this.path)) this.reply(result);
  }

  /** Lets the model, or both models, answer a message. @param {Message} to */
  reply(to) {
    const { model, second } = this.conversation;
    const pair = second === '' ? {} : { pair: newId() };
    // Another version may be shown by now.
    const path = pathTo(to, this.messages);
    const names = second === '' ? [model] : [model, second];
    const json = hasSchema(this.conversation) ? { json: true } : {};
    const answers = names.map((name) => this.#add({ parent: to.id, role: 'assistant', content: '', model: name, ...json, ...pair }));
    // Of two answers the chat continues with the first, unless the user chooses the other.
    this.#change({ chosen: { ...this.conversation.chosen, [to.id]: answers[0]?.id ?? '' } });
    for (const message of answers) void this.#write(message, path);
    this.#arrange();
  }

  /**
   * Asks for an answer to a message or a tool's result that has none.
   * @param {Message} message
   */
  ask(message) {
    if (!this.#isRefused()) this.reply(message);
  }

  /** Asks for another version of an answer. @param {Message} message */
  retry(message) {
    const parent = this.messages.get(message.parent);
    if (parent) this.ask(parent);
  }

  /** Continues an answer, unless another tab is writing it. @param {Message} message */
  async goOn(message) {
    if (this.#isRefused()) return;
    if (navigator.locks && !await isFree(message.id)) return notify('Another tab is writing this answer.');
    const isHere = () => !this.running.has(message.id) && this.path.includes(message);
    if (!isHere()) return;
    delete message.error;
    delete message.finish;
    message.json = hasSchema(this.conversation);
    // So that a reload before the first new token continues it too.
    await this.#save(this.conversation, [message]);
    if (!isHere()) return;
    const before = message.content;
    void this.#write(message, this.path.slice(0, this.path.indexOf(message)), true).then(() => {
      if (message.finish === 'stop' && message.content === before && !message.toolCalls?.length) notify('The model had nothing to add.');
    });
    this.changed();
  }

  /** Adds an edited version of an answer. @param {Message} message @param {string} content */
  rewrite(message, content) {
    const { parent, role, model = '' } = message;
    this.#add({ parent, role, content, model, finish: 'stop' });
    this.#arrange();
    void this.#keep(this.conversation);
    return true;
  }

  stop() {
    this.running.stop([...this.path, ...this.pair]);
  }

  /** @param {Message} message @param {Message[]} before the messages before it @param {boolean} [continued] */
  async #write(message, before, continued = false) {
    const { conversation } = this;
    await this.running.write(message, before, conversation, continued, () => this.#save(conversation, [message]));
    this.changed();
    void this.#keep(conversation);
  }

  /** @param {string} id */
  #forget(id) {
    this.#kept.forget(id);
    this.running.stop(this.running.messagesOf(id));
  }

  /** @param {string} id */
  async remove(id) {
    const conversation = this.#kept.find(id);
    if (conversation && savedChats.isServed) {
      // Its file may be gone, too.
      await this.#readRenamed(conversation).catch((thrown) => { if (conversation.saved) throw thrown; });
      await savedChats.remove(conversation);
    }
    this.#forget(id);
    await database.remove(id);
    if (this.conversation.id === id) this.begin(this.conversation.model);
    else this.changed();
  }

  /** @param {Conversation} conversation @param {Partial<Conversation>} change */
  alter(conversation, change) {
    Object.assign(conversation, change);
    void this.#save(conversation, []);
    this.changed();
  }

  /** @param {Conversation} conversation @param {Message[]} messages */
  async take(conversation, messages) {
    await database.save(conversation.id, () => conversation, messages);
    await this.start();
  }
}

export const session = new Session();
