// Parses a request body as JSON, with separate errors for media type, size, encoding, nesting and
// syntax. Express middleware of the POST routes. The bytes are checked before they are parsed: V8
// needs over a gigabyte to refuse 32 MiB of "[".
import type { Request, RequestHandler, Response, NextFunction } from 'express';
import { RecuaError } from '../../errors.js';
import { refuseHalves } from '../../request/half-characters.js';
import { weighJson } from '../../request/json-weight.js';
import { bytesPerByte, type BodyMemory, type BodyShare } from './body-memory.js';
import { readBody } from './body-reader.js';
import { rounds } from './rounds.js';
import { notesOf } from '../notes/notes.js';

/**
 * Returns a function for the engine to call once it no longer holds the text of this request in
 * this process.
 */
export function lendBody(res: Response): () => void {
  const share = notesOf(res)['body'] as BodyShare | undefined;
  return share ? share.lend() : () => undefined;
}

/**
 * Each step of the work on a body of at least so many bytes gets a turn of the event loop, so that
 * others wait for one step and not for all. A step takes some 2 ms for a MiB.
 */
const largeBytes = 2 ** 20;

/** Waits for a turn of the event loop if the body of this request is large. */
export function turnForBody(res: Response): Promise<void> | undefined {
  const share = notesOf(res)['body'] as BodyShare | undefined;
  return share && share.bytes >= largeBytes * bytesPerByte ? rounds.next() : undefined;
}

/** Frees the memory of a body that is answered, before its reply is read. */
export function freeBody(res: Response): void {
  (notesOf(res)['body'] as BodyShare | undefined)?.release();
}

/**
 * Charges `bytes` of JSON that is read in addition to the body. Throws if there is no memory for
 * it.
 */
export function holdMore(res: Response, bytes: number): void {
  (notesOf(res)['body'] as BodyShare | undefined)?.add(bytes * bytesPerByte);
}

/** Takes the parsed body off the request, so that only the caller holds it. */
export function takeBody(req: Request): unknown {
  const body: unknown = req.body;
  req.body = undefined;
  return body;
}

/** `takesAnyType`: whether this request's body may lack the JSON media type. */
export function jsonBody(
  limitBytes: number,
  memory: BodyMemory,
  clientOf: (res: Response) => string,
  takesAnyType: (req: Request) => boolean = () => false,
): RequestHandler[] {
  const most = Math.min(limitBytes, memory.largestBody);
  const typed: RequestHandler = (req, res, next) => (takesAnyType(req) ? next() : requireJson(req, res, next));
  return [typed, async (req: Request, res: Response, next: NextFunction) => {
    const share = memory.open(clientOf(res));
    notesOf(res)['body'] = share;
    res.once('close', () => share.release());
    try {
      const bytes = await readBody(req, res, most, share);
      share.arrived();
      await rounds.next();
      req.body = await parse(bytes, share, async () => {
        if (bytes.length >= largeBytes) await rounds.next();
        if (res.destroyed) throw new RecuaError('cancelled', 'The client went away while its request was being read.');
      });
    } catch (thrown) {
      share.release();
      throw thrown;
    }
    next();
  }];
}

function requireJson(req: Request, _res: Response, next: NextFunction): void {
  const header = req.headers['content-type'];
  const mend = 'Send the header "Content-Type: application/json".';
  if (header === undefined) {
    // A script of any web page may send untyped bytes here without a preflight.
    if (hasBody(req)) throw new RecuaError('unsupported_media_type', `Expected a JSON body, got one without Content-Type. ${mend}`);
    return next();
  }
  const [type = '', ...parameters] = header.toLowerCase().split(';').map((part) => part.trim());
  const charset = parameters.find((part) => part.startsWith('charset='))?.slice('charset='.length).replaceAll('"', '');
  // Browsers send text/plain and form types across origins without a preflight, so such requests
  // must not start work.
  if (type !== 'application/json' && !/^application\/[\w.-]+\+json$/.test(type)) {
    const curl = type === 'application/x-www-form-urlencoded' ? ' (the default of curl -d)' : '';
    throw new RecuaError('unsupported_media_type', `Expected a JSON body, got Content-Type ${JSON.stringify(type.slice(0, 80))}${curl}. ${mend}`);
  }
  if (charset !== undefined && charset !== 'utf-8' && charset !== 'utf8' && charset !== 'us-ascii') {
    throw new RecuaError('unsupported_media_type', `Expected JSON in UTF-8, got charset ${JSON.stringify(charset.slice(0, 80))}.`);
  }
  next();
}

export function hasBody({ headers }: Pick<Request, 'headers'>): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

/** `turn` is awaited before each step. */
async function parse(bytes: Buffer, share: BodyShare, turn: () => Promise<void>): Promise<unknown> {
  if (bytes.length === 0) {
    throw new RecuaError('invalid_json', 'Expected a JSON object as the request body, got an empty body.');
  }
  await turn();
  share.add(weighJson(bytes, 'The request body'));
  await turn();
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new RecuaError('invalid_json', 'The request body is not valid UTF-8.', { cause });
  }
  await turn();
  let body: unknown;
  try {
    body = JSON.parse(text) as unknown;
  } catch (cause) {
    throw new RecuaError('invalid_json', `The request body is not valid JSON: ${(cause as Error).message}.`, { cause });
  }
  refuseHalves(text, body);
  return body;
}
