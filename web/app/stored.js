// Small things that the page remembers. A browser may forbid or be unable to keep them: then they
// last until the page is left.

class Stored {
  /** What could not be stored. @type {Map<string, string>} */
  #here = new Map();
  #storage;

  /** @param {() => Storage} storage throws if the browser forbids it */
  constructor(storage) {
    this.#storage = storage;
  }

  /** @param {string} name */
  get(name) {
    try {
      return this.#here.get(name) ?? this.#storage().getItem(name);
    } catch {
      return null;
    }
  }

  /** Returns whether it is kept longer than this page. @param {string} name @param {string} value */
  set(name, value) {
    try {
      this.#storage().setItem(name, value);
      this.#here.delete(name);
      return true;
    } catch {
      this.#here.set(name, value);
      return false;
    }
  }

  /** @param {string} name */
  remove(name) {
    this.#here.delete(name);
    try {
      this.#storage().removeItem(name);
    } catch {
      // Then it is not there.
    }
  }
}

export const inBrowser = new Stored(() => localStorage);
export const inTab = new Stored(() => sessionStorage);
