// A conversation with its messages in memory: the tree, the branch that is shown, and new messages.
// It may be left for another while a message of it is being sent.
import { isHeldElsewhere } from './one-tab.js';
import { byId, childrenOf, newId, pathOf } from './tree.js';

/** @typedef {import('./tree.js').Conversation} Conversation */
/** @typedef {import('./tree.js').Message} Message */

/** An answer that was cut longer ago continues only when the user asks. */
const resumeWithinMs = 3_600_000;
/** A database that hangs is not waited for longer. */
const mostRemoveMs = 5_000;

export class OpenChat {
  /** @param {Conversation} conversation @param {Message[]} messages */
  constructor(conversation, messages) {
    this.conversation = conversation;
    /** By id. @type {Map<string, Message>} */
    this.messages = byId(messages);
    /** The replies to each message, by its id. @type {Map<string, Message[]>} */
    this.children = new Map();
    /** The messages that are shown, first to last. @type {Message[]} */
    this.path = [];
    this.isTakingBack = false;
    this.arrange();
  }

  /** After a change of the messages, or of which are shown. */
  arrange() {
    this.children = childrenOf(this.messages.values());
    this.path = pathOf(this.children, this.conversation.chosen);
  }

  /**
   * Takes over what is new in saved messages, and drops what is gone from them. Returns whether
   * that is anything.
   * @param {Message[]} saved @param {string[]} before the ids of those here when they were read
   * @param {(message: Message) => boolean} isGrowing whether it is being written here
   */
  takeNews(saved, before, isGrowing) {
    const news = saved.filter((message) => {
      const { id, content, reasoning, finish, error } = message;
      const here = this.messages.get(id);
      if (!here) return true;
      // A complete answer that could not be saved is ahead of its saved copy.
      return (
        !isGrowing(here) &&
        (finish || error || !here.finish) &&
        (content !== here.content || reasoning !== here.reasoning || finish !== here.finish || error !== here.error)
      );
    });
    const kept = new Set(saved.map(({ id }) => id));
    const gone = before.filter((id) => !kept.has(id));
    for (const id of gone) this.messages.delete(id);
    for (const message of news) this.messages.set(message.id, message);
    return news.length + gone.length > 0;
  }

  /** The two answers shown side by side at the end, or none. */
  get pair() {
    const last = this.path.at(-1);
    return last?.pair ? this.siblings(last).filter(({ pair }) => pair === last.pair) : [];
  }

  get shown() {
    return [...this.path, ...this.pair];
  }

  /** The answers at the end, one or two, that lack their end and did not fail. */
  get cut() {
    const ends = this.pair.length > 0 ? this.pair : this.path.slice(-1);
    return ends.filter(({ role, finish, error, createdMs }) => role === 'assistant' && !finish && !error && Date.now() - createdMs <= resumeWithinMs);
  }

  /** Whether another tab writes what is shown. Its end may come before the lock is free. */
  get isWrittenElsewhere() {
    return this.path.some(({ id, finish, error }) => !finish && !error && isHeldElsewhere(id));
  }

  /** All versions of a message, itself included. @param {Message} message */
  siblings(message) {
    return this.children.get(message.parent) ?? [message];
  }

  /** Whether a user's message has no other version, and no answer with text. @param {Message} message */
  isInVain(message) {
    const answers = this.children.get(message.id) ?? [];
    return message.role === 'user' && this.siblings(message).length === 1 && answers.every(({ content, error }) => !content && error);
  }

  /**
   * The other of two answers to a message, if the one that is shown failed without a word.
   * @param {Message} message
   */
  wholeBesideFailed({ id }) {
    const shown = this.path.find(({ parent }) => parent === id);
    if (!shown?.pair || !shown.error || shown.content) return undefined;
    return this.siblings(shown).find(({ pair, error }) => pair === shown.pair && !error);
  }

  /** Shows this version. @param {Message} message */
  choose({ parent, id }) {
    this.conversation.chosen = { ...this.conversation.chosen, [parent]: id };
  }

  /**
   * Takes messages out, once they are no longer saved. Nothing may be added after them meanwhile.
   * @param {Message[]} messages @param {Promise<void>} removed
   */
  async takeBack(messages, removed) {
    this.isTakingBack = true;
    await Promise.race([removed.catch(() => undefined), new Promise((resolve) => setTimeout(resolve, mostRemoveMs))]);
    this.isTakingBack = false;
    for (const { id } of messages) this.messages.delete(id);
    this.arrange();
  }

  /**
   * Adds a message and shows it. It is newer than its siblings, even if the clock was set back.
   * @param {Omit<Message, 'id' | 'conversation' | 'createdMs'>} said @returns {Message}
   */
  add(said) {
    const siblings = this.children.get(said.parent) ?? [];
    const last = Math.max(0, ...siblings.map(({ createdMs }) => createdMs));
    const message = { ...said, id: newId(), conversation: this.conversation.id, createdMs: Math.max(Date.now(), last + 1) };
    this.messages.set(message.id, message);
    this.choose(message);
    this.arrange();
    return message;
  }
}
