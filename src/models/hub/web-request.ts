// One HTTP request to the hub or its download hosts: proxies of the environment, redirects followed
// by hand so that the token goes to its own host only, and an end to waiting for hosts that say
// nothing. Used by hub.ts and remote-file.ts.
import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import type { Headers, Response } from 'node-fetch';
import { getProxyForUrl } from 'proxy-from-env';
import { ConnectionFault } from './connection-fault.js';

export interface WebRequest {
  method?: 'GET' | 'HEAD';
  headers?: Readonly<Record<string, string>>;
  /** Sent as long as the request stays at its first host. */
  token?: string | undefined;
  /** Stops before the first redirect that leaves the host: `leftFor` then says where to. */
  stayHere?: boolean;
  signal?: AbortSignal | undefined;
  /** No byte for so long, in the headers or the body, or next to none: the connection is dead. */
  stallMs: number;
}

export interface WebAnswer {
  status: number;
  headers: Headers;
  /** The last address asked. */
  url: URL;
  /** Whether that is still where the token belongs. */
  atFirstHost: boolean;
  leftFor: URL | undefined;
  /**
   * The body in pieces; throws ConnectionFault where it breaks off. Left early, the connection is
   * closed.
   */
  body(): AsyncGenerator<Buffer, void>;
  /** Throws away the body and, with it, the connection. */
  discard(): void;
}

const mostRedirects = 10;
/**
 * Less than that in the time of a stall is as good as silence: a host may send a byte now and then
 * for ever.
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
      throw new ConnectionFault('proxy', url, 'the proxy wants a user name and password (407)');
    }
    const location = response.headers.get('location');
    if (location === null || ![301, 302, 303, 307, 308].includes(response.status)) return answer;
    const next = readLocation(location, url);
    if (!next) {
      answer.discard();
      throw new ConnectionFault('protocol', url, 'it redirects to what is no web address');
    }
    if (redirects === mostRedirects) {
      answer.discard();
      throw new ConnectionFault('protocol', url, `it redirects more than ${mostRedirects} times`);
    }
    const leaves = next.host !== url.host || (url.protocol === 'https:' && next.protocol === 'http:');
    if (leaves && stayHere) return { ...answer, leftFor: next };
    answer.discard();
    // What left once does not get the token back.
    atFirstHost &&= !leaves;
    url = next;
  }
}

function readLocation(location: string, base: URL): URL | undefined {
  if (!URL.canParse(location, base.href)) return undefined;
  const url = new URL(location, base);
  return url.protocol === 'http:' || url.protocol === 'https:' ? url : undefined;
}

/** One request and its answer, watched for silence. */
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
      // Loaded when first needed: most commands never ask the hub.
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
        // Silence counts only while somebody waits: a slow reader is no fault of the host.
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
      // A body that was read to its end leaves a connection to be used again.
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

  /** What a failure means: the caller's abort, silence, or the network. */
  #end(thrown: unknown): Error {
    this.#close();
    if (this.#signal?.aborted) return this.#signal.reason as Error;
    if (this.#stalled) return new ConnectionFault('stalled', this.#url, `it sent nothing, or next to nothing, for ${this.#stallMs / 1000} seconds`);
    return ConnectionFault.from(thrown, this.#url);
  }
}

const agents = new Map<string, HttpAgent>();

/** Connections are kept for the next request; NO_PROXY and the like are judged for each address. */
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
  // Otherwise the proxy's refusal would be taken for the hub's.
  tunnel.on('proxyConnect', (connect: { statusCode: number; statusText: string }, asked: { destroy(error: Error): void }) => {
    if (connect.statusCode === 200) return;
    asked.destroy(Object.assign(new Error(`the proxy answers ${connect.statusCode} ${connect.statusText}`), { code: 'PROXY_REFUSED' }));
  });
  return tunnel;
}
