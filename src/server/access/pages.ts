// Any web page may send requests to a model, as the specification says (see cors). But routes that
// list or change data on disk refuse pages of other sites: a browser on this machine could
// otherwise let them read uploaded files or download models. Programs are not restricted: whoever
// can reach the server may use it. But they must address it by a name that is known to be its own:
// a page whose site points its name at this machine (DNS rebinding) can look like a program. If the
// server has API keys, the key decides instead.
import type { IncomingHttpHeaders } from 'node:http';
import type { NextFunction, Request, RequestHandler, Response } from 'express';
import { describe } from '../../request/fields.js';
import { RecuaError } from '../../errors.js';
import type { ApiKeys } from './api-keys.js';
import { adminOnly, keyOf } from './guard.js';
import { isLoopback, nameOf, type Visitors } from './visitors.js';
import { isRemote } from './peer.js';
import { notesOf } from '../notes/notes.js';

/** Origins of programs that embed a browser; no web page has such an origin. */
const programs = /^(app|file|tauri|vscode-webview|vscode-file):$/;

type Refusal = (headers: IncomingHttpHeaders) => RecuaError | undefined;

/** Express middleware, mounted by app before all routes: lets refusePages know the server. */
export function watchPages(visitors: Visitors, keys: ApiKeys): RequestHandler {
  const refusal: Refusal = (headers) => (keys.areAsked ? undefined : refusalOf(headers, visitors));
  return ({ rawHeaders }, res, next) => {
    // A proxy may check another one than Recua does.
    const hosts = rawHeaders.filter((name, at) => at % 2 === 0 && name.toLowerCase() === 'host').length;
    if (hosts > 1) throw new RecuaError('invalid_http', `Expected one Host header, got ${hosts}.`);
    notesOf(res)['pageRefusal'] = refusal;
    next();
  };
}

/** Express middleware. */
export function refusePages(_req: Request, res: Response, next: NextFunction): void {
  const refusal = pageRefusal(res);
  if (refusal) throw refusal;
  next();
}

/** Why refusePages refuses this request; undefined if it does not. */
export function pageRefusal(res: Response): RecuaError | undefined {
  return (notesOf(res)['pageRefusal'] as Refusal)(res.req.headers);
}

/** The headers that tell pages from programs, for requests that the server makes for them. */
export function pageHeaders(headers: IncomingHttpHeaders): Readonly<Record<string, string>> {
  return Object.fromEntries(['host', 'origin', 'sec-fetch-site', 'user-agent'].flatMap((name) => {
    const value = headers[name];
    return typeof value === 'string' ? [[name, value]] : [];
  }));
}

/** A handler that refuses pages of other sites, as {@link refusePages} does. */
export function fromPrograms(handler: RequestHandler): RequestHandler {
  return (req, res, next) => {
    refusePages(req, res, () => undefined);
    return handler(req, res, next);
  };
}

/**
 * For routes that change the store of models: only clients on this machine. Follows refusePages.
 */
export function refuseRemote(req: Request, res: Response, next: NextFunction): void {
  if (keyOf(res)) return adminOnly(req, res, next);
  if (isRemote(req)) {
    throw new RecuaError('client_refused', "Only clients on the server's own machine may change which models it has; use recua pull, rm and cp there.");
  }
  next();
}

/**
 * For the saved chats of this machine's user: only clients on this machine. Follows refusePages.
 */
export function refuseOthers(req: Request, res: Response, next: NextFunction): void {
  const key = keyOf(res);
  if (key && !key.admin) throw new RecuaError('client_refused', `The API key ${key.name} may not use the saved chats; that takes a key with "admin": true.`);
  if (!key && isRemote(req)) throw new RecuaError('client_refused', "Only clients on the server's own machine may see its saved chats; others need an API key (--api-key).");
  next();
}

/** Only browsers send these headers; current ones send all of them with a form. */
export function isBrowser({ origin, 'user-agent': agent = '', 'sec-fetch-site': site }: Request['headers']): boolean {
  return origin !== undefined || site !== undefined || agent.startsWith('Mozilla/');
}

function refusalOf(headers: IncomingHttpHeaders, visitors: Visitors): RecuaError | undefined {
  const { origin, host, 'sec-fetch-site': site } = headers;
  const from = origin === undefined ? undefined : addressOf(origin);
  if (from && programs.test(from.protocol)) return undefined;
  const isPage = isBrowser(headers);
  // HTTP/1.0, which no browser speaks.
  if (host === undefined && !isPage) return undefined;
  // The owner of any other name could point it at this machine.
  if (!visitors.knows(host ?? '', isPage)) {
    return new RecuaError('client_refused', `This route does not answer to the host ${describe(host ?? '')}, because any site could point a name at this server. If the name is yours, add it to --allowed-hosts, or use API keys.`);
  }
  const isForeign = origin === undefined ? site === 'cross-site' : !from || !(isLoopback(nameOf(from.host)) || isOwnPage(from, host ?? '', site));
  return isForeign ? new RecuaError('client_refused', 'Only programs, and pages of this server or of localhost, may use this route.') : undefined;
}

/**
 * Whether this is a page of the server that the request addresses, and not of another one on the
 * same machine. `site`: Sec-Fetch-Site, which browsers do not send over HTTP to other machines.
 */
function isOwnPage(from: URL, host: string, site: string | undefined): boolean {
  if (nameOf(from.host) !== nameOf(host)) return false;
  if (site !== undefined) return site === 'same-origin';
  // Some proxies pass on the name without the port.
  const port = /:(\d+)$/.exec(host)?.[1];
  return port === undefined || port === (from.port || (from.protocol === 'https:' ? '443' : '80'));
}

function addressOf(text: string): URL | undefined {
  return URL.canParse(text) ? new URL(text) : undefined;
}
