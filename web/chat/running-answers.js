// The answers being written in this tab, of all conversations.
import { staying } from '../app/leaving.js';
import { notify } from '../app/notice.js';
import { sentenceOf } from '../app/server.js';
import { isTooLong, wholeAnswer } from './asking.js';
import { hold } from './one-tab.js';

/** @typedef {import('./tree.js').Conversation} Conversation */
/** @typedef {import('./tree.js').Message} Message */
/**
 * `path` ends with the answer itself; `connecting`: the connection broke and is tried again.
 * @typedef {{ stop: AbortController, watchers: Set<() => void>, path: Message[], connecting: boolean }} Running
 */

/** How often a growing answer is saved, and so the most that a crash of the browser loses. */
const saveEveryMs = 2_000;

/** Answers being written, by message id. @extends {Map<string, Running>} */
export class RunningAnswers extends Map {
  get messages() {
    return [...this.values()].flatMap(({ path }) => path.slice(-1));
  }

  /** @param {string} conversation the conversation's id */
  messagesOf(conversation) {
    return this.messages.filter((message) => message.conversation === conversation);
  }

  /** @param {Message[]} messages */
  stop(messages) {
    for (const { id } of messages) this.get(id)?.stop.abort();
  }

  /** Calls `grown` whenever an answer grows. Returns a function that ends that. @param {string} id @param {() => void} grown */
  watch(id, grown) {
    const watchers = this.get(id)?.watchers;
    watchers?.add(grown);
    return () => void watchers?.delete(grown);
  }

  /**
   * Writes an answer until it is complete, stopped or failed, and saves it meanwhile. Returns why
   * it failed.
   * @param {Message} message @param {Message[]} before the messages before it
   * @param {Conversation} conversation
   * @param {() => Promise<void>} save
   * @param {() => void} [release] the lock of an answer that is continued
   */
  async write(message, before, conversation, save, release) {
    const stop = new AbortController();
    const free = release ?? hold(message.id);
    /** @type {Running} */
    const running = { stop, watchers: new Set(), path: [...before, message], connecting: false };
    this.set(message.id, running);
    const timer = setInterval(() => void save(), saveEveryMs);
    let failure;
    const grown = () => { for (const watcher of running.watchers) watcher(); };
    try {
      await wholeAnswer(message, running, conversation, release !== undefined, grown);
    } catch (thrown) {
      // What a reload broke off goes on after it.
      if (!stop.signal.aborted) await staying();
      if (stop.signal.aborted) message.finish = 'stopped';
      else if (release && isTooLong(thrown) && (message.content || message.reasoning)) {
        message.finish = 'length';
        notify('This answer cannot be continued: the context is full. Begin a new chat, or start the server with a larger --ctx-size.');
      } else message.error = sentenceOf(failure = thrown);
      // A call that was cut cannot be answered.
      delete message.toolCalls;
    }
    clearInterval(timer);
    this.delete(message.id);
    // Other tabs that wait read what is saved.
    void save().then(free);
    grown();
    return failure;
  }
}
