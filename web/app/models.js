// The server's models, as all views see them: asked again while somebody looks, oftener where
// something changes.
import { useEffect } from './html.js';
import { Emitter, useEmitter } from './emitter.js';
import { json, sentenceOf } from './server.js';

/**
 * @typedef {object} Model
 * @property {string} id
 * @property {{ value: string, fraction?: number, running?: number, waiting?: number, tokens_per_second?: number,
 *   reason?: { message: string } }} status
 * @property {number} [memory_bytes]
 * @property {boolean} [pinned]
 * @property {string[]} [aliases]
 * @property {boolean} [fixed] a program serves it for good
 * @property {number | null} [expires_at]
 * @property {number} [context_length]
 * @property {string[]} [capabilities]
 * @property {Record<string, any>} [meta]
 */

class Models extends Emitter {
  /** @type {Model[]} */
  list = [];
  /** Of the last time of asking; '' where it was answered. */
  error = '';
  asked = false;

  async refresh() {
    try {
      this.list = (await json('v1/models')).data;
      this.error = '';
    } catch (thrown) {
      this.error = sentenceOf(thrown);
    }
    this.asked = true;
    this.changed();
  }

  /** @param {string} id */
  find(id) {
    return this.list.find((model) => model.id === id);
  }

  /** Those that a chat can be with: what is not loaded may turn out to be one. */
  get chatting() {
    return this.list.filter(({ capabilities }) => !capabilities || capabilities.includes('completion'));
  }
}

export const models = new Models();

/**
 * The models, asked again every so often while the component is shown and the page is visible.
 * @param {number} everyMs
 */
export function useModels(everyMs) {
  useEffect(() => {
    const ask = () => {
      if (!document.hidden) void models.refresh();
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
