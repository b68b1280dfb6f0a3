// Only one of several tabs writes an answer: the one that holds its lock.

/** Answers whose locks this tab holds. @type {Set<string>} */
const here = new Set();

/** @param {string} id */
export const isHeldHere = (id) => here.has(id);

/** Keeps the lock of an answer until `release` is called. @param {string} id */
function kept(id) {
  here.add(id);
  /** @type {() => void} */
  let end = () => undefined;
  const released = new Promise((resolve) => { end = () => resolve(undefined); });
  const release = () => {
    here.delete(id);
    end();
  };
  return { released, release };
}

/** Takes the lock of an answer. Returns a function that releases it. @param {string} id */
export function hold(id) {
  const { released, release } = kept(id);
  // Browsers offer no locks to a page that came over plain HTTP from another machine.
  void navigator.locks?.request(`answer-${id}`, () => released);
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
    void navigator.locks.request(`answer-${id}`, { ifAvailable: true }, (lock) => {
      if (!lock) return resolve(undefined);
      const { released, release } = kept(id);
      resolve(release);
      return released;
    });
  });
}

/** Resolves when no tab writes the answer; at once without locks. @param {string} id */
export async function untilFree(id) {
  await navigator.locks?.request(`answer-${id}`, () => undefined);
}
