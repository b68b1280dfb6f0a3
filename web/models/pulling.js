// Downloads a model, one at a time. The server keeps the bytes of a download that ended early.
import { Emitter } from '../app/emitter.js';
import { models } from '../app/models.js';
import { notify } from '../app/notice.js';
import { objects, sentenceOf, ServerError } from '../app/server.js';

/** A download continues while other views are open. */
class Pulling extends Emitter {
  name = '';
  status = '';
  error = '';
  /** The user paused it. The bytes that arrived are kept. */
  paused = false;
  /** Bytes of each file, by digest. @type {Map<string, { total: number, completed: number }>} */
  #files = new Map();
  /** @type {AbortController | undefined} */
  #stop;

  get running() {
    return this.#stop !== undefined;
  }

  get share() {
    const files = [...this.#files.values()];
    const total = files.reduce((sum, file) => sum + file.total, 0);
    return { total, completed: files.reduce((sum, file) => sum + file.completed, 0) };
  }

  /** Whether the file with this hash is one that it tells of. @param {string} hash */
  shows(hash) {
    return this.name !== '' && [...this.#files.keys()].some((digest) => digest.endsWith(`:${hash}`));
  }

  /** @param {string} name */
  async pull(name) {
    // Two would share the numbers and the button that pauses.
    if (this.running) return notify(`${this.name} is being pulled. Pull ${name} after it, or pause it.`);
    Object.assign(this, { name, status: 'looking it up…', error: '', paused: false });
    this.#files.clear();
    const stop = (this.#stop = new AbortController());
    this.changed();
    try {
      for await (const { status, digest, total = 0, completed = 0 } of objects('api/pull', { model: name }, stop.signal)) {
        this.status = status;
        if (digest) this.#files.set(digest, { total, completed });
        this.changed();
      }
      // A proxy may end its reply properly although the server's broke off.
      if (this.status !== 'success') throw new ServerError('The connection ended before the download was complete.', 'cut_off');
      notify(`Pulled ${name}`);
      this.name = '';
    } catch (thrown) {
      this.paused = stop.signal.aborted;
      this.error = this.paused ? 'Paused. It resumes where it stopped.' : sentenceOf(thrown);
    }
    this.#stop = undefined;
    this.changed();
    void models.refresh();
  }

  cancel() {
    this.#stop?.abort();
  }

  forget() {
    Object.assign(this, { name: '', error: '', paused: false });
    this.changed();
  }
}

export const pulling = new Pulling();
