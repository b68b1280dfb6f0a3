// The state and the actions of the chat: the open conversation, and answers being written, also in
// other conversations. The views draw it.
import { Emitter } from '../app/emitter.js';
import { notify, unnotify } from '../app/notice.js';
import { sentenceOf } from '../app/server.js';
import { hasSchema, isTooLong, wrongIn } from './asking.js';
import * as database from './database.js';
import { KeptChats } from './kept-chats.js';
import { MessageBoxes } from './message-boxes.js';
import { OpenChat } from './open-chat.js';
import { tryHold, untilFree } from './one-tab.js';
import { RunningAnswers } from './running-answers.js';
import { savedChats } from './saved-chats.js';
import { ServerFiles } from './server-files.js';
import { lacksResults, newConversation, newId, pathTo, titleOf } from './tree.js';

/** @typedef {import('./tree.js').Conversation} Conversation */
/** @typedef {import('./tree.js').Message} Message */

/** An answer that was cut longer ago continues only when the user asks. */
const resumeWithinMs = 3_600_000;

class Session extends Emitter {
  #kept = new KeptChats();
  running = new RunningAnswers();
  #chat = new OpenChat(newConversation(''), []);
  /** The next new chat has this id, so that what is written into its box stays. */
  #nextId = this.#chat.conversation.id;
  boxes = new MessageBoxes();
  #opening = 0;
  /**
   * Chats with a message that is being written to the server's file, by the conversation's id.
   * @type {Map<string, OpenChat>}
   */
  #sending = new Map();
  /** The copies of some conversations on the server. */
  files = new ServerFiles(this.#kept, {
    open: (id) => this.#sending.get(id) ?? (id === this.conversation.id ? this.#chat : undefined),
    isWriting: (conversation) => this.#isWriting(conversation),
    save: (conversation, messages) => void this.#save(conversation, messages),
    changed: () => this.changed(),
  });

  /** The last changed first, without an empty conversation. */
  get list() {
    return this.#kept.list;
  }

  get conversation() {
    return this.#chat.conversation;
  }

  get messages() {
    return this.#chat.messages;
  }

  get path() {
    return this.#chat.path;
  }

  get pair() {
    return this.#chat.pair;
  }

  /** All versions of a message, itself included. @param {Message} message */
  siblings(message) {
    return this.#chat.siblings(message);
  }

  async start() {
    await this.#kept.read().catch((thrown) => notify(`Cannot read the conversations in this browser: ${sentenceOf(thrown)}`));
    this.changed();
  }

  /** @param {string} model */
  begin(model) {
    this.#opening++;
    this.#show(new OpenChat({ ...newConversation(model), id: this.#nextId }, []));
  }

  /** @param {string} id */
  async open(id) {
    // Also if it is open: another one may still be read.
    const opening = ++this.#opening;
    if (id === this.conversation.id) return;
    const conversation = this.#kept.find(id);
    if (!conversation) {
      notify('This chat is not in this browser.');
      return location.replace('#/');
    }
    unnotify();
    const known = this.#sending.get(id) ?? this.files.refreshing(id);
    if (known) return this.#show(known);
    /** @type {Message[]} */
    let messages;
    try {
      messages = await this.#kept.messagesOf(id);
    } catch (thrown) {
      if (opening !== this.#opening) return;
      notify(`Cannot read this chat: ${sentenceOf(thrown)}`);
      // Else the message box would belong to the chat that was open before.
      return location.replace('#/');
    }
    if (opening !== this.#opening) return;
    // Answers being written are ahead of their saved copies.
    const live = this.running.messagesOf(id);
    this.#show(new OpenChat(conversation, messages.map((message) => live.find((one) => one.id === message.id) ?? message)));
    await this.files.refresh(conversation).catch((thrown) => notify(sentenceOf(thrown)));
    void this.#resume();
  }

  /** @param {Conversation} conversation */
  #isWriting({ id }) {
    return this.running.messagesOf(id).length > 0 || this.#sending.has(id);
  }

  /** @param {Conversation} conversation @returns {Promise<Message[]>} */
  async messagesOf({ id }) {
    return id === this.conversation.id ? [...this.messages.values()] : await this.#kept.messagesOf(id);
  }

  /** Reads changes that other tabs made, and others to the server's chats. */
  async lookAgain() {
    await this.#kept.read().catch(() => undefined);
    await this.#readAgain(this.conversation).catch(() => undefined);
    this.changed();
    await savedChats.refresh();
    if (savedChats.isServed) await this.files.refresh(this.conversation).catch(() => undefined);
  }

  /** Continues the last answer if a reload cut it off, unless another tab is writing it. */
  async #resume() {
    const last = this.path.at(-1);
    const isCut = last?.role === 'assistant' && !last.finish && !last.error && !last.toolCalls?.length && !this.running.has(last.id);
    if (!isCut || Date.now() - last.createdMs > resumeWithinMs || this.pair.length > 0) return;
    const release = await tryHold(last.id);
    if (release) return await this.#continue(last, release);
    await untilFree(last.id);
    await this.lookAgain();
  }

  /** Shows what another tab wrote into the open chat. @param {Conversation} conversation */
  async #readAgain(conversation) {
    const isOpen = () => conversation === this.conversation && this.messages.size > 0 && !this.#isWriting(conversation);
    const before = [...this.messages.keys()];
    const read = await this.#kept.messagesOf(conversation.id);
    // What is shown of a chat that another tab deleted stays.
    if (isOpen() && this.#kept.find(conversation.id) && this.#chat.takeNews(read, before)) this.#arrange();
  }

  /** @param {OpenChat} chat */
  #show(chat) {
    this.#chat = chat;
    this.changed();
  }

  #arrange() {
    this.#chat.arrange();
    this.changed();
  }

  get busy() {
    return this.#sending.has(this.conversation.id) || this.path.some(({ id }) => this.running.has(id)) || this.pair.some(({ id }) => this.running.has(id));
  }

  /** @param {Message} message */
  choose(message) {
    this.#chat.choose(message);
    void this.#save(this.conversation, []);
    this.#arrange();
    void this.files.keep(this.conversation);
  }

  /** @param {Partial<Conversation>} change */
  change(change) {
    Object.assign(this.conversation, change);
    if (this.messages.size > 0) void this.#save(this.conversation, []);
    this.changed();
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

  /** @param {OpenChat} chat @param {Parameters<OpenChat['add']>[0]} said */
  #add(chat, said) {
    const message = chat.add(said);
    if (message.conversation === this.#nextId) this.#nextId = newId();
    void this.#save(chat.conversation, [message]);
    return message;
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
    if (!this.conversation.named) Object.assign(this.conversation, { title: titleOf(content || attached[0]?.name || ''), named: true });
    const message = this.#add(this.#chat, { parent, role: 'user', content, ...(attached.length > 0 ? { attached } : {}) });
    this.changed();
    if (this.conversation.saved) void this.#sayOnServer(this.#chat, message, before);
    else this.#reply(this.#chat, message);
    return true;
  }

  /**
   * Writes the message to the file first, which fails if the file has changed; then asks the model.
   * @param {OpenChat} chat @param {Message} message
   * @param {Record<string, string>} before `chosen` as it was, to restore on failure
   */
  async #sayOnServer(chat, message, before) {
    const { conversation } = chat;
    this.#sending.set(conversation.id, chat);
    this.changed();
    try {
      await this.files.push(conversation);
      this.#sending.delete(conversation.id);
      // It may have been deleted meanwhile.
      if (this.#kept.find(conversation.id)) this.#reply(chat, message);
    } catch (thrown) {
      this.#sending.delete(conversation.id);
      conversation.chosen = before;
      await this.#takeBack(chat, [message], thrown);
      await this.files.refresh(conversation).catch(() => undefined);
    }
    this.changed();
  }

  /**
   * Puts a user's message back into the box, and takes it and its failed answers out of the chat.
   * @param {OpenChat} chat @param {[Message, ...Message[]]} messages the user's, then the answers
   * @param {unknown} thrown
   */
  async #takeBack(chat, messages, thrown) {
    const { conversation } = chat;
    notify(`Not sent: ${sentenceOf(thrown)}`);
    for (const message of messages) await this.#kept.removeMessage(message).catch(() => undefined);
    // The chat may have been left and opened again.
    (conversation === this.conversation ? this.#chat : chat).remove(messages);
    this.boxes.putBack(messages[0]);
    void this.#save(conversation, []);
    this.changed();
  }

  /** Adds a tool result that the user typed. @param {Message} caller @param {string} callId @param {string} content */
  giveResult(caller, callId, content) {
    if (this.#isRefused()) return;
    const last = this.path.at(-1) ?? caller;
    const result = this.#add(this.#chat, { parent: last.id, role: 'tool', callId, content });
    this.changed();
    if (!lacksResults(this.path)) this.#reply(this.#chat, result);
  }

  /** Lets the model, or both models, answer a message. @param {OpenChat} chat @param {Message} to */
  #reply(chat, to) {
    const { conversation } = chat;
    const { model, second } = conversation;
    const pair = second === '' ? {} : { pair: newId() };
    // Another version may be shown by now.
    const path = pathTo(to, chat.messages);
    const names = second === '' ? [model] : [model, second];
    const json = hasSchema(conversation) ? { json: true } : {};
    const answers = names.map((name) => chat.add({ parent: to.id, role: 'assistant', content: '', model: name, ...json, ...pair }));
    // Of two answers the chat continues with the first, unless the user chooses the other.
    if (answers[0]) chat.choose(answers[0]);
    chat.arrange();
    void this.#save(conversation, answers);
    const writing = answers.map((message) => this.#write(conversation, message, path));
    void Promise.all(writing).then((failures) => this.#afterFailures(chat, to, failures));
    this.changed();
  }

  /**
   * A message that does not fit in the context comes back, else all after it would fail, too. Not
   * another version of a message: the one before it is still there. Nor if another tab went on.
   * @param {OpenChat} chat @param {Message} to @param {unknown[]} failures of the answers
   */
  async #afterFailures(chat, to, failures) {
    const taken = /** @type {[Message, ...Message[]]} */ ([to, ...chat.children.get(to.id) ?? []]);
    if (!failures.every(isTooLong) || !chat.isInVain(to) || !this.#kept.find(to.conversation) || await this.#kept.goesOn(taken)) return;
    await this.#takeBack(chat, taken, failures[0]);
    void this.files.keep(chat.conversation);
  }

  /**
   * Asks for an answer to a message or a tool's result that has none.
   * @param {Message} message
   */
  ask(message) {
    if (!this.#isRefused()) this.#reply(this.#chat, message);
  }

  /** Asks for another version of an answer. @param {Message} message */
  retry(message) {
    const parent = this.messages.get(message.parent);
    if (parent) this.ask(parent);
  }

  /** Continues an answer, unless another tab is writing it. @param {Message} message */
  async goOn(message) {
    if (this.#isRefused()) return;
    const release = await tryHold(message.id);
    if (release) await this.#continue(message, release);
    else notify('Another tab is writing this answer.');
  }

  /** @param {Message} message @param {() => void} release the lock of the answer */
  async #continue(message, release) {
    const isHere = () => !this.running.has(message.id) && this.path.includes(message);
    if (!isHere() || this.#isRefused()) return release();
    delete message.error;
    delete message.finish;
    message.json = hasSchema(this.conversation);
    // So that a reload before the first new token continues it too.
    await this.#save(this.conversation, [message]);
    if (!isHere()) return release();
    const before = message.content;
    void this.#write(this.conversation, message, this.path.slice(0, this.path.indexOf(message)), release).then(() => {
      if (message.finish === 'stop' && message.content === before && !message.toolCalls?.length) notify('The model had nothing to add.');
    });
    this.changed();
  }

  /** Adds an edited version of an answer. @param {Message} message @param {string} content */
  rewrite(message, content) {
    const { parent, role, model = '' } = message;
    this.#add(this.#chat, { parent, role, content, model, finish: 'stop' });
    this.changed();
    void this.files.keep(this.conversation);
    return true;
  }

  stop() {
    this.running.stop([...this.path, ...this.pair]);
  }

  /**
   * @param {Conversation} conversation @param {Message} message
   * @param {Message[]} before the messages before it
   * @param {() => void} [release] the lock of an answer that is continued
   * @returns {Promise<unknown>} why it failed
   */
  async #write(conversation, message, before, release) {
    const failure = await this.running.write(message, before, conversation, release !== undefined, () => this.#save(conversation, [message]), release);
    this.changed();
    void this.files.keep(conversation);
    return failure;
  }

  /** @param {string} id */
  #forget(id) {
    this.#kept.forget(id);
    this.running.stop(this.running.messagesOf(id));
  }

  /** @param {string} id */
  async remove(id) {
    const conversation = this.#kept.find(id);
    if (conversation) await this.files.remove(conversation);
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

  /** @param {{ conversation: Conversation, messages: Message[] }[]} chats */
  async take(chats) {
    await database.saveAll(chats).finally(() => this.start());
  }
}

export const session = new Session();
