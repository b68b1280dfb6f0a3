// Requests to the server: JSON, event streams, and errors as sentences. If the server needs an API
// key, the page keeps it until the tab is closed.
import { askedSecret } from './dialog.js';
import { Emitter } from './emitter.js';
import { inTab } from './stored.js';

/** The server refused a request, the request never reached it, or the answer broke off. */
export class ServerError extends Error {
  /** @param {string} message @param {string} [code] @param {number} [status] */
  constructor(message, code = '', status = 0) {
    super(message);
    this.code = code;
    this.status = status;
  }
}

/** A slow connection sends this much. */
const slowBytesPerMs = 20;

/**
 * When a server that has not begun to answer a GET counts as unreachable. Until then the request
 * holds one of the few connections that a browser makes.
 */
const mostSilentMs = 30_000;

/** Relative to the page, since a program may mount the server under any path. @param {string} path */
export const addressOf = (path) => new URL(path.replace(/^\//, ''), document.baseURI).href.replace(/#.*$/, '');

/** All refused requests share one question. @type {Promise<boolean> | undefined} */
let asking;
/** The user closed the question. It comes up again only after they act (`askAgain`). */
let declined = false;
export const askAgain = () => { declined = false; };

/**
 * Changes when requests that failed may succeed now: the user gave a key, or the server responds
 * again.
 */
export const mayAnswer = new Emitter();
/** The last request did not reach the server. */
let isLost = false;

/** @param {string} why @returns {Promise<boolean>} whether there is a new key */
function askForKey(why) {
  return asking ??= askedKey(why).then((key) => {
    asking = undefined;
    declined = key === undefined;
    if (key === undefined) return false;
    inTab.set('apiKey', key);
    mayAnswer.changed();
    return true;
  });
}

/** @param {string} why @returns {Promise<string | undefined>} the key, as a header can carry it */
async function askedKey(why) {
  const typed = await askedSecret('API key', why, 'Use key');
  const key = typed?.replace(/[^\x21-\x7e]/g, '');
  return key === '' ? await askedKey('An API key has letters of English, digits and signs only.') : key;
}

/**
 * @param {string} path
 * @param {{ method?: string, body?: unknown, headers?: Record<string, string>, signal?: AbortSignal, mostMs?: number, quietly?: boolean }} [options]
 *   `mostMs`: for the whole reply, besides the time that a slow connection takes to send the body;
 *   `quietly`: do not ask the user for a key
 * @returns {Promise<Response>} whose status is ok
 */
export async function request(path, options = {}) {
  // The page's own questions are GETs or quiet; the user asks for the rest.
  if (!options.quietly && (options.method ?? options.body) !== undefined) askAgain();
  for (;;) {
    const key = inTab.get('apiKey');
    try {
      return await requestWith(key, path, options);
    } catch (thrown) {
      if (!(thrown instanceof ServerError) || thrown.status !== 401) throw thrown;
      // Another request may have asked for the key meanwhile.
      if (key !== inTab.get('apiKey')) continue;
      if (options.quietly || declined || !await askForKey(key === null ? 'This server needs an API key.' : thrown.message)) throw thrown;
    }
  }
}

/**
 * @param {string | null} key
 * @param {string} path
 * @param {{ method?: string, body?: unknown, headers?: Record<string, string>, signal?: AbortSignal, mostMs?: number }} options
 */
async function requestWith(key, path, { method, body, headers, signal, mostMs }) {
  let response;
  const sent = body === undefined ? undefined : JSON.stringify(body);
  const silent = new AbortController();
  const timer = method === undefined && body === undefined ? setTimeout(() => silent.abort(), mostSilentMs) : undefined;
  try {
    response = await fetch(addressOf(path), {
      method: method ?? (body === undefined ? 'GET' : 'POST'),
      ...(sent === undefined ? {} : { body: sent }),
      headers: {
        ...(key === null ? {} : { Authorization: `Bearer ${key}` }),
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
        ...headers,
      },
      signal: AbortSignal.any([silent.signal, ...(signal ? [signal] : []), ...(mostMs === undefined ? [] : [AbortSignal.timeout(mostMs + (sent ?? '').length / slowBytesPerMs)])]),
    });
  } catch (cause) {
    if (signal?.aborted) throw cause;
    isLost = true;
    throw new ServerError('Cannot reach the server. Is it still running?', 'unreachable');
  } finally {
    clearTimeout(timer);
  }
  if (isLost) {
    isLost = false;
    mayAnswer.changed();
  }
  // A whole file may have been pasted.
  if (response.status === 431 && key !== null) throw new ServerError('This API key is too long.', 'invalid_api_key', 401);
  if (!response.ok) throw await errorOf(response);
  return response;
}

/**
 * The message of an error, which is a text in Ollama's routes. That of a chat that is too long
 * would name fields of the request.
 * @param {any} error
 */
function textOf(error) {
  if (error?.code !== 'context_length_exceeded' || !error.n_prompt_tokens) return typeof error === 'string' ? error : error?.message;
  const { n_prompt_tokens: tokens, n_ctx: room, n_ctx_train: most, counted } = error;
  const wayOut = most > 0 && room >= most ? 'Shorten the message or begin a new chat: the model has no larger context.'
    : 'Shorten the message, begin a new chat, or start the server with a larger --ctx-size.';
  return `The chat would have ${counted ? 'at least ' : ''}${tokens} tokens, and the context has room for ${room}. ${wayOut}`;
}

/** @param {Response} response */
async function errorOf(response) {
  const said = await response.json().catch(() => undefined);
  const error = said?.error;
  return new ServerError(textOf(error) ?? `The server returned HTTP ${response.status}.`, error?.code ?? '', response.status);
}

/**
 * @param {string} path
 * @param {{ method?: string, body?: unknown, headers?: Record<string, string>, signal?: AbortSignal, mostMs?: number, quietly?: boolean }} [options]
 */
export async function json(path, options) {
  const response = await request(path, options);
  return await response.json().catch((cause) => {
    if (options?.signal?.aborted) throw cause;
    // Each browser words these errors differently.
    throw cause instanceof SyntaxError ? strange() : new ServerError('The connection ended before the reply was complete.', 'cut_off');
  });
}

/**
 * The complete lines of a response, as they arrive, several at a time. Throws `cut_off` if the
 * connection breaks.
 * @param {Response} response
 * @param {AbortSignal} signal of the request
 * @returns {AsyncGenerator<string[]>}
 */
async function* lines(response, signal) {
  if (!response.body) return;
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  /** Parts of an incomplete line, joined only once, as a line may have megabytes. @type {string[]} */
  let begun = [];
  for (;;) {
    const { value, done } = await reader.read().catch((cause) => {
      // Each browser words this error differently.
      if (signal.aborted) throw cause;
      throw new ServerError('The connection ended before the answer was complete.', 'cut_off');
    });
    const parts = decoder.decode(value, { stream: !done }).split('\n');
    const [first = '', ...others] = parts;
    begun.push(first);
    if (others.length > 0) {
      const complete = [begun.join(''), ...others.slice(0, -1)];
      begun = [others.at(-1) ?? ''];
      yield complete;
    }
    if (done) break;
  }
  yield [begun.join('')];
}

/** @param {string} text @returns {any} an object; throws if the server sent something else */
function objectOf(text) {
  try {
    const value = JSON.parse(text);
    if (typeof value === 'object' && value !== null) return value;
  } catch { /* Handled below. */ }
  throw strange();
}

const strange = () => new ServerError('The server sent data that this page cannot read. If the server was updated, reload the page.', 'strange_answer');

/**
 * The events of a stream. Throws if the stream ends with an error or without `[DONE]`.
 * @param {string} path @param {unknown} body @param {AbortSignal} signal
 * @returns {AsyncGenerator<any>}
 */
export async function* events(path, body, signal) {
  const response = await request(path, { body, signal });
  for await (const complete of lines(response, signal)) {
    for (const line of complete) {
      if (!line.startsWith('data: ')) continue;
      const data = line.slice('data: '.length);
      if (data === '[DONE]') return;
      const event = objectOf(data);
      if (event.error) throw new ServerError(String(textOf(event.error)), event.error.code);
      yield event;
    }
  }
  throw new ServerError('The connection ended before the answer was complete.', 'cut_off');
}

/**
 * JSON objects, one per line. Throws if one is an error.
 * @param {string} path @param {unknown} body @param {AbortSignal} signal
 * @returns {AsyncGenerator<any>}
 */
export async function* objects(path, body, signal) {
  const response = await request(path, { body, signal });
  for await (const complete of lines(response, signal)) {
    for (const line of complete) {
      if (line.trim() === '') continue;
      const object = objectOf(line);
      if (object.error) throw new ServerError(String(object.error.message ?? object.error));
      yield object;
    }
  }
}

/** @param {unknown} thrown */
export const sentenceOf = (thrown) => (thrown instanceof Error ? thrown.message : String(thrown));
