// The conversation on screen, and the answers that are being written, also those of conversations
// that were left. What the views show and do is here; they draw it.
import { Emitter } from '../app/emitter.js';
import { notify } from '../app/notice.js';
import { sentenceOf, ServerError } from '../app/server.js';
import { answer, bodyOf } from './asking.js';
import { cutOff, isCut, serverId, serverIsBack, Watch } from './connection.js';
import * as database from './database.js';
import { childrenOf, newConversation, newId, pathOf, titleOf } from './tree.js';

/** @typedef {import('./tree.js').Conversation} Conversation */
/** @typedef {import('./tree.js').Message} Message */

/** Between two writes of an answer that grows: what a reload may lose. */
const saveEveryMs = 2_000;
/** Between two drawings of an answer: what comes faster than it is read is drawn less often. */
const drawEveryMs = 30;
const drawFastEveryMs = 120;
/** Characters. */
const fastPerMs = 0.8;

/** An answer that was left longer ago is gone on with by hand. */
const resumeWithinMs = 3_600_000;

/** Other tabs see that this one writes the answer. Returns what ends that. @param {string} id */
function hold(id) {
  /** @type {() => void} */
  let release = () => undefined;
  const held = new Promise((resolve) => { release = () => resolve(undefined); });
  // Over plain HTTP from another machine a browser has no locks.
  void navigator.locks?.request(`answer-${id}`, () => held);
  return release;
}

/** @param {string} id @returns {Promise<boolean>} false, too, where nobody can tell */
const isFree = async (id) => navigator.locks ? await navigator.locks.request(`answer-${id}`, { ifAvailable: true }, (lock) => lock !== null) : false;

/**
 * Takes from a cut answer what cannot be gone on with: half a call of a tool, half of what follows
 * a schema. Returns whether anything is left to go on from.
 * @param {Message} message @param {Conversation} conversation
 */
function restartOf(message, conversation) {
  delete message.toolCalls;
  if (conversation.settings['schema']) {
    message.content = '';
    delete message.reasoning;
  }
  return Boolean(message.content || message.reasoning);
}

class Session extends Emitter {
  /** The newest first, without the one that nobody has said anything in. @type {Conversation[]} */
  list = [];
  /** @type {Conversation} */
  conversation = newConversation('');
  /** @type {Map<string, Message>} */
  messages = new Map();
  /** @type {Map<string, Message[]>} */
  children = new Map();
  /** @type {Message[]} */
  path = [];
  /** By the message's id: what stops it. @type {Map<string, { stop: AbortController, watchers: Set<() => void>, path: Message[], connecting: boolean }>} */
  running = new Map();
  /** What is in the box for a conversation, by its id. @type {Map<string, string>} */
  drafts = new Map();
  /** The files beside it, by the same id. @type {Map<string, import('./tree.js').Attached[]>} */
  attached = new Map();
  #opening = 0;
  /** Conversations that are gone: an answer that ends later does not bring one back. @type {Set<string>} */
  #gone = new Set();

  async start() {
    try {
      this.list = (await database.allConversations()).sort((a, b) => b.changedMs - a.changedMs);
    } catch (thrown) {
      notify(`This browser keeps no conversations: ${sentenceOf(thrown)}`);
    }
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
    const conversation = this.list.find((one) => one.id === id);
    if (!conversation) return this.begin(this.conversation.model);
    const opening = ++this.#opening;
    const messages = await database.messagesOf(id);
    if (opening !== this.#opening) return;
    // What is written right now is further than what was saved of it.
    const live = [...this.running.values()].map(({ path }) => path.at(-1)).filter((message) => message?.conversation === id);
    this.#show(conversation, messages.map((message) => live.find((one) => one?.id === message.id) ?? message));
    void this.#resume();
  }

  /** Goes on with the answer at the end where a reload cut it off, unless another tab writes it. */
  async #resume() {
    const last = this.path.at(-1);
    const isCut = last?.role === 'assistant' && !last.finish && !last.error && !last.toolCalls?.length && !this.running.has(last.id);
    if (!isCut || Date.now() - last.createdMs > resumeWithinMs || this.pair.length > 0 || !await isFree(last.id)) return;
    if (this.path.at(-1) === last && !this.running.has(last.id)) this.goOn(last);
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
    return this.path.some(({ id }) => this.running.has(id)) || this.pair.some(({ id }) => this.running.has(id));
  }

