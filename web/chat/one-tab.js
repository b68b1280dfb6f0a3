// Which of several tabs writes an answer: the one that holds its lock.

/** Other tabs see that this one writes the answer. Returns what ends that. @param {string} id */
export function hold(id) {
  /** @type {() => void} */
  let release = () => undefined;
  const held = new Promise((resolve) => { release = () => resolve(undefined); });
  // Over plain HTTP from another machine a browser has no locks.
  void navigator.locks?.request(`answer-${id}`, () => held);
  return release;
}

/** @param {string} id @returns {Promise<boolean>} false, too, where nobody can tell */
export const isFree = async (id) => navigator.locks ? await navigator.locks.request(`answer-${id}`, { ifAvailable: true }, (lock) => lock !== null) : false;
