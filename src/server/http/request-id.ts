// Names each request: `x-request-id` on every reply and in every log line about it. Express
// middleware, mounted by app.
import { randomBytes } from 'node:crypto';
import type { NextFunction, Request, Response } from 'express';

/** A client's own id is kept if it is safe to print in a log line. */
const sane = /^[\w.:+/=-]{1,128}$/;

export function newRequestId(): string {
  return `req_${randomBytes(12).toString('hex')}`;
}

export function requestId(req: Request, res: Response, next: NextFunction): void {
  const given = req.headers['x-request-id'];
  res.set('x-request-id', typeof given === 'string' && sane.test(given) ? given : newRequestId());
  next();
}
