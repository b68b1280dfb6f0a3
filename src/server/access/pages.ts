// Any web page may send requests to a model, as the specification says (see cors). But routes that
// list or change data on disk refuse pages of other sites: a browser on this machine could
// otherwise let them read uploaded files or download models. Programs are not restricted: whoever
// can reach the server may use it. If the server has API keys, the key decides instead.
import type { NextFunction, Request, RequestHandler, Response } from 'express';
import { RecuaError } from '../../errors.js';
import { adminOnly, keyOf } from './guard.js';
import { isLoopback, isOwnName } from './visitors.js';
import { isRemote } from './peer.js';

/** Origins of programs that embed a browser; no web page has such an origin. */
const programs = /^(app|file|tauri|vscode-webview|vscode-file):$/;

/** Express middleware. */
export function refusePages(req: Request, res: Response, next: NextFunction): void {
  if (!keyOf(res) && isForeignPage(req.headers)) {
    throw new RecuaError('client_refused', "Only programs, and pages opened at localhost or at the server's IP address, may use this route.");
  }
  next();
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

function isForeignPage(headers: Request['headers']): boolean {
  const { origin, host = '', 'sec-fetch-site': site } = headers;
  if (!isBrowser(headers)) return false;
  const from = origin === undefined ? undefined : addressOf(origin);
  if (from && programs.test(from.protocol)) return false;
  // The owner of any other name could point it at this machine.
  const own = addressOf(`http://${host}`)?.hostname;
  if (own === undefined || !isOwnName(own)) return true;
  if (origin === undefined) return site === 'cross-site';
  return from === undefined || (from.hostname !== own && !isLoopback(from.hostname));
}

function addressOf(text: string): URL | undefined {
  return URL.canParse(text) ? new URL(text) : undefined;
}

