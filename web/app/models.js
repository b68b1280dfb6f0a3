// The server's models, shared by all views. The list is refreshed while the page is visible, more
// often in views where it changes.
import { html, useEffect } from './html.js';
import { Emitter, useEmitter } from './emitter.js';
import { askAgain, json, sentenceOf, ServerError } from './server.js';

/**
 * @typedef {object} Model
 * @property {string} id
 * @property {number} created when its file was made
 * @property {{ value: string, fraction?: number, running?: number, waiting?: number, tokens_per_second?: number,
 *   reason?: { message: string } }} status
 * @property {number} [memory_bytes]
 * @property {number} [file_bytes]
 * @property {boolean} [pinned]
 * @property {string[]} [aliases]
 * @property {boolean} [fixed] a program serves it and never unloads it
 * @property {number | null} [expires_at]
 * @property {number} [context_length]
 * @property {string[]} [capabilities]
 * @property {Record<string, any>} [meta]
 */

/** For the whole list. The next refresh waits for the one before. */
const mostMs = 60_000;

class Models extends Emitter {
  /** @type {Model[]} */
  list = [];
  /** The error of the last refresh; '' if it succeeded. */
  error = '';
  /** Whether it was refused for want of an API key. */
  lacksKey = false;
  asked = false;
  /** Requests that the server has not answered yet. */
  #open = 0;

  /** Refreshes it, unless that is still under way. */
  async poll() {
    if (this.#open === 0) await this.refresh();
  }

  async refresh() {
    this.#open++;
    try {
      this.list = (await json('v1/models', { mostMs })).data;
      this.error = '';
      this.lacksKey = false;
    } catch (thrown) {
      this.error = sentenceOf(thrown);
      this.lacksKey = thrown instanceof ServerError && thrown.status === 401;
    }
    this.#open--;
    this.asked = true;
    this.changed();
  }

  /** @param {string} id */
  find(id) {
    return this.list.find((model) => model.id === id);
  }

  /** Models that can chat. An unloaded model of unknown capabilities counts, since it may. */
  get chatting() {
    return this.list.filter(({ capabilities }) => !capabilities || capabilities.includes('completion'));
  }
}

export const models = new Models();

/**
 * The models, refreshed every `everyMs` while the component is mounted and the page is visible.
 * @param {number} everyMs
 */
export function useModels(everyMs) {
  useEffect(() => {
    const ask = () => {
      if (!document.hidden) void models.poll();
    };
    ask();
    const timer = setInterval(ask, everyMs);
    document.addEventListener('visibilitychange', ask);
    return () => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', ask);
    };
  }, [everyMs]);
  return useEmitter(models);
}

/** Why the models cannot be listed. */
export function ModelsError() {
  const { error, lacksKey } = useEmitter(models);
  const enter = () => {
    askAgain();
    void models.refresh();
  };
  return error && html`<p class="error" role="alert">${error}${lacksKey && html` <button type="button" onClick=${enter}>Enter API key</button>`}</p>`;
}
