// An HTTP client for a running server. If the server refuses, its own error is thrown; if nothing
// answers, the error names the server and says what to do.
import type { RequestInit, Response } from 'node-fetch';
import { resolve } from 'node:path';
import { Readable } from 'node:stream';
import { RecuaError } from '../../errors.js';
import { withoutUser } from '../../models/names/safe-names.js';
import { readError } from '../../server/openai/asking.js';
import { socketPath } from '../../settings/address.js';
import { misuse } from '../flags/flags.js';
import { wayTo } from './connection.js';
import type { Address } from './connection.js';

/** Error codes of rejected certificates. */
const untrusted = /CERT|UNABLE_TO_/;
/** A read-only request that takes longer means that the server is stuck. */
const answerMs = 10_000;
/** Of a reply that is read as a whole; a list of thousands of models is smaller. */
const mostReplyBytes = 16 * 2 ** 20;

export class ServerClient {
  /** Without a trailing slash. */
  readonly url: string;
  readonly #way: ReturnType<typeof wayTo>;
  readonly #headers: Readonly<Record<string, string>>;

  /**
   * `url` may be `127.0.0.1:8080`, an OpenAI client's base URL or the path of a socket. `key` is
   * sent to the server. Throws `invalid_usage` if `url` is not an address.
   */
  constructor({ url, key = '', certificate }: Address) {
    this.url = readAddress(url);
    this.#way = wayTo({ url: this.url, certificate });
    // A server may have several keys, comma-separated; the first is enough.
    const [first = ''] = key.split(',');
    this.#headers = first === '' ? {} : { Authorization: `Bearer ${first.trim()}` };
  }

  /** Throws `server_unreachable`, also if the answer takes too long. `stop` ends the waiting. */
  async getJson(path: string, withinMs = answerMs, stop?: AbortSignal): Promise<unknown> {
    const timeout = AbortSignal.timeout(withinMs);
    const signal = stop ? AbortSignal.any([timeout, stop]) : timeout;
    try {
      return await this.#json('GET', path, await this.#send(path, { method: 'GET', signal }), signal);
    } catch (thrown) {
      throw timeout.aborted ? unreachable(this.url, `did not answer within ${withinMs / 1000} seconds`, thrown) : thrown;
    }
  }

  /** The error for an answer in another form than a Recua server's. */
  foreign(): RecuaError {
    return unreachable(this.url, 'answers, but not with models: it is not a Recua server, or has another version');
  }

  /** Waits as long as the answer takes. Throws `cancelled` if the signal aborts. */
  async postJson(path: string, body: unknown, signal?: AbortSignal): Promise<unknown> {
    return await this.#json('POST', path, await this.post(path, body, signal), signal);
  }

  /** A successful response with its body unread, to be read as a stream. */
  async post(path: string, body: unknown, signal?: AbortSignal): Promise<Response> {
    const bytes = Buffer.from(JSON.stringify(body));
    const headers = { 'Content-Type': 'application/json', 'Content-Length': String(bytes.length) };
    // An abort makes node-fetch destroy the body with an error. Without a listener, that would end
    // the process.
    const sent = Readable.from([bytes]).on('error', () => undefined);
    return await this.#send(path, { method: 'POST', headers, body: sent, ...(signal ? { signal } : {}) });
  }

  async #send(path: string, init: Omit<RequestInit, 'headers'> & { method: string; headers?: Record<string, string> }): Promise<Response> {
    // Loaded on demand: most commands call no server.
    const { default: fetch } = await import('node-fetch');
    let response: Response;
    try {
      const { base, agent } = this.#way;
      response = await fetch(`${base}${path}`, { ...init, ...(agent ? { agent } : {}), headers: { ...this.#headers, ...init.headers }, redirect: 'error', size: mostReplyBytes });
    } catch (thrown) {
      throw this.#failure(thrown, init.signal?.aborted === true);
    }
    if (response.ok) return response;
    const text = await response.text().catch(() => '');
    const error = readError(jsonOf(text));
    // The server says how a program sends a key, not how a command is given one.
    if (error?.code === 'invalid_api_key' && !('Authorization' in this.#headers)) throw new RecuaError('invalid_api_key', `The server at ${this.url} needs an API key. Give it with --api-key, or set RECUA_API_KEY.`);
    throw error ?? unreachable(this.url, `answers ${init.method} ${path} with HTTP ${response.status}: it is not a Recua server, or has another version`);
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
      throw unreachable(this.url, `answers ${method} ${path} with something other than JSON: it is not a Recua server`, cause);
    }
  }

  #failure(thrown: unknown, aborted: boolean): RecuaError {
    if (aborted) return new RecuaError('cancelled', 'Stopped waiting for the server.', { cause: thrown });
    const { code, message, type } = thrown as NodeJS.ErrnoException & { type?: string };
    const how = code === 'ECONNREFUSED' ? 'refuses the connection: no server listens there. recua ps lists the running servers; recua serve start starts one'
      : code === 'ENOTFOUND' || code === 'EAI_AGAIN' ? 'has an unknown host name'
        : code === 'ECONNRESET' || code === 'ERR_STREAM_PREMATURE_CLOSE' ? 'ended the connection before its answer was complete. recua ps shows whether it still runs'
          : code !== undefined && untrusted.test(code) ? `has a certificate that this machine does not trust (${code}). Set NODE_EXTRA_CA_CERTS to a file with the certificates that signed it`
            : code === 'ENOENT' ? 'is a socket that does not exist. recua ps lists the running servers'
              : type === 'max-size' ? `sends a reply of more than ${mostReplyBytes} bytes: it is not a Recua server`
                : `cannot be reached: ${message}`;
    return unreachable(this.url, how, thrown);
  }
}

function readAddress(given: string): string {
  const path = socketPath(given);
  if (path !== undefined && path !== '') return `unix:${resolve(path)}`;
  const whole = /^[a-z][a-z0-9+.-]*:\/\//i.test(given) ? given : `http://${given}`;
  const url = given !== '' && URL.canParse(whole) ? new URL(whole) : undefined;
  if (url && url.username + url.password !== '') throw misuse('Expected an address without a user name and a password; a server takes a key: --api-key or RECUA_API_KEY.');
  if (!url || !['http:', 'https:'].includes(url.protocol) || url.search !== '' || url.hash !== '') {
    throw misuse(`Expected the address of a server, such as http://127.0.0.1:8080, got ${JSON.stringify(withoutUser(given))}.`);
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
