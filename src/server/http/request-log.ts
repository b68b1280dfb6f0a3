// One line of the log for each request: what was asked for and what became of it, in numbers. Never
// a word of the request or the answer. Express middleware, mounted first by app; routes and
// error-reply note what the line is to tell.
import type { NextFunction, Request, RequestHandler, Response } from 'express';
import type { RecuaError } from '../../errors.js';
import type { Log } from './gateway.js';

interface Noted {
  tokens?: string;
  error?: string;
}

export function requestLog(log: Log): RequestHandler {
  return (req: Request, res: Response, next: NextFunction) => {
    const startMs = performance.now();
    const name = `${String(res.getHeader('x-request-id'))} ${req.method} ${req.path.slice(0, 200)}`;
    res.once('close', () => {
      const { tokens = '', error = '' } = noted(res);
      const status = res.writableFinished ? String(res.statusCode) : 'cut off';
      const ms = Math.round(performance.now() - startMs);
      log(isRoutine(req) ? 'debug' : 'info', `${name} ${status}${error}${tokens} ${ms} ms`);
    });
    next();
  };
}

export function noteTokens(res: Response, promptTokens: number, completionTokens?: number): void {
  noted(res).tokens = ` ${promptTokens}${completionTokens === undefined ? '' : `+${completionTokens}`} tokens`;
}

/** The sentence of an error may quote the request: its code and the field's name do not. */
export function noteError(res: Response, { code, param }: RecuaError): void {
  const field = param !== undefined && /^[\w.[\]]{1,80}$/.test(param) ? ` at ${param}` : '';
  noted(res).error = ` ${code}${field}`;
}

function noted(res: Response): Noted {
  return (res.locals['noted'] ??= {}) as Noted;
}

/** What monitors, browsers and `recua serve` ask again and again. */
function isRoutine(req: Request): boolean {
  return req.method === 'OPTIONS' || /^(\/v1)?\/health$/.test(req.path);
}
