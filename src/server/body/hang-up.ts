// Replies to a request whose body is not read to its end, then closes the connection. Called by
// error-reply.
import type { Request, Response } from 'express';
import { isKeptWaiting } from './body-reader.js';

/** Up to this size, the rest of a body is read and the connection kept. */
const worthReadingBytes = 64 * 1024;
/**
 * How long a client may keep sending after it got its reply. Closing while bytes arrive would lose
 * the reply.
 */
const lastMs = 2_000;
const lastBytes = 4 * 1024 * 1024;

/** Whether more of the body may follow than is worth reading. */
export function hasLongRest(req: Request): boolean {
  if (req.complete) return false;
  if (req.headers['transfer-encoding'] !== undefined || isKeptWaiting(req)) return true;
  return Number(req.headers['content-length'] ?? 0) > worthReadingBytes;
}

/**
 * Sends the whole reply at once. The connection closes when the client stops sending, or soon in
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
