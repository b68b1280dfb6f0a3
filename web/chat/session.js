// The state and the actions of the chat: the open conversation, and answers being written, also in
// other conversations. The views draw it.
import { Emitter } from '../app/emitter.js';
import { notify, unnotify } from '../app/notice.js';
import { sentenceOf } from '../app/server.js';
import { hasSchema, isTooLong, wrongIn } from './asking.js';
import { ChatsInMemory } from './chats-in-memory.js';
import { watchTabs } from './database.js';
import { Drafts } from './drafts.js';
import { KeptChats } from './kept-chats.js';
import { OpenChat } from './open-chat.js';
import { holdNext, holdOnce, isAwaited, isHeldHere } from './one-tab.js';
import { RunningAnswers } from './running-answers.js';
import { savedChats } from './saved-chats.js';
import { ServerFiles } from './server-files.js';
import { lacksResults, newConversation, newId, pathTo, reopen, titleOf } from './tree.js';

/** @typedef {import('./tree.js').Conversation} Conversation */
/** @typedef {import('./tree.js').Message} Message */

class Session extends Emitter {
  running = new RunningAnswers();
  #kept = new KeptChats(() => this.running.messages);
  drafts = new Drafts();
  chats = new ChatsInMemory(this.#kept);
  #chat = this.#newChat('');
  #opening = 0;
  /** Messages that are being written to the server's file, by their chat's id. @type {Map<string, Message>} */
  #sending = new Map();
  /** The copies of some conversations on the server. */
  files = new ServerFiles(this.#kept, this.chats, {
    isWriting: (conversation) => this.#isWriting(conversation),
    save: (conversation, messages) => this.#save(conversation, messages),
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
    await this.#kept.read().catch((thrown) => notify(`Cannot read the chats in this browser: ${sentenceOf(thrown)}`));
    for (const conversation of this.#kept.unsaved) void this.#save(conversation, []);
    this.changed();
  }

  /** @param {string} model */
  begin(model) {
    this.#opening++;
    this.chats.release(this.conversation.id);
    this.#chat = this.#newChat(model);
    this.changed();
  }

  /** @param {string} model */
  #newChat(model) {
    const chat = new OpenChat(Object.assign(this.drafts.newChat, { model }), []);
    this.chats.add(chat);
    return chat;
  }

  /** Resolves when the chat is shown, or cannot be. @param {string} id */
  async open(id) {
    const opening = ++this.#opening; // also if it is open: another one may still be read
    if (id === this.conversation.id) return;
    const conversation = this.#kept.find(id);
    if (!conversation) {
      notify('This chat is not in this browser.');
      return location.replace('#/');
    }
    if (opening > 1) unnotify(); // not what was told while the page was loading
    const wasHere = this.chats.find(id) !== undefined;
    const chat = await this.chats.take(conversation).catch((thrown) => {
      if (opening !== this.#opening) return;
      notify(`Cannot read this chat: ${sentenceOf(thrown)}`);
      // Else the message box would belong to the chat that was open before.
      location.replace('#/');
    });
    if (!chat) return;
    if (opening !== this.#opening) return this.chats.release(id);
    this.chats.release(this.conversation.id);
    this.#chat = chat;
    this.changed();
    void this.#catchUp(chat, wasHere);
  }

  /** @param {Conversation} conversation */
  #isWriting({ id }) {
    return this.running.messagesOf(id).length > 0 || this.#sending.has(id);
  }

  /** Reads what other tabs changed. */
  async look() {
    await this.#kept.read().catch(() => undefined);
    await this.#readAgain(this.#chat).catch(() => undefined);
    this.changed();
    void this.#finishCut(this.#chat);
  }

  /**
   * Shows what happened elsewhere, and continues cut answers as soon as no other tab writes them.
   * @param {OpenChat} chat @param {boolean} wasHere whether it was in memory already
   */
  async #catchUp(chat, wasHere) {
    if (wasHere) await this.#readAgain(chat).catch(() => undefined);
    await this.files.refresh(chat.conversation).catch((thrown) => notify(sentenceOf(thrown)));
    await this.#finishCut(chat);
  }

  /** @param {OpenChat} chat */
  async #finishCut(chat) {
    const isFree = (/** @type {Message} */ { id }) => !isHeldHere(id) && !isAwaited(id);
    await Promise.all(chat.cut.filter(isFree).map(async ({ id }) => {
      // Meanwhile another tab may write it or delete the chat, and this one leave it and come back.
      const now = () => this.chats.find(chat.conversation.id) ?? chat;
      const find = () => this.#kept.find(chat.conversation.id) && now().cut.find((one) => one.id === id);
      const release = await holdNext(id, () => this.look().then(() => Boolean(find())));
      const cut = await this.#readAgain(now()).then(find, () => undefined);
      if (release) (cut ? this.#continue(cut, release) : release());
    }));
  }

  /** Takes over what another tab wrote into a chat. @param {OpenChat} chat */
  async #readAgain(chat) {
    const { conversation, messages } = chat;
    const before = [...messages.keys()];
    const read = await this.#kept.messagesOf(conversation.id);
    // What is shown of a chat that another tab deleted stays.
    if (!this.#kept.find(conversation.id) || !chat.takeNews(read, before, ({ id }) => this.running.has(id))) return;
    chat.arrange();
    this.changed();
  }

  get busy() {
    const { shown, isTakingBack, conversation } = this.#chat;
    return isTakingBack || this.#sending.has(conversation.id) || shown.some(({ id }) => this.running.has(id));
  }

  /** @param {Message} message */
  choose(message, chat = this.#chat) {
    chat.choose(message);
    void this.#save(chat.conversation, []);
    chat.arrange();
    this.changed();
    void this.files.keep(chat.conversation);
  }

  /** @param {Partial<Conversation>} change */
  change(change) {
    this.alter(this.conversation, change);
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
    if (chat.conversation === this.drafts.newChat) this.drafts.newChat = newConversation('');
    void this.#save(chat.conversation, [message]);
    return message;
  }

  /** Tells what is wrong with the settings. Then nothing is added to the chat, and nothing sent. */
  #isRefused() {
    const wrong = this.#chat.isWrittenElsewhere ? 'Another tab is writing this answer.' : wrongIn(this.conversation);
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
    this.chats.hold(chat);
    this.#sending.set(conversation.id, message);
    const isWanted = () => this.#sending.get(conversation.id) === message && this.#sending.delete(conversation.id); // not stopped
    this.changed();
    try {
      await this.files.push(conversation);
      if (isWanted() && this.#kept.find(conversation.id)) this.#reply(chat, message);
    } catch (thrown) {
      isWanted();
      conversation.chosen = before;
      await this.#takeBack(chat, [message], thrown);
      await this.files.refresh(conversation).catch(() => undefined);
    }
    this.chats.release(conversation.id);
    this.changed();
  }

  /**
   * Puts a user's message, the first, back into the box, and takes it and its failed answers out of
   * the chat, which is a new chat again if nothing is left of it.
   * @param {OpenChat} chat @param {[Message, ...Message[]]} messages @param {unknown} thrown
   */
  async #takeBack(chat, messages, thrown) {
    const { conversation } = chat;
    this.drafts.putBack(messages[0]);
    const done = chat.takeBack(messages, this.#kept.removeMessages(messages));
    this.changed();
    await done;
    notify(`Not sent: ${sentenceOf(thrown)}`);
    if (chat.messages.size === 0 && !conversation.saved && this.drafts.beginAgain(conversation)) {
      if (this.conversation === conversation) this.begin(conversation.model);
      return await this.remove(conversation.id).catch(() => undefined);
    }
    void this.#save(conversation, []);
    this.changed();
  }

  /** Adds a tool result that the user typed, as say(). @param {Message} caller @param {string} callId @param {string} content */
  giveResult(caller, callId, content) {
    if (this.#isRefused()) return false;
    const last = this.path.at(-1) ?? caller;
    const result = this.#add(this.#chat, { parent: last.id, role: 'tool', callId, content });
    this.changed();
    if (!lacksResults(this.path)) this.#reply(this.#chat, result);
    return true;
  }

  /** Lets the model, or both models, answer a message. @param {OpenChat} chat @param {Message} to */
  #reply(chat, to) {
    const { conversation, conversation: { model, second } } = chat;
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
    const written = Promise.all(answers.map((message) => this.#write(chat, message, path)));
    this.chats.hold(chat);
    void written.then((failures) => this.#afterFailures(chat, to, failures)).finally(() => this.chats.release(conversation.id));
    this.changed();
  }

  /**
   * A message that does not fit in the context comes back, else all after it would fail, too. Not
   * another version of a message: the one before it is still there. Nor if another tab went on.
   * @param {OpenChat} chat @param {Message} to @param {unknown[]} failures of the answers
   */
  async #afterFailures(chat, to, failures) {
    const whole = chat.wholeBesideFailed(to);
    if (whole) return this.choose(whole, chat);
    const taken = /** @type {[Message, ...Message[]]} */ ([to, ...chat.children.get(to.id) ?? []]);
    if (!failures.every(isTooLong) || !chat.isInVain(to) || !this.#kept.find(to.conversation) || await this.#kept.goesOn(taken)) return;
    await this.#takeBack(chat, taken, failures[0]);
    void this.files.keep(chat.conversation);
  }

  /** Asks for an answer to a message or a tool's result without one. @param {Message} message */
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
    // This may be a second click, before the button is drawn again.
    if (this.#isRefused() || isAwaited(message.id)) return;
    const release = await holdOnce(message.id, () => Boolean(message.finish));
    if (release) this.#continue(message, release);
    else if (!isHeldHere(message.id)) notify('Another tab is writing this answer.');
  }

  /** @param {Message} message @param {() => void} release the lock of the answer */
  #continue(message, release) {
    if (this.running.has(message.id) || !this.#chat.shown.includes(message) || this.#isRefused()) return release();
    reopen(message);
    message.json = hasSchema(this.conversation);
    // So that a reload before the first new token continues it too.
    void this.#save(this.conversation, [message]);
    const [chat, to, before] = [this.#chat, this.messages.get(message.parent), message.content];
    this.chats.hold(chat);
    void this.#write(chat, message, pathTo(message, this.messages).slice(0, -1), release).then(async (failure) => {
      if (failure && to) return await this.#afterFailures(chat, to, [failure]);
      if (message.finish === 'stop' && message.content === before && !message.toolCalls?.length) notify('The model had nothing to add.');
    }).finally(() => this.chats.release(chat.conversation.id));
    this.changed();
  }

  /** Adds an edited version of an answer. @param {Message} message @param {string} content */
  rewrite(message, content) {
    const { parent, role, model = '', json = false } = message;
    this.#add(this.#chat, { parent, role, content, model, json, finish: 'stop' });
    this.changed();
    void this.files.keep(this.conversation);
    return true;
  }

  stop() {
    // A message that is being written to the server's file gets no answer.
    if (this.#sending.delete(this.conversation.id)) this.changed();
    this.running.stop(this.#chat.shown);
  }

  /**
   * @param {OpenChat} chat @param {Message} message
   * @param {Message[]} before the messages before it
   * @param {() => void} [release] the lock of an answer that is continued
   * @returns {Promise<unknown>} why it failed
   */
  async #write(chat, message, before, release) {
    this.chats.hold(chat);
    const failure = await this.running.write(message, before, chat.conversation, () => this.#save(chat.conversation, [message]), release);
    this.changed();
    void this.files.keep(chat.conversation);
    this.chats.release(chat.conversation.id);
    return failure;
  }

  /** @param {string} id */
  #forget(id) {
    this.#kept.forget(id);
    this.running.stop(this.running.messagesOf(id));
  }

  /** @param {string} id @param {boolean} keepsFile on the server */
  async remove(id, keepsFile = !savedChats.isServed) {
    const conversation = this.#kept.find(id);
    if (conversation && !keepsFile) await this.files.remove(conversation);
    this.#forget(id);
    this.drafts.forget(id);
    if (this.conversation.id === id) this.begin(this.conversation.model);
    else this.changed();
    if (location.hash === `#/chat/${id}`) location.replace('#/');
    await this.#kept.remove(id);
  }

  /** @param {Conversation} conversation @param {Partial<Conversation>} change */
  alter(conversation, change) {
    Object.assign(conversation, change);
    // A new chat is saved with its first message.
    if (this.#kept.find(conversation.id)) void this.#save(conversation, []);
    this.changed();
  }
}

export const session = new Session();
watchTabs(async () => { if (!document.hidden) await session.look(); });
