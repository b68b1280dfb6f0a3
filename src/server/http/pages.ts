// Any page may ask a model, as the specification wants it (see cors). What lists or changes what
// lies on the disk is not for pages of strangers, which a browser opens on this very machine: they
// could read files that were uploaded, or have models fetched. Programs are not asked where they
// come from: whoever reaches the server may use it. Where the server asks for keys, the key decides
// instead.
import type { NextFunction, Request, Response } from 'express';
import { RecuaError } from '../../errors.js';
import { adminOnly, keyOf } from '../access/guard.js';
import { isLoopback, isOwnName } from '../access/visitors.js';

/** Of programs whose windows are drawn by a browser: no page of the web has such an origin. */
const programs = /^(app|file|tauri|vscode-webview|vscode-file):$/;

/** Express middleware. */
export function refusePages(req: Request, res: Response, next: NextFunction): void {
  if (!keyOf(res) && isForeignPage(req.headers)) {
    throw new RecuaError('client_refused', "Only programs, and pages opened at localhost or at the server's IP address, may use this route.");
  }
  next();
}

/** Behind it: what changes the store is for those who sit at the machine. Express middleware. */
export function refuseRemote(req: Request, res: Response, next: NextFunction): void {
  if (keyOf(res)) return adminOnly(req, res, next);
  if (isRemote(req)) {
    throw new RecuaError('client_refused', "Only clients on the server's own machine may change which models it has; on that machine there are recua pull, rm and cp.");
  }
  next();
}

/** Behind it, too: what the user of this machine keeps is for those who sit at it. */
export function refuseOthers(req: Request, res: Response, next: NextFunction): void {
  const key = keyOf(res);
  if (key && !key.admin) throw new RecuaError('client_refused', `The API key ${key.name} does not open the saved chats: that takes a key with "admin": true.`);
  if (!key && isRemote(req)) throw new RecuaError('client_refused', "Only clients on the server's own machine may see its saved chats, or those with an API key (--api-key).");
  next();
}

function isRemote(req: Request): boolean {
  const address = req.socket.remoteAddress?.replace(/^::ffff:/, '');
  const { forwarded, 'x-forwarded-for': forwardedFor } = req.headers;
  const isHere = address === undefined || address === '::1' || address.startsWith('127.');
  return !isHere || forwarded !== undefined || forwardedFor !== undefined;
}

/** Each of these is sent by browsers alone; one of today sends them all with a form. */
export function isBrowser({ origin, 'user-agent': agent = '', 'sec-fetch-site': site }: Request['headers']): boolean {
  return origin !== undefined || site !== undefined || agent.startsWith('Mozilla/');
}

function isForeignPage(headers: Request['headers']): boolean {
  const { origin, host = '', 'sec-fetch-site': site } = headers;
  if (!isBrowser(headers)) return false;
  const from = origin === undefined ? undefined : addressOf(origin);
  if (from && programs.test(from.protocol)) return false;
  // A name can be made to mean this machine by whoever owns it.
  const own = addressOf(`http://${host}`)?.hostname;
  if (own === undefined || !isOwnName(own)) return true;
  if (origin === undefined) return site === 'cross-site';
  return from === undefined || (from.hostname !== own && !isLoopback(from.hostname));
}

function addressOf(text: string): URL | undefined {
  return URL.canParse(text) ? new URL(text) : undefined;
}

