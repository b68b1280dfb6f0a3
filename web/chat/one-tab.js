// Only one of several tabs writes an answer: the one that holds its lock.

/** Takes the lock of an answer. Returns a function that releases it. @param {string} id */
export function hold(id) {
  /** @type {() => void} */
  let release = () => undefined;
  const held = new Promise((resolve) => { release = () => resolve(undefined); });
  // Browsers offer no locks to a page that came over plain HTTP from another machine.
  void navigator.locks?.request(`answer-${id}`, () => held);
  return release;
}

/**
 * Takes the lock of an answer that another tab may be writing. Returns a function that releases it,
 * or undefined if it is taken.
 * @param {string} id @returns {Promise<(() => void) | undefined>}
 */
export async function tryHold(id) {
  if (!navigator.locks) return () => undefined;
  return await new Promise((resolve) => {
    void navigator.locks.request(`answer-${id}`, { ifAvailable: true }, (lock) => (lock ? new Promise((end) => resolve(() => end(undefined))) : resolve(undefined)));
  });
}

/** Resolves when no tab writes the answer; at once without locks. @param {string} id */
export async function untilFree(id) {
  await navigator.locks?.request(`answer-${id}`, () => undefined);
}
