// Converts a conversation to the file format of `recua chat` and back. The file holds the branch
// that is shown; other branches stay in the browser. Fields of a file that the page does not know
// are kept. Pure.
import { childrenOf, idOf, shownOf, wireMessage } from './tree.js';

/** @typedef {import('./tree.js').Conversation} Conversation */
/** @typedef {import('./tree.js').Message} Message */

/** Settings that the file also has. */
const sampled = ['max_tokens', 'temperature', 'top_p', 'top_k', 'min_p', 'repeat_penalty'];

/** @param {Message} message its text as the model reads it, files included */
const textOf = (message) => wireMessage(message).content;

/**
 * The session to write. Undefined if a file of `recua chat` cannot hold the branch: it has tool
 * calls, or a message before the last has no answer.
 * @param {Conversation} conversation
 * @param {Message[]} path
 * @returns {{ session: Record<string, any>, written: Message[] } | undefined}
 */
export function sessionOf({ saved, settings, model }, path) {
  const written = path.filter(({ role, content, toolCalls }) => role !== 'assistant' || content !== '' || toolCalls?.length);
  const fits = written.every(({ role, toolCalls }, at) => role === (at % 2 === 0 ? 'user' : 'assistant') && !toolCalls?.length);
  if (!fits) return undefined;
  const sampling = { ...saved?.document['sampling'] };
  // The server fills in those that are cleared.
  for (const name of sampled) sampling[name] = settings[name];
  const messages = written.map((message, at) => messageOf(message, at === written.length - 1));
  return {
    written,
    session: {
      ...saved?.document, model: saved && model === saved.model ? saved.document['model'] : model,
      system: settings['system'] ?? '', sampling, messages,
    },
  };
}

/** The longest name of a file of `recua chat`, and some room for a number. */
const mostNameBytes = 90;

/**
 * A name for the file of a chat with this title, other than `taken`; '' if nothing of the title can
 * be in a name.
 * @param {string} title @param {Set<string>} taken
 */
export function fileNameOf(title, taken) {
  const plain = title.replace(/[^\p{L}\p{N}\p{M} ._-]+/gu, ' ').replace(/ +/g, ' ').replace(/^[^\p{L}\p{N}]+/u, '');
  let name = '';
  for (const letter of plain) {
    if (new TextEncoder().encode(name + letter).length > mostNameBytes) break;
    name += letter;
  }
  name = name.replace(/(\.json)?[. ]*$/, '');
  for (let number = 1; name !== ''; number++) {
    const numbered = number === 1 ? name : `${name} ${number}`;
    if (!taken.has(numbered)) return numbered;
  }
  return '';
}

/** @param {Message} message @param {boolean} isLast */
function messageOf(message, isLast) {
  const { role, reasoning, stats, finish, error, createdMs, saved } = message;
  const content = textOf(message);
  if (role === 'user') {
    const others = { ...saved };
    delete others['unanswered'];
    return { sent_at: new Date(createdMs).toISOString(), ...others, role, content, ...(isLast ? { unanswered: true } : {}) };
  }
  if (saved && saved['content'] === content) return saved;
  return {
    role, content,
    ...(reasoning ? { reasoning } : {}),
    ended: finish === 'stop' || finish === 'length' || finish === 'stopped' ? finish : error ? 'failed' : 'stopped',
    ...(stats ? {
      usage: { prompt_tokens: stats.promptTokens, cached_tokens: stats.cachedTokens, completion_tokens: stats.tokens },
      timings: { queue_ms: 0, prompt_ms: stats.firstMs, generate_ms: stats.perSecond > 0 ? stats.tokens / stats.perSecond * 1_000 : 0 },
    } : {}),
  };
}

/**
 * Merges a file into a conversation of the page. The file's branch becomes the one that is shown.
 * Messages that the page already has keep their ids and their branches.
 * @param {Record<string, any>} session
 * @param {Conversation} conversation
 * @param {Message[]} messages
 * @returns {{ chosen: Record<string, string>, settings: Record<string, any>, changed: Message[] }}
 */
export function merged(session, conversation, messages) {
  const children = childrenOf(messages);
  /** @type {Message[]} */
  const changed = [];
  const chosen = { ...conversation.chosen };
  let parent = '';
  let lastMs = 0;
  for (const saved of session['messages']) {
    const beside = children.get(parent) ?? [];
    const same = beside.filter((one) => one.role === saved.role && textOf(one) === saved.content);
    const known = same.find(({ id }) => id === chosen[parent]) ?? same[0];
    const message = known
      ? { ...known, saved }
      : newMessage(saved, conversation.id, parent, Math.max(lastMs, ...beside.map(({ createdMs }) => createdMs)) + 1);
    changed.push(message);
    chosen[parent] = message.id;
    parent = message.id;
    lastMs = message.createdMs;
  }
  // Show nothing after the file's last message but what could not be written to it, such as an
  // answer that was still being written when the file changed.
  const shown = shownOf(children.get(parent) ?? [], chosen[parent]);
  if (!shown || shown.saved) chosen[parent] = '';
  const { sampling = {}, system } = session;
  const settings = {
    ...conversation.settings,
    ...Object.fromEntries(sampled.filter((name) => sampling[name] !== undefined).map((name) => [name, sampling[name]])),
  };
  if (system) settings['system'] = system;
  else delete settings['system'];
  return { chosen, settings, changed };
}

/**
 * @param {Record<string, any>} saved @param {string} conversation @param {string} parent
 * @param {number} leastMs
 * @returns {Message}
 */
function newMessage(saved, conversation, parent, leastMs) {
  const sentMs = Date.parse(saved['sent_at']);
  const { usage, timings, reasoning, ended } = saved;
  const seconds = (timings?.generate_ms ?? 0) / 1_000;
  return {
    // Two tabs may read the file at the same time.
    id: idOf(JSON.stringify([conversation, parent, saved])), conversation, parent, role: saved['role'], content: saved['content'], saved,
    createdMs: Math.max(leastMs, Number.isNaN(sentMs) ? 0 : sentMs),
    ...(reasoning ? { reasoning } : {}),
    ...(saved['role'] === 'assistant' ? { finish: ended } : {}),
    ...(usage ? {
      stats: {
        promptTokens: usage.prompt_tokens, cachedTokens: usage.cached_tokens, tokens: usage.completion_tokens,
        perSecond: seconds > 0 ? usage.completion_tokens / seconds : 0, firstMs: (timings?.queue_ms ?? 0) + (timings?.prompt_ms ?? 0),
      },
    } : {}),
  };
}
