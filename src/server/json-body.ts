// Reads a request body into JSON: media type, size, encoding, nesting, syntax, each with its own coded error.
// Express middleware of the POST routes. Not express.json(), because V8 needs over a gigabyte to refuse 32 MiB of "[":
// the bytes are looked at before they are parsed.
import express, { type Request, type RequestHandler, type Response, type NextFunction } from 'express';
import { RecuaError } from '../errors.js';

/** Objects and arrays inside each other. JSON schemas, the deepest thing clients send, stay under 30. */
const maxDepth = 100;
/** Objects and arrays in all: 2,048 token arrays, or 10,000 messages of several parts, stay far under it. */
const maxContainers = 200_000;

export function jsonBody(limitBytes: number): RequestHandler[] {
  return [requireJson, express.raw({ limit: limitBytes, type: () => true }), parse];
}

function requireJson(req: Request, _res: Response, next: NextFunction): void {
  const header = req.headers['content-type'];
  if (header !== undefined) {
    const [type = '', ...parameters] = header.toLowerCase().split(';').map((part) => part.trim());
    const charset = parameters.find((part) => part.startsWith('charset='))?.slice('charset='.length).replaceAll('"', '');
    // Browsers send text/plain and form types across origins without asking first: no such request may start work.
    if (type !== 'application/json' && !/^application\/[\w.-]+\+json$/.test(type)) {
      throw new RecuaError('unsupported_media_type',
        `Expected a JSON body, got Content-Type ${JSON.stringify(type)}. Send the header "Content-Type: application/json".`);
    }
    if (charset !== undefined && charset !== 'utf-8' && charset !== 'utf8' && charset !== 'us-ascii') {
      throw new RecuaError('unsupported_media_type', `Expected JSON in UTF-8, got charset ${JSON.stringify(charset)}.`);
    }
  }
  next();
}

function parse(req: Request, _res: Response, next: NextFunction): void {
  const bytes: unknown = req.body;
  if (!Buffer.isBuffer(bytes) || bytes.length === 0) {
    throw new RecuaError('invalid_json', 'Expected a JSON object as the request body, got an empty body.');
  }
  checkNesting(bytes);
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new RecuaError('invalid_json', 'The request body is not valid UTF-8.', { cause });
  }
  try {
    req.body = JSON.parse(text) as unknown;
  } catch (cause) {
    throw new RecuaError('invalid_json', `The request body is not valid JSON: ${(cause as Error).message}.`, { cause });
  }
  next();
}

/** Throws on bytes that would cost more to parse than any real request. Sound for UTF-8: its other bytes are over 0x7f. */
function checkNesting(bytes: Buffer): void {
  const [quote, backslash] = [0x22, 0x5c];
  let depth = 0;
  let containers = 0;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte === quote) {
      for (at++; at < bytes.length && bytes[at] !== quote; at++) if (bytes[at] === backslash) at++;
    } else if (byte === 0x5b || byte === 0x7b) {
      if (++depth > maxDepth) throw new RecuaError('invalid_json', `The request body is nested over ${maxDepth} levels deep.`);
      if (++containers > maxContainers) {
        throw new RecuaError('invalid_json', `The request body has over ${maxContainers} objects and arrays.`);
      }
    } else if (byte === 0x5d || byte === 0x7d) {
      depth--;
    }
  }
}
