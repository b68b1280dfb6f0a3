// Which web pages may use the server (`--cors-origins`), and which host names it answers to
// (`--allowed-hosts`). The latter stops DNS rebinding: a hostile page can point its own host name
// at this machine, and the browser then treats the server as same-origin. Pure.
import { isIP } from 'node:net';
import { hostname } from 'node:os';
import type { IncomingHttpHeaders } from 'node:http';
import { describe } from '../../request/fields.js';
import { RecuaError } from '../../errors.js';

/** Allows everything. */
const all = '*';
/** Names of private networks, which no site can have. */
const privateName = /^[^.]+$|\.(local|internal|lan|home\.arpa)$/;

export class Visitors {
  readonly #origins: ReadonlySet<string>;
  readonly #hosts: readonly string[];
  readonly #isOnNetwork: boolean;

  /**
   * Comma-separated lists; `*` allows all. `host` is the address it listens on. Throws
   * `invalid_usage`.
   */
  constructor({ corsOrigins, allowedHosts, host }: { corsOrigins: string; allowedHosts: string; host: string }) {
    this.#origins = new Set(listed(corsOrigins).map(originOf));
    this.#hosts = [...listed(allowedHosts).map(hostOf), host.toLowerCase()];
    this.#isOnNetwork = !isLoopback(host) && host !== '::1';
  }

  /** Value of `Access-Control-Allow-Origin`; undefined for no header. */
  grant({ origin, host = '' }: IncomingHttpHeaders): string | undefined {
    if (this.allowsAll) return all;
    return origin !== undefined && (this.#origins.has(origin.toLowerCase()) || isSame(origin, host)) ? origin : undefined;
  }

  /** Every page is allowed, so replies do not depend on the origin. */
  get allowsAll(): boolean {
    return this.#origins.has(all);
  }

  /** Why a request with these headers is refused; undefined if it is not. */
  refusal(headers: IncomingHttpHeaders): RecuaError | undefined {
    const { origin, host } = headers;
    if (origin !== undefined && this.grant(headers) === undefined) {
      return new RecuaError('client_refused', `Pages of ${describe(origin)} may not use this server; --cors-origins lists the pages that may.`);
    }
    // Without a host it is HTTP/1.0, as of health checks. No browser speaks that.
    if (host === undefined || this.#hosts.includes(all) || this.#allowsHost(host)) return undefined;
    return new RecuaError('client_refused', `This server does not answer to the host ${describe(host)}; add the name to --allowed-hosts.`);
  }

  /**
   * Nobody else can point the name in this `Host` header at this machine, or it is listed (`*`
   * lists no name). For programs that includes names of private networks, such as those of
   * containers, if the server listens there: whoever can give such names reaches it anyway.
   */
  knows(host: string, isPage: boolean): boolean {
    return this.#allowsHost(host) || (!isPage && this.#isOnNetwork && privateName.test(nameOf(host)));
  }

  #allowsHost(host: string): boolean {
    const name = nameOf(host);
    if (isOwnName(name)) return true;
    return this.#hosts.some((one) => (one.startsWith('.') ? name.endsWith(one) : name === one));
  }
}

/** The name, without a dot at its end, or address in a `Host` header; '' if there is none. */
export function nameOf(host: string): string {
  return URL.canParse(`http://${host}`) ? new URL(`http://${host}`).hostname.replace(/\.$/, '') : '';
}

/** Names that nobody else can point at this machine: IP addresses and the machine's own names. */
export function isOwnName(name: string): boolean {
  return isIP(name.replace(/^\[|\]$/g, '')) !== 0 || isLoopback(name) || name === hostname().toLowerCase();
}

export function isLoopback(name: string): boolean {
  return name === 'localhost' || name.endsWith('.localhost') || name === '[::1]' || (isIP(name) === 4 && name.startsWith('127.'));
}

/** The server's own page, under any host name. */
function isSame(origin: string, host: string): boolean {
  return URL.canParse(origin) && new URL(origin).host === host.toLowerCase();
}

function listed(text: string): string[] {
  return text.split(',').map((one) => one.trim()).filter((one) => one !== '');
}

function originOf(text: string): string {
  if (text === all) return all;
  // In the form that browsers send; for documents without an origin they send "null".
  const origin = URL.canParse(text) ? new URL(text) : undefined;
  if (origin && text.replace(/\/$/, '').toLowerCase() === `${origin.protocol}//${origin.host}`) return text.replace(/\/$/, '').toLowerCase();
  throw new RecuaError('invalid_usage', `Expected origins such as https://chat.example.com for --cors-origins, or *, got ${describe(text)}.`);
}

function hostOf(text: string): string {
  const name = text.toLowerCase().replace(/^\*\./, '.');
  if (text === all || /^\.?[a-z0-9_-]+(\.[a-z0-9_-]+)*$/.test(name)) return name;
  throw new RecuaError('invalid_usage', `Expected names such as models.example.com or .example.com for --allowed-hosts, without a port, or *, got ${describe(text)}.`);
}
