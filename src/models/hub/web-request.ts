// One HTTP request to the hub or its download hosts: uses the environment's proxies, follows
// redirects itself so that the token goes only to its own host, and times out on silent hosts. Used
// by hub.ts and remote-file.ts.
import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import type { Headers, Response } from 'node-fetch';
import { getProxyForUrl } from 'proxy-from-env';
import { ConnectionFault } from './connection-fault.js';

export interface WebRequest {
  method?: 'GET' | 'HEAD';
  headers?: Readonly<Record<string, string>>;
  /** Sent only while the request stays on its first host. */
  token?: string | undefined;
  /** Stops before the first redirect to another host, and reports its address in `leftFor`. */
  stayHere?: boolean;
  signal?: AbortSignal | undefined;
  /**
   * With no or almost no bytes for this long, in headers or body, the connection counts as dead.
   */
  stallMs: number;
}

export interface WebAnswer {
  status: number;
  headers: Headers;
  /** The last address requested. */
  url: URL;
  /** Whether that address may still get the token. */
  atFirstHost: boolean;
  leftFor: URL | undefined;
  /**
   * The body in pieces; throws ConnectionFault if it breaks off. Leaving early closes the
   * connection.
   */
  body(): AsyncGenerator<Buffer, void>;
  /** Discards the body and closes the connection. */
  discard(): void;
}

const mostRedirects = 10;
/**
 * Fewer bytes than this within the stall time count as silence: otherwise a host could trickle
 * bytes forever.
 */
const leastProgressBytes = 1024;
const userAgent = 'recua';

export async function request(address: URL, options: WebRequest): Promise<WebAnswer> {
  const { method = 'GET', headers = {}, token, stayHere = false, signal, stallMs } = options;
  let url = address;
  let atFirstHost = true;
  for (let redirects = 0; ; redirects++) {
    signal?.throwIfAborted();
    const sent: Record<string, string> = { 'User-Agent': userAgent, 'Accept-Encoding': 'identity', ...headers };
    if (atFirstHost && token !== undefined) sent['Authorization'] = `Bearer ${token}`;
    const exchange = new Exchange(url, signal, stallMs);
    const response = await exchange.start(method, sent);
    const answer = exchange.answer(response, atFirstHost);
    if (response.status === 407) {
      answer.discard();
      throw new ConnectionFault('proxy', url, 'the proxy requires a user name and password (407)');
    }
    const location = response.headers.get('location');
    if (location === null || ![301, 302, 303, 307, 308].includes(response.status)) return answer;
    const next = readLocation(location, url);
    if (!next) {
      answer.discard();
      throw new ConnectionFault('redirect', url, 'it redirects to an invalid web address');
    }
    if (redirects === mostRedirects) {
      answer.discard();
      throw new ConnectionFault('redirect', url, `it redirects more than ${mostRedirects} times`);
    }
    const leaves = next.host !== url.host || (url.protocol === 'https:' && next.protocol === 'http:');
    if (leaves && stayHere) return { ...answer, leftFor: next };
    answer.discard();
    // A request that left the host never gets the token again.
    atFirstHost &&= !leaves;
    url = next;
  }
}

/** Undefined if it is no web address, or holds a user name, which no request may contain. */
function readLocation(location: string, base: URL): URL | undefined {
  if (!URL.canParse(location, base.href)) return undefined;
  const url = new URL(location, base);
  const hasName = url.username !== '' || url.password !== '';
  return (url.protocol === 'http:' || url.protocol === 'https:') && !hasName ? url : undefined;
}

/** One request and its answer, with a stall timeout. */
class Exchange {
  readonly #url: URL;
  readonly #signal: AbortSignal | undefined;
  readonly #stallMs: number;
  readonly #controller = new AbortController();
  readonly #onAbort = () => this.#controller.abort();
  #timer: NodeJS.Timeout | undefined;
  #stalled = false;

