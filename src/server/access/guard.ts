// Checks the API key before the request's body is read. Express middleware, mounted by app:
// `readKey` first of all, `requireKey` before each route that is not open, after its dialect has
// set the format of errors.
import type { IncomingHttpHeaders } from 'node:http';
import type { NextFunction, Request, RequestHandler, Response } from 'express';
import { RecuaError } from '../../errors.js';
import type { ApiKey, ApiKeys } from './api-keys.js';
import { keyGone } from './key-watch.js';
import { notesOf } from '../notes/notes.js';

/** `askedBy`: name of the key, for requests that the server makes to itself. */
export function readKey(keys: ApiKeys, askedBy: (req: Request) => string | undefined): RequestHandler {
  return (req: Request, res: Response, next: NextFunction) => {
    const inner = askedBy(req);
    const given = keys.areAsked && inner === undefined ? presented(req.headers) : undefined;
    if (inner !== undefined) notesOf(res)['apiKey'] = keys.named(inner, Date.now());
    else if (given !== undefined) notesOf(res)['apiKey'] = keys.find(given, Date.now());
    notesOf(res)['isStranger'] = keys.areAsked && keyOf(res) === undefined;
    next();
  };
}

/** The check for WebSockets, which bypass Express. Undefined means refused. */
export function letIn(keys: ApiKeys, headers: IncomingHttpHeaders): { key: ApiKey | undefined } | undefined {
  if (!keys.areAsked) return { key: undefined };
  const given = presented(headers);
  const key = given === undefined ? undefined : keys.find(given, Date.now());
  return key && { key };
}

/**
 * `isInner`: the request comes from the server itself, on behalf of an earlier request that was let
 * in. The key of that request must still be valid.
 */
export function requireKey(
  keys: ApiKeys,
  isInner: (req: Request) => boolean,
  askedBy: (req: Request) => string | undefined,
): RequestHandler {
  return (req: Request, res: Response, next: NextFunction) => {
    if (!keys.areAsked || keyOf(res)) return next();
    const name = askedBy(req);
    if (name !== undefined) throw keyGone(name);
    if (isInner(req)) return next();
    res.set('WWW-Authenticate', 'Bearer realm="recua"');
    throw new RecuaError(
      'invalid_api_key',
      presented(req.headers) === undefined
        ? 'This server needs an API key. Programs send it as Authorization: Bearer <key>, x-api-key: <key> or api-key: <key>.'
        : 'This server does not know this API key, or it has expired.',
    );
  };
}

/** The key in the headers that clients of OpenAI, Anthropic and Azure use. */
export function presented(headers: IncomingHttpHeaders): string | undefined {
  const bearer = /^Bearer +(\S+) *$/i.exec(headers.authorization ?? '')?.[1];
  const plain = headers['x-api-key'] ?? headers['api-key'];
  return bearer ?? (typeof plain === 'string' && plain !== '' ? plain : undefined);
}

/** The key of the request; undefined if the server requires none. */
export function keyOf(res: Response): ApiKey | undefined {
  return notesOf(res)['apiKey'] as ApiKey | undefined;
}

/** The server requires a key, and the request has none: only open routes answer it. */
export function isStranger(res: Response): boolean {
  return notesOf(res)['isStranger'] !== false;
}

/**
 * Refuses keys without `admin`, for routes that change the server for everybody. Express
 * middleware.
 */
export function adminOnly(_req: Request, res: Response, next: NextFunction): void {
  const key = keyOf(res);
  if (key && !key.admin) throw new RecuaError('client_refused', `The API key ${key.name} may only use models. To load, unload, get, remove or search for models, or to save and clear slots, use a key with "admin": true.`);
  next();
}
