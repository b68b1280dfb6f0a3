// What only one of several tabs does at a time: the one that holds the lock. Browsers offer no
// locks to a page that came over plain HTTP from another machine; there the tabs ask each other who
// writes an answer.

/** In this time other tabs reply. */
const replyMs = 1_000;
/** In this time a tab that is loaded again takes its lock back. */
const giveWayMs = 2_000;

/** @param {number} ms */
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** @template T @param {string} name @param {() => Promise<T>} work @returns {Promise<T>} */
export async function alone(name, work) {
  return navigator.locks ? await navigator.locks.request(name, work) : await work();
}

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
  void navigator.locks?.request(`answer-${id}`, () => released);
  return release;
}

const tabs = new BroadcastChannel('recua-answers');
/** @type {Set<string>} */
const told = new Set();
tabs.onmessage = (/** @type {MessageEvent<string>} */ { data }) => {
  if (here.has(data)) tabs.postMessage(`${data} here`);
  else told.add(data);
};

/** Asks whether another tab holds an answer. @param {string} id */
async function isHeldByOther(id) {
  const yes = `${id} here`;
  told.delete(yes);
  tabs.postMessage(id);
  await pause(replyMs);
  return told.has(yes);
}

/** Resolves when nobody holds the lock of an answer. @param {string} id @returns {Promise<void>} */
async function unlocked(id) {
  if (navigator.locks) await navigator.locks.request(`answer-${id}`, () => undefined);
  else while (await isHeldByOther(id));
}

/**
 * Takes the lock of an answer that another tab may be writing. Returns a function that releases it,
 * or undefined if it is taken.
 * @param {string} id @returns {Promise<(() => void) | undefined>}
 */
async function tryHold(id) {
  if (!navigator.locks) {
    if (here.has(id)) return undefined;
    const { release } = kept(id);
    if (!await isHeldByOther(id)) return release;
    release();
    return undefined;
  }
  return await new Promise((resolve) => {
    void navigator.locks.request(`answer-${id}`, { ifAvailable: true }, (lock) => {
      if (!lock) return resolve(undefined);
      const { released, release } = kept(id);
      resolve(release);
      return released;
    });
  });
}

/** Answers that another tab writes, as far as this one has asked. @type {Set<string>} */
const elsewhere = new Set();
/** Answers whose locks this tab waits for. @type {Set<string>} */
const awaited = new Set();

/** @param {string} id */
export const isHeldElsewhere = (id) => elsewhere.has(id);

/** @param {string} id */
export const isAwaited = (id) => awaited.has(id);

/** Learns which of these answers another tab writes, if the browser tells. @param {string[]} ids */
export async function learn(ids) {
  if (!navigator.locks) return;
  const { held = [] } = await navigator.locks.query();
  const isHeld = (/** @type {string} */ id) => held.some(({ name }) => name === `answer-${id}`);
  for (const id of ids) if (!here.has(id) && isHeld(id)) elsewhere.add(id);
  // Of a chat that was read in passing.
  for (const id of elsewhere) if (!awaited.has(id) && !isHeld(id)) elsewhere.delete(id);
}

/**
 * Takes the lock of an answer, also after this tab has held it to the end. Returns a function that
 * releases it, or undefined if it is taken.
 * @param {string} id @param {() => boolean} isOver whether the answer's end is only being saved here
 */
export async function holdOnce(id, isOver) {
  awaited.add(id);
  try {
    let release = await tryHold(id);
    while (!release && here.has(id) && isOver()) {
      await unlocked(id);
      release = await tryHold(id);
    }
    return release;
  } finally {
    awaited.delete(id);
  }
}

/**
 * Takes the lock of an answer once no other tab writes it and this tab is visible. Returns a
 * function that releases it, or undefined if it is not wanted any more.
 * @param {string} id
 * @param {() => Promise<boolean>} isWanted asked whenever another tab has released the lock
 */
export async function holdNext(id, isWanted) {
  awaited.add(id);
  // Without locks the reply takes a while.
  if (!navigator.locks) elsewhere.add(id);
  try {
    for (;;) {
      const release = await tryHold(id);
      if (release) return release;
      elsewhere.add(id);
      await unlocked(id);
      if (!await isWanted()) return undefined;
      await pause(giveWayMs);
      while (document.hidden) await new Promise((resolve) => document.addEventListener('visibilitychange', resolve, { once: true }));
    }
  } finally {
    elsewhere.delete(id);
    awaited.delete(id);
  }
}