  constructor(url: URL, signal: AbortSignal | undefined, stallMs: number) {
    this.#url = url;
    this.#signal = signal;
    this.#stallMs = stallMs;
    signal?.addEventListener('abort', this.#onAbort, { once: true });
  }

  async start(method: string, headers: Record<string, string>): Promise<Response> {
    this.#watch();
    try {
      // Imported lazily: most commands never contact the hub.
      const { default: fetch } = await import('node-fetch');
      return await fetch(this.#url, {
        method, headers, redirect: 'manual', compress: false, signal: this.#controller.signal, agent: await agentFor(this.#url),
      });
    } catch (thrown) {
      throw this.#end(thrown);
    } finally {
      this.#rest();
    }
  }

  answer(response: Response, atFirstHost: boolean): WebAnswer {
    return {
      status: response.status, headers: response.headers, url: this.#url, atFirstHost, leftFor: undefined,
      body: () => this.#body(response),
      discard: () => this.#close(),
    };
  }

  async *#body(response: Response): AsyncGenerator<Buffer, void> {
    if (!response.body) return;
    const pieces = (response.body as AsyncIterable<Buffer>)[Symbol.asyncIterator]();
    let whole = false;
    let waitedMs = 0;
    let bytes = 0;
    try {
      for (;;) {
        // Count silence only while a reader waits: a slow reader is not the host's fault.
        const askedMs = performance.now();
        this.#watch(this.#stallMs - waitedMs);
        const piece = await pieces.next();
        this.#rest();
        if (piece.done) break;
        waitedMs += performance.now() - askedMs;
        bytes += piece.value.length;
        if (bytes >= leastProgressBytes) waitedMs = bytes = 0;
        yield piece.value;
      }
      whole = true;
    } catch (thrown) {
      throw this.#end(thrown);
    } finally {
      this.#rest();
      // A body that was read to its end leaves the connection reusable.
      if (whole) this.#signal?.removeEventListener('abort', this.#onAbort);
      else this.#close();
    }
  }

  #watch(ms = this.#stallMs): void {
    this.#timer = setTimeout(() => {
      this.#stalled = true;
      this.#controller.abort();
    }, ms);
  }

  #rest(): void {
    clearTimeout(this.#timer);
  }

  #close(): void {
    this.#rest();
    this.#signal?.removeEventListener('abort', this.#onAbort);
    this.#controller.abort();
  }

  /** Classifies a failure: the caller's abort, a stall, or the network. */
  #end(thrown: unknown): Error {
    this.#close();
    if (this.#signal?.aborted) return this.#signal.reason as Error;
    if (this.#stalled) return new ConnectionFault('stalled', this.#url, `it sent nothing, or next to nothing, for ${this.#stallMs / 1000} seconds`);
    return ConnectionFault.from(thrown, this.#url);
  }
}

const agents = new Map<string, HttpAgent>();

/** Connections are kept alive; NO_PROXY and similar variables are evaluated per address. */
async function agentFor(url: URL): Promise<HttpAgent> {
  const proxy = getProxyForUrl(url.href);
  const key = `${url.protocol} ${proxy}`;
  let agent = agents.get(key);
  if (!agent) {
    agent = await makeAgent(url, proxy);
    agents.set(key, agent);
  }
  return agent;
}

async function makeAgent(url: URL, proxy: string): Promise<HttpAgent> {
  const secure = url.protocol === 'https:';
  if (proxy === '') return secure ? new HttpsAgent({ keepAlive: true }) : new HttpAgent({ keepAlive: true });
  if (!URL.canParse(proxy) || !/^https?:$/.test(new URL(proxy).protocol)) {
    throw new ConnectionFault('proxy', url, 'the proxy variable of the environment holds no http:// or https:// address');
  }
  const [{ HttpProxyAgent }, { HttpsProxyAgent }] = await Promise.all([import('http-proxy-agent'), import('https-proxy-agent')]);
  if (!secure) return new HttpProxyAgent(proxy, { keepAlive: true });
  const tunnel = new HttpsProxyAgent(proxy, { keepAlive: true });
  // Otherwise the proxy's refusal would look like the hub's.
  tunnel.on('proxyConnect', (connect: { statusCode: number; statusText: string }, asked: { destroy(error: Error): void }) => {
    if (connect.statusCode === 200) return;
    asked.destroy(Object.assign(new Error(`the proxy answers ${connect.statusCode} ${connect.statusText}`), { code: 'PROXY_REFUSED' }));
  });
  return tunnel;
}
