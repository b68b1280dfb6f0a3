// Asks for a key before a request is read. Express middleware, mounted by app: `readKey` before all
// else, `requireKey` before each route that is not open to all, once its dialect has said what an
// error looks like.
import type { IncomingHttpHeaders } from 'node:http';
import type { NextFunction, Request, RequestHandler, Response } from 'express';
import { RecuaError } from '../../errors.js';
import type { ApiKey, ApiKeys } from './api-keys.js';

/** `askedBy` is the key's name of a request that the server asks of itself. */
export function readKey(keys: ApiKeys, askedBy: (req: Request) => string | undefined): RequestHandler {
  return (req: Request, res: Response, next: NextFunction) => {
    const inner = askedBy(req);
    const given = keys.areAsked && inner === undefined ? presented(req.headers) : undefined;
    if (inner !== undefined) res.locals['apiKey'] = keys.named(inner, Date.now());
    else if (given !== undefined) res.locals['apiKey'] = keys.find(given, Date.now());
    next();
  };
}

/** For what is no request that these middlewares see. Undefined: it is not let in. */
export function letIn(keys: ApiKeys, headers: IncomingHttpHeaders): { key: ApiKey | undefined } | undefined {
  if (!keys.areAsked) return { key: undefined };
  const given = presented(headers);
  const key = given === undefined ? undefined : keys.find(given, Date.now());
  return key && { key };
}

/**
 * `isInner`: the server asks itself, for a request that was let in before; the key that came with
 * that one must still count.
 */
export function requireKey(keys: ApiKeys, isInner: (req: Request) => boolean, askedBy: (req: Request) => string | undefined): RequestHandler {
  return (req: Request, res: Response, next: NextFunction) => {
    if (!keys.areAsked || keyOf(res)) return next();
    const name = askedBy(req);
    if (name !== undefined) throw new RecuaError('invalid_api_key', `The API key ${name}, with which this was begun, has expired or was taken away.`);
    if (isInner(req)) return next();
    res.set('WWW-Authenticate', 'Bearer realm="recua"');
    throw new RecuaError('invalid_api_key', presented(req.headers) === undefined
      ? 'This server asks for an API key. Send it as Authorization: Bearer <key>, or as x-api-key: <key>.'
      : 'This server does not know this API key, or it has expired.');
  };
}

/** As clients of OpenAI, Anthropic and Azure send it. */
export function presented(headers: IncomingHttpHeaders): string | undefined {
  const bearer = /^Bearer +(\S+) *$/i.exec(headers.authorization ?? '')?.[1];
  const plain = headers['x-api-key'] ?? headers['api-key'];
  return bearer ?? (typeof plain === 'string' && plain !== '' ? plain : undefined);
}

/** The key that came with the request; undefined where the server asks for none. */
export function keyOf(res: Response): ApiKey | undefined {
  return res.locals['apiKey'] as ApiKey | undefined;
}

/** What changes the server for all takes a key that may. Express middleware. */
export function adminOnly(_req: Request, res: Response, next: NextFunction): void {
  const key = keyOf(res);
  if (key && !key.admin) throw new RecuaError('client_refused', `The API key ${key.name} may ask models, and not change which ones are here or loaded: that takes a key with "admin": true.`);
  next();
}
