// Conversations in the browser's database (IndexedDB): one record per conversation and one per
// message. This module sends nothing anywhere; it tells the other tabs when it has changed them.

/** @typedef {import('./tree.js').Conversation} Conversation */
/** @typedef {import('./tree.js').Message} Message */

/** @template T @param {IDBRequest<T>} request @returns {Promise<T>} */
function done(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

/** Some browsers, when their own database is damaged, never answer. */
const mostOpenMs = 10_000;

/** @type {Promise<IDBDatabase> | undefined} */
let opened;

function open() {
  opened ??= (() => {
    const request = indexedDB.open('recua', 1);
    request.onupgradeneeded = () => {
      request.result.createObjectStore('conversations', { keyPath: 'id' });
      request.result.createObjectStore('messages', { keyPath: 'id' }).createIndex('conversation', 'conversation');
    };
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error('The browser does not open its database.')), mostOpenMs);
      void done(request).then(resolve, reject).finally(() => clearTimeout(timer));
    });
  })().then((/** @type {IDBDatabase} */ base) => {
    // The browser closes it when its data is removed, or its disk fails.
    base.onclose = () => { opened = undefined; };
    return base;
  }, (thrown) => {
    opened = undefined;
    throw thrown;
  });
  return opened;
}

/** @param {IDBTransactionMode} mode */
async function stores(mode) {
  const transaction = (await open()).transaction(['conversations', 'messages'], mode);
  return {
    conversations: transaction.objectStore('conversations'),
    messages: transaction.objectStore('messages'),
    /** @type {Promise<void>} */
    written: new Promise((resolve, reject) => {
      transaction.oncomplete = () => resolve();
      transaction.onerror = transaction.onabort = () => reject(transaction.error);
    }),
  };
}

/** To the other tabs of this page. */
const tabs = new BroadcastChannel('recua-chats');

/** While another tab writes an answer, it saves often. */
const lookEveryMs = 500;

/** Calls `look` after another tab has changed something, one call at a time. @param {() => Promise<void>} look */
export function watchTabs(look) {
  let news = 0;
  tabs.onmessage = async () => {
    if (++news > 1) return;
    for (let seen = 0; seen < news;) {
      seen = news;
      await look();
      await new Promise((resolve) => setTimeout(resolve, lookEveryMs));
    }
    news = 0;
  };
}

/** @returns {Promise<Conversation[]>} */
export async function allConversations() {
  return await done((await stores('readonly')).conversations.getAll());
}

/** @param {string} id @returns {Promise<Message[]>} */
export async function messagesOf(id) {
  return await done((await stores('readonly')).messages.index('conversation').getAll(id));
}

/**
 * Saves a conversation and some of its messages. `made` gets the record that is there and returns
 * the one to write; undefined: nothing is saved. Resolves to what it returned.
 * @param {string} id @param {(there: Conversation | undefined) => Conversation | undefined} made
 * @param {Message[]} messages new or changed ones
 * @param {(there: Message) => boolean} [stays] whether a message that is there is not replaced
 */
export async function save(id, made, messages, stays) {
  const to = await stores('readwrite');
  const conversation = made(await done(to.conversations.get(id)));
  if (conversation) {
    to.conversations.put(conversation);
    for (const message of messages) {
      const there = stays && await done(to.messages.get(message.id));
      if (!there || !stays(there)) to.messages.put(message);
    }
  }
  await to.written;
  tabs.postMessage(0);
  return conversation;
}

/** @param {{ conversation: Conversation, messages: Message[] }[]} chats */
export async function saveAll(chats) {
  for (const { conversation, messages } of chats) await save(conversation.id, () => conversation, messages);
}

/** Removes all or none. @param {string[]} ids */
export async function removeMessages(ids) {
  const from = await stores('readwrite');
  for (const id of ids) from.messages.delete(id);
  await from.written;
  tabs.postMessage(0);
}

/** @param {string} id */
export async function remove(id) {
  const from = await stores('readwrite');
  from.conversations.delete(id);
  for (const key of await done(from.messages.index('conversation').getAllKeys(id))) from.messages.delete(key);
  await from.written;
  tabs.postMessage(0);
}

/** Ids of the conversations with a message or an attached file that contains the text, in any case. @param {string} text */
export async function conversationsSaying(text) {
  const wanted = text.toLowerCase();
  /** @type {Set<string>} */
  const found = new Set();
  const request = (await stores('readonly')).messages.openCursor();
  await new Promise((resolve, reject) => {
    request.onerror = () => reject(request.error);
    request.onsuccess = () => {
      const cursor = request.result;
      if (!cursor) return resolve(undefined);
      const { conversation, content, attached = [] } = /** @type {Message} */ (cursor.value);
      const says = () =>
        [content, ...attached.flatMap(({ name, text }) => [name, text])].some((text) => text.toLowerCase().includes(wanted));
      if (!found.has(conversation) && says()) found.add(conversation);
      cursor.continue();
    };
  });
  return found;
}
