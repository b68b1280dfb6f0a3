// A running server over HTTP, for commands that ask one. What the server refuses comes as its own
// error, and where nobody answers, the error says who was asked and what to do.
import type { RequestInit, Response } from 'node-fetch';
import { resolve } from 'node:path';
import { RecuaError } from '../../errors.js';
import { readError } from '../../server/openai/asking.js';
import { socketPath } from '../../settings/address.js';
import { misuse } from '../flags/flags.js';
import { wayTo } from './connection.js';
import type { Address } from './connection.js';

/** Codes of certificates that are refused. */
const untrusted = /CERT|UNABLE_TO_/;
/** What only reads is answered at once, or the server is stuck. */
const answerMs = 10_000;

export class ServerClient {
  /** Without a slash at its end. */
  readonly url: string;
  readonly #way: ReturnType<typeof wayTo>;
  readonly #headers: Readonly<Record<string, string>>;

  /**
   * Takes what people have at hand: `127.0.0.1:8080`, an OpenAI client's base URL or the path of a
   * socket will do; a server that asks for an API key gets this one. Throws
   * `invalid_usage` for what is no address.
   */
  constructor({ url, key = '', certificate }: Address) {
    this.url = readAddress(url);
    this.#way = wayTo({ url: this.url, certificate });
    // A server may have several, with commas between them: the first will do.
    const [first = ''] = key.split(',');
    this.#headers = first === '' ? {} : { Authorization: `Bearer ${first.trim()}` };
  }

  /** Throws `server_unreachable` where the answer takes too long, too. */
  async getJson(path: string, withinMs = answerMs): Promise<unknown> {
    const timeout = AbortSignal.timeout(withinMs);
    try {
      return await this.#json('GET', path, await this.#send(path, { method: 'GET', signal: timeout }));
    } catch (thrown) {
      throw timeout.aborted ? unreachable(this.url, `did not answer within ${withinMs / 1000} seconds`, thrown) : thrown;
    }
  }

  /** Waits as long as the answer takes. Throws `cancelled` where the signal aborts. */
  async postJson(path: string, body: unknown, signal?: AbortSignal): Promise<unknown> {
    return await this.#json('POST', path, await this.post(path, body, signal), signal);
  }

  /** The answer with its body unread, to be read as a stream; its status is one of success. */
  async post(path: string, body: unknown, signal?: AbortSignal): Promise<Response> {
    const headers = { 'Content-Type': 'application/json' };
    return await this.#send(path, { method: 'POST', headers, body: JSON.stringify(body), ...(signal ? { signal } : {}) });
  }

  async #send(path: string, init: Omit<RequestInit, 'headers'> & { method: string; headers?: Record<string, string> }): Promise<Response> {
    // Loaded when first needed: most commands ask no server.
    const { default: fetch } = await import('node-fetch');
    let response: Response;
    try {
      const { base, agent } = this.#way;
      response = await fetch(`${base}${path}`, { ...init, ...(agent ? { agent } : {}), headers: { ...this.#headers, ...init.headers }, redirect: 'error' });
    } catch (thrown) {
      throw this.#failure(thrown, init.signal?.aborted === true);
    }
    if (response.ok) return response;
    const text = await response.text().catch(() => '');
    throw readError(jsonOf(text)) ?? unreachable(this.url, `answers ${init.method} ${path} with HTTP ${response.status}: it is no Recua server, or of another version`);
  }

  async #json(method: string, path: string, response: Response, signal?: AbortSignal): Promise<unknown> {
    let text: string;
    try {
      text = await response.text();
    } catch (thrown) {
      throw this.#failure(thrown, signal?.aborted === true);
    }
    try {
      return JSON.parse(text);
    } catch (cause) {
      throw unreachable(this.url, `answers ${method} ${path} with something else than JSON: it is no Recua server`, cause);
    }
  }

  #failure(thrown: unknown, aborted: boolean): RecuaError {
    if (aborted) return new RecuaError('cancelled', 'Stopped waiting for the server.', { cause: thrown });
    const { code, message } = thrown as NodeJS.ErrnoException;
    const how = code === 'ECONNREFUSED' ? 'refuses the connection: no server listens there. recua ps lists those that run; recua serve start starts one'
      : code === 'ENOTFOUND' || code === 'EAI_AGAIN' ? 'has a host name that nobody knows'
        : code === 'ECONNRESET' || code === 'ERR_STREAM_PREMATURE_CLOSE' ? 'ended the connection before its answer was complete. recua ps tells whether it still runs'
          : code !== undefined && untrusted.test(code) ? `shows a certificate that this machine does not trust (${code}). NODE_EXTRA_CA_CERTS names a file with those that signed it`
            : code === 'ENOENT' ? 'is a socket that is not there. recua ps lists the servers that run'
              : `cannot be asked: ${message}`;
    return unreachable(this.url, how, thrown);
  }
}

function readAddress(given: string): string {
  const path = socketPath(given);
  if (path !== undefined && path !== '') return `unix:${resolve(path)}`;
  const whole = /^[a-z][a-z0-9+.-]*:\/\//i.test(given) ? given : `http://${given}`;
  const url = given !== '' && URL.canParse(whole) ? new URL(whole) : undefined;
  if (!url || !['http:', 'https:'].includes(url.protocol) || url.search !== '' || url.hash !== '') {
    throw misuse(`Expected the address of a server, such as http://127.0.0.1:8080, got ${JSON.stringify(given)}.`);
  }
  return `${url.origin}${url.pathname.replace(/\/+$/, '').replace(/\/v1$/, '')}`;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function unreachable(url: string, how: string, cause?: unknown): RecuaError {
  return new RecuaError('server_unreachable', `The server ${url} ${how}.`, { cause });
}
