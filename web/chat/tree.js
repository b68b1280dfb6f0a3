// A conversation as a tree: a message may have several replies, one of which is shown. Pure.

/**
 * @typedef {object} Stats
 * @property {number} promptTokens
 * @property {number} cachedTokens
 * @property {number} tokens
 * @property {number} perSecond
 * @property {number} firstMs to the first token
 * @property {number} [reasoningTokens]
 */

/**
 * @typedef {{ id: string, name: string, arguments: string }} ToolCall
 * @typedef {{ name: string, text: string }} Attached
 */

/**
 * @typedef {object} Message
 * @property {string} id
 * @property {string} conversation
 * @property {string} parent id of the message before; '' for the first
 * @property {'user' | 'assistant' | 'tool'} role
 * @property {string} content
 * @property {string} [reasoning]
 * @property {ToolCall[]} [toolCalls]
 * @property {string} [callId] of the call that a tool's message answers
 * @property {Attached[]} [attached]
 * @property {string} [model]
 * @property {string} [pair] shared by two answers shown side by side
 * @property {boolean} [json] it follows a JSON schema
 * @property {Stats} [stats]
 * @property {string} [finish]
 * @property {string} [error]
 * @property {number} [continued] how often *Continue* took back its end
 * @property {number} [tokensBefore] its tokens from which *Max tokens* counts, as after *Continue*
 * @property {Record<string, any>} [saved] the message in the server's file
 * @property {number} createdMs
 */

/**
 * @typedef {object} Conversation
 * @property {string} id
 * @property {string} title
 * @property {boolean} named the title is set: by the first message, the user or the server
 * @property {boolean} pinned
 * @property {number} createdMs
 * @property {number} changedMs
 * @property {string} model
 * @property {string} second the second of two models side by side; '' without one
 * @property {Record<string, any>} settings values that differ from the server's defaults
 * @property {Record<string, string>} chosen by message id: the reply that is shown; '' for none
 * @property {{ name: string, etag: string, document: Record<string, any>, model: string }} [saved] if it is on
 *   the server: its file without the messages, and the server's name for the model in it
 */

/** @param {Uint32Array} words */
const asText = (words) => words.reduce((id, part) => id + part.toString(36).padStart(7, '0'), '');

export const newId = () => asText(crypto.getRandomValues(new Uint32Array(4)));

/**
 * The same id for the same text, also in another tab. Browsers offer no crypto.subtle to a page
 * that came over plain HTTP from another machine.
 * @param {string} text
 */
export function idOf(text) {
  const factors = [0x9e3779b1, 0x85ebca77, 0xc2b2ae3d, 0x27d4eb2f];
  const words = Uint32Array.from(factors);
  for (let at = 0; at < text.length; at++) {
    for (const [lane, factor] of factors.entries()) {
      const mixed = Math.imul((words[lane] ?? 0) ^ text.charCodeAt(at), factor);
      words[lane] = mixed ^ (mixed >>> 15);
    }
  }
  return asText(words);
}

/** Takes back the end of an answer, so that it can go on. A call that was cut begins again. @param {Message} answer */
export function reopen(answer) {
  if (answer.finish || answer.error) answer.continued = (answer.continued ?? 0) + 1;
  // A call that was cut is written anew.
  if (answer.finish || answer.error || answer.toolCalls) answer.tokensBefore = answer.stats?.tokens ?? 0;
  delete answer.finish;
  delete answer.error;
  delete answer.toolCalls;
}

/** Whether the saved copy of a message is ahead of the one here. @param {Message} saved @param {Message | undefined} here */
export function isAhead(saved, here) {
  if (!here) return true;
  const continued = (saved.continued ?? 0) - (here.continued ?? 0);
  if (continued !== 0) return continued > 0;
  // Another tab wrote the answer, too, and ended it first: what its user has read stays.
  if (saved.finish && here.finish) return saved.content !== here.content;
  const [ended, endedHere] = [saved, here].map(({ finish, error }) => Boolean(finish ?? error));
  return ended === endedHere ? sizeOf(saved) > sizeOf(here) : Boolean(ended);
}

/** Characters of a message. @param {Message} message */
export const sizeOf = ({ content, reasoning = '', toolCalls = [] }) => content.length + reasoning.length + toolCalls.reduce((sum, call) => sum + call.arguments.length, 0);

/** @param {Message[]} messages */
export const byId = (messages) => new Map(messages.map((message) => [message.id, message]));

