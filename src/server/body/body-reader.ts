// Receives the bytes of one request body. Refuses a body that is declared too large before it is
// sent, stops one that grows too large, decompresses, and charges the bytes as they arrive. Called
// by json-body; hang-up decides what happens to the connection after a refusal. express.raw() does
// not report the memory it holds, and reads a body to its end before it refuses it.
import type { IncomingMessage } from 'node:http';
import type { Readable, Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import type { NextFunction, Request, Response } from 'express';
import { RecuaError } from '../../errors.js';
import { describe } from '../../request/fields.js';
import { bytesPerByte, type BodyShare } from './body-memory.js';

const decompressors: Record<string, () => Transform> = { gzip: createGunzip, 'x-gzip': createGunzip, deflate: createInflate, br: createBrotliDecompress };

const firstBytes = 64 * 1024;

/** Requests with `Expect: 100-continue` whose clients have not been told to send the body. */
const waitingForWord = new WeakSet<IncomingMessage>();

/**
 * Called by listen for Node's event 'checkContinue'. Without a listener, Node would tell the client
 * to send everything.
 */
export function keepWaiting(req: IncomingMessage): void {
  waitingForWord.add(req);
}

/** Whether the client still waits for "100 Continue", and so may or may not send its body. */
export function isKeptWaiting(req: IncomingMessage): boolean {
  return waitingForWord.has(req);
}

/** Sends "100 Continue" to a client that waits for it. */
export function letSend(req: IncomingMessage, res: Response): void {
  if (waitingForWord.delete(req)) res.writeContinue();
}

/**
 * Express middleware: listen passes on requests with any `Expect`, and Node those with any codings
 * before `chunked`, which it does not decode.
 */
export function checkTransfer({ headers: { expect, 'transfer-encoding': coding } }: Request, _res: Response, next: NextFunction): void {
  if (expect !== undefined && expect.toLowerCase() !== '100-continue')
    throw new RecuaError('invalid_http', `Expected the header Expect to be 100-continue or missing, got ${describe(expect)}.`);
  if (coding !== undefined && coding.trim().toLowerCase() !== 'chunked')
    throw new RecuaError('invalid_http', `Expected the header Transfer-Encoding to be chunked or missing, got ${describe(coding)}. For a compressed body, send Content-Encoding.`);
  next();
}

/** All bytes of the body, which may be none. Their memory is charged to the share. */
export async function readBody(req: Request, res: Response, limitBytes: number, share: BodyShare): Promise<Buffer> {
  const declared = Number(req.headers['content-length'] ?? 0);
  if (declared > limitBytes) throw tooLarge(limitBytes);
  const encoding = (req.headers['content-encoding'] ?? 'identity').trim().toLowerCase();
  const decompress = encoding === 'identity' ? undefined : decompressors[encoding];
  if (encoding !== 'identity' && !decompress) {
    throw new RecuaError('unsupported_media_type',
      `Expected a body that is uncompressed or compressed with gzip, deflate or br, got Content-Encoding ${JSON.stringify(encoding.slice(0, 40))}.`);
  }
  // It would be waited for without an end.
  if (req.readableEnded) throw readBefore();
  letSend(req, res);
  const inflater = decompress?.();
  const source: Readable = inflater ? req.pipe(inflater) : req;
  try {
    return await collect(req, source, declared, limitBytes, share);
  } finally {
    if (inflater) {
      req.unpipe(inflater);
      inflater.destroy();
    }
  }
}

/**
 * Uses one buffer that doubles. A client may send one byte at a time, and a Buffer for each would
 * cost a hundred times as much.
 */
function collect(req: IncomingMessage, source: Readable, declared: number, limitBytes: number, share: BodyShare): Promise<Buffer> {
  let buffer = Buffer.allocUnsafeSlow(Math.min(firstBytes, declared || firstBytes));
  let length = 0;
  let arrivedBytes = 0;
  return new Promise<Buffer>((resolve, reject) => {
    const settle = (error?: RecuaError): void => {
      source.off('data', take).off('end', end);
      req.off('data', count).off('close', gone);
      if (error) {
        // The request may live on until the client has stopped sending.
        buffer = Buffer.alloc(0);
        reject(error);
      } else resolve(buffer.subarray(0, length));
    };
    const take = (chunk: Buffer): void => {
      try {
        if (length + chunk.length > limitBytes) throw tooLarge(limitBytes);
        share.add(chunk.length * bytesPerByte);
      } catch (error) {
        return settle(RecuaError.from(error));
      }
      if (length + chunk.length > buffer.length) {
        const larger = Buffer.allocUnsafeSlow(Math.max(2 * buffer.length, length + chunk.length));
        buffer.copy(larger, 0, 0, length);
        buffer = larger;
      }
      length += chunk.copy(buffer, length);
    };
    // Empty compressed blocks need not ever become text.
    const count = (chunk: Buffer): void => {
      arrivedBytes += chunk.length;
      if (arrivedBytes > limitBytes) settle(tooLarge(limitBytes));
    };
    const end = (): void => settle();
    const gone = (): void => {
      // All bytes may have arrived even though the socket closed before they were read.
      if (!req.readableEnded) settle(new RecuaError('cancelled', 'The client went away while its request was being read.'));
    };
    const broken = (cause: Error): void => {
      settle(source === req ? new RecuaError('cancelled', 'The client went away while its request was being read.')
        : new RecuaError('invalid_json', `The request body cannot be decompressed: ${cause.message}.`, { cause }));
    };
    // Never removed: another error may follow the one that ended it.
    source.on('error', broken);
    if (source !== req) req.on('error', gone).on('data', count);
    source.on('data', take).once('end', end);
    req.once('close', gone);
    share.onRefusal = settle;
    if (req.destroyed) gone();
  });
}

/** By middleware of a program that has mounted the app. */
function readBefore(): RecuaError {
  return new RecuaError('invalid_json', 'Expected the request body, but the program around Recua has read it. Mount the app before express.json() and the like.');
}

function tooLarge(limitBytes: number): RecuaError {
  return new RecuaError('body_too_large', `The request body is over the limit of ${limitBytes} bytes (--body-limit); send less.`);
}