  /** The two answers that stand side by side at the end, or none. */
  get pair() {
    const last = this.path.at(-1);
    if (!last?.pair) return [];
    return (this.children.get(last.parent) ?? []).filter(({ pair }) => pair === last.pair);
  }

  /** @param {Message} message all that could stand in its place */
  siblings(message) {
    return this.children.get(message.parent) ?? [message];
  }

  /** @param {Message} message */
  choose(message) {
    this.#change({ chosen: { ...this.conversation.chosen, [message.parent]: message.id } });
    this.#arrange();
  }

  /** @param {Partial<Conversation>} change */
  change(change) {
    this.#change(change);
    this.changed();
  }

  /** @param {string} name @param {unknown} value undefined: as the server has it */
  set(name, value) {
    const settings = { ...this.conversation.settings };
    if (value === undefined || value === '') delete settings[name];
    else settings[name] = value;
    this.change({ settings });
  }

  /** @param {Partial<Conversation>} change @param {Message[]} [messages] */
  #change(change, messages = []) {
    Object.assign(this.conversation, change);
    if (this.messages.size > 0) this.#save(this.conversation, messages);
  }

  /** @param {Conversation} conversation @param {Message[]} messages */
  #save(conversation, messages) {
    if (this.#gone.has(conversation.id)) return;
    if (messages.length > 0) conversation.changedMs = Date.now();
    this.list = [conversation, ...this.list.filter(({ id }) => id !== conversation.id)].sort((a, b) => b.changedMs - a.changedMs);
    database.save({ ...conversation }, messages.map((message) => ({ ...message }))).catch((thrown) => notify(`Not saved: ${sentenceOf(thrown)}`));
  }

  /** @param {Omit<Message, 'id' | 'conversation' | 'createdMs'>} said @returns {Message} */
  #add(said) {
    const last = Math.max(0, ...this.siblingsUnder(said.parent).map(({ createdMs }) => createdMs));
    const message = { ...said, id: newId(), conversation: this.conversation.id, createdMs: Math.max(Date.now(), last + 1) };
    this.messages.set(message.id, message);
    this.#change({ chosen: { ...this.conversation.chosen, [said.parent]: message.id } }, [message]);
    return message;
  }

  /** @param {string} parent */
  siblingsUnder(parent) {
    return this.children.get(parent) ?? [];
  }

  /**
   * A user's message, behind all others or in another's place, and the answer to it.
   * @param {string} content @param {import('./tree.js').Attached[]} attached @param {Message} [instead]
   */
  say(content, attached, instead) {
    const parent = instead ? instead.parent : this.path.at(-1)?.id ?? '';
    const message = this.#add({ parent, role: 'user', content, ...(attached.length > 0 ? { attached } : {}) });
    if (!this.conversation.named) this.#change({ title: titleOf(content || attached[0]?.name || ''), named: true });
    this.#arrange();
    this.reply(message);
  }

  /** The result of a call, by hand. @param {Message} caller @param {string} callId @param {string} content */
  giveResult(caller, callId, content) {
    const last = this.path.at(-1) ?? caller;
    const result = this.#add({ parent: last.id, role: 'tool', callId, content });
    this.#arrange();
    const given = new Set(this.path.filter(({ role }) => role === 'tool').map((message) => message.callId));
    if (caller.toolCalls?.every(({ id }) => given.has(id))) this.reply(result);
  }

  /** Has the model, or both, answer a message. @param {Message} to */
  reply(to) {
    const { model, second } = this.conversation;
    const pair = second === '' ? {} : { pair: newId() };
    const path = this.path.slice(0, this.path.findIndex(({ id }) => id === to.id) + 1);
    const names = second === '' ? [model] : [second, model];
    for (const name of names) {
      const message = this.#add({ parent: to.id, role: 'assistant', content: '', model: name, ...pair });
      void this.#write(message, path);
    }
    this.#arrange();
  }

  /** Another answer in the place of this one. @param {Message} message */
  retry(message) {
    const parent = this.messages.get(message.parent);
    if (parent) this.reply(parent);
  }

  /** Goes on with an answer that ended too early. @param {Message} message */
  goOn(message) {
    const at = this.path.findIndex(({ id }) => id === message.id);
    delete message.error;
    delete message.finish;
    void this.#write(message, this.path.slice(0, at), true);
    this.changed();
  }

  /** Another text in the place of an answer. @param {Message} message @param {string} content */
  rewrite(message, content) {
    const { parent, role, model = '' } = message;
    this.#add({ parent, role, content, model, finish: 'stop' });
    this.#arrange();
  }

  stop() {
    for (const { id } of [...this.path, ...this.pair]) this.running.get(id)?.stop.abort();
  }

  /** Called when an answer that is being written has grown. @param {string} id @param {() => void} grown */
  watchAnswer(id, grown) {
    const watchers = this.running.get(id)?.watchers;
    watchers?.add(grown);
    return () => void watchers?.delete(grown);
  }

  /** @param {Message} message @param {Message[]} path before it @param {boolean} [continued] */
  async #write(message, path, continued = false) {
    const { conversation } = this;
    const stop = new AbortController();
    /** @type {Set<() => void>} */
    const watchers = new Set();
    const running = { stop, watchers, path: [...path, message], connecting: false };
    this.running.set(message.id, running);
    const release = hold(message.id);
    const timer = setInterval(() => this.#save(conversation, [message]), saveEveryMs);
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timerOfDraw;
    let drawn = { length: 0, ms: performance.now(), restMs: drawEveryMs };
    const grown = () => {
      timerOfDraw ??= setTimeout(() => {
        timerOfDraw = undefined;
        const ms = performance.now();
        const length = message.content.length + (message.reasoning?.length ?? 0);
        const isFast = (length - drawn.length) / (ms - drawn.ms) > fastPerMs;
        drawn = { length, ms, restMs: isFast ? drawFastEveryMs : drawEveryMs };
        for (const watcher of watchers) watcher();
      }, drawn.restMs);
    };
    try {
      await this.#ask(message, running, conversation, continued, grown);
    } catch (thrown) {
      if (stop.signal.aborted) message.finish = 'stopped';
      else message.error = sentenceOf(thrown);
    }
    clearInterval(timer);
    clearTimeout(timerOfDraw);
    release();
    this.running.delete(message.id);
    this.#save(conversation, [message]);
    for (const watcher of watchers) watcher();
    this.changed();
  }

  /**
   * The whole answer, also over a connection that breaks: behind it the model goes on where the
   * text ends. A server that was started anew is not asked by itself; its person decides.
   * @param {Message} message
   * @param {{ stop: AbortController, watchers: Set<() => void>, path: Message[], connecting: boolean }} running
   * @param {Conversation} conversation @param {boolean} continued @param {() => void} grown
   */
  async #ask(message, running, conversation, continued, grown) {
    const { signal } = running.stop;
    const server = serverId(signal).catch(() => undefined);
    const path = running.path.slice(0, -1);
    /** @param {boolean} connecting */
    const tell = (connecting) => {
      running.connecting = connecting;
      for (const watcher of running.watchers) watcher();
    };
    for (let isFirst = true; ; isFirst = false) {
      const body = bodyOf(conversation, continued ? running.path : path, message.model ?? '');
      if (continued) body['continue_final_message'] = true;
      const watch = new Watch();
      try {
        return await answer(body, message, grown, AbortSignal.any([signal, watch.signal]), () => {
          watch.heard();
          if (running.connecting) tell(false);
        });
      } catch (thrown) {
        const broke = watch.signal.aborted ? cutOff() : thrown;
        // Who was never reached is not waited for.
        if (signal.aborted || !isCut(broke) || (isFirst && /** @type {ServerError} */ (broke).code === 'unreachable')) throw broke;
      } finally {
        watch.close();
      }
      tell(true);
      const before = await server;
      const now = await serverIsBack(signal);
      if (before !== undefined && now !== undefined && before !== now) throw new ServerError('The server was started anew while it wrote this answer, and has forgotten it.', 'restarted');
      continued = restartOf(message, conversation);
    }
  }

  /** @param {string} id */
  async remove(id) {
    this.#gone.add(id);
    for (const { stop, path } of this.running.values()) if (path.at(-1)?.conversation === id) stop.abort();
    this.list = this.list.filter((one) => one.id !== id);
    await database.remove(id);
    if (this.conversation.id === id) this.begin(this.conversation.model);
    else this.changed();
  }

  /** @param {Conversation} conversation @param {Partial<Conversation>} change */
  alter(conversation, change) {
    Object.assign(conversation, change);
    this.#save(conversation, []);
    this.changed();
  }

  /** @param {Conversation} conversation @param {Message[]} messages */
  async take(conversation, messages) {
    await database.save(conversation, messages);
    await this.start();
  }
}

export const session = new Session();