/** All messages of two places, each as it is where it is ahead. @param {Message[]} there @param {Map<string, Message>} here */
export function furthest(there, here) {
  return [...new Map([...here, ...byId(there.filter((message) => isAhead(message, here.get(message.id))))]).values()];
}

/** @param {string} model @returns {Conversation} */
export function newConversation(model) {
  const nowMs = Date.now();
  return { id: newId(), title: 'New chat', named: false, pinned: false, createdMs: nowMs, changedMs: nowMs, model, second: '', settings: {}, chosen: {} };
}

/** @param {Iterable<Message>} messages @returns {Map<string, Message[]>} the replies to each message, oldest first */
export function childrenOf(messages) {
  /** @type {Map<string, Message[]>} */
  const children = new Map();
  for (const message of messages) {
    const known = children.get(message.parent);
    if (known) known.push(message);
    else children.set(message.parent, [message]);
  }
  for (const list of children.values()) list.sort((a, b) => a.createdMs - b.createdMs || (a.id < b.id ? -1 : 1));
  return children;
}

/**
 * The reply that is shown, of all those to a message.
 * @param {Message[]} replies @param {string | undefined} chosen the id of one; '' for none
 */
export const shownOf = (replies, chosen) => replies.find(({ id }) => id === chosen) ?? (chosen === '' ? undefined : replies.at(-1));

/**
 * The messages that are shown, first to last.
 * @param {Map<string, Message[]>} children
 * @param {Record<string, string>} chosen
 */
export function pathOf(children, chosen) {
  /** @type {Message[]} */
  const path = [];
  for (let at = ''; ;) {
    const next = shownOf(children.get(at) ?? [], chosen[at]);
    if (!next) return path;
    path.push(next);
    at = next.id;
  }
}

/**
 * A message after those before it, whatever is shown.
 * @param {Message} last @param {Map<string, Message>} messages by id
 */
export function pathTo(last, messages) {
  const path = [last];
  for (let before = messages.get(last.parent); before; before = messages.get(before.parent)) path.unshift(before);
  return path;
}

/**
 * The messages of a request: the path up to a message, in the API's format.
 * @param {Message[]} path
 * @param {string} system
 */
export function wireMessages(path, system) {
  return [
    ...(system.trim() === '' ? [] : [{ role: 'system', content: system }]),
    ...path.filter(({ error, content, toolCalls }) => !(error && !content && !toolCalls?.length)).map(wireMessage),
  ];
}

/**
 * The results of an answer's tool calls. Models may use the same ids again in later turns.
 * @param {Message} caller @param {Message[]} path
 */
export function resultsOf(caller, path) {
  const after = path.slice(path.indexOf(caller) + 1);
  const end = after.findIndex(({ role }) => role !== 'tool');
  return end < 0 ? after : after.slice(0, end);
}

/** Whether a result of the last tool calls is missing. @param {Message[]} path */
export function lacksResults(path) {
  const caller = path.findLast(({ role }) => role === 'assistant');
  if (!caller) return false;
  const given = new Set(resultsOf(caller, path).map(({ callId }) => callId));
  return caller.toolCalls?.some(({ id }) => !given.has(id)) ?? false;
}

/** @param {Message} message */
export function wireMessage({ role, content, reasoning, toolCalls, callId, attached }) {
  if (role === 'tool') return { role, tool_call_id: callId, content };
  if (role === 'user') return { role, content: [...(attached ?? []).map(fileText), content].filter(Boolean).join('\n\n') };
  return {
    role, content,
    ...(reasoning ? { reasoning_content: reasoning } : {}),
    ...(toolCalls?.length ? { tool_calls: toolCalls.map(({ id, name, arguments: text }) => ({ id, type: 'function', function: { name, arguments: text } })) } : {}),
  };
}

/** A file as text of a message, in a fence longer than any in the file. @param {Attached} file */
export function fileText({ name, text }) {
  let longest = 2;
  for (const [ticks] of text.matchAll(/`{3,}/g)) longest = Math.max(longest, ticks.length);
  const fence = '`'.repeat(longest + 1);
  return `File ${name}:\n${fence}\n${text}\n${fence}`;
}

/** The first line, without the marks of Markdown. @param {string} text */
export function titleOf(text) {
  const line = (text.trim().split('\n', 1)[0] ?? '').replace(/^#+ |\*\*|`/g, '');
  return line.length > 60 ? `${line.slice(0, 57).replace(/[\ud800-\udbff]$/, '').trimEnd()}…` : line || 'New chat';
}
