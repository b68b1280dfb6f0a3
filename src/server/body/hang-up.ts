// Replies to a request whose body is not read to its end, and ends the connection after it. Called
// by error-reply.
import type { Request, Response } from 'express';
import { isKeptWaiting } from './body-reader.js';

/** Node reads the rest of a body no larger than this and keeps the connection. */
const worthReadingBytes = 64 * 1024;
/**
 * A client that sends on when it has its reply may do so for so long. Closing while bytes come
 * would make its reply be lost.
 */
const lastMs = 2_000;
const lastBytes = 4 * 1024 * 1024;

/** Whether more of the body may come than is worth reading. */
export function hasLongRest(req: Request): boolean {
  if (req.complete) return false;
  if (req.headers['transfer-encoding'] !== undefined || isKeptWaiting(req)) return true;
  return Number(req.headers['content-length'] ?? 0) > worthReadingBytes;
}

/**
 * Sends the whole reply at once; the connection closes when the client has stopped sending, soon in
 * any case.
 */
export function replyAndHangUp(req: Request, res: Response, body: object): void {
  const text = JSON.stringify(body);
  res.set({ Connection: 'close', 'Content-Type': 'application/json; charset=utf-8', 'Content-Length': String(Buffer.byteLength(text)) });
  if (isKeptWaiting(req)) {
    res.end(text);
    return;
  }
  res.write(text);
  const end = (): void => {
    clearTimeout(timer);
    req.pause();
    res.end();
  };
  const timer = setTimeout(end, lastMs);
  let left = lastBytes;
  req.on('data', (chunk: Buffer) => {
    left -= chunk.length;
    if (left < 0) end();
  });
  req.once('end', end);
  res.once('close', () => clearTimeout(timer));
  req.resume();
}
