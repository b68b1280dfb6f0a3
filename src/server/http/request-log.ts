// One line of the log for each request: what was asked for and what became of it, in numbers. Never
// a word of the request or the answer. Express middleware, mounted first by app; routes and
// error-reply note what the line is to tell.
import type { NextFunction, Request, RequestHandler, Response } from 'express';
import type { RecuaError } from '../../errors.js';
import type { Log } from './gateway.js';
import type { RecentRequests } from './recent.js';

interface Noted {
  promptTokens?: number;
  completionTokens?: number | undefined;
  code?: string;
  /** The code with the field's name. */
  error?: string;
}

/** `askedBy` is the name of the API key that came with the request, where it had one. */
export function requestLog(log: Log, recent: RecentRequests, askedBy: (res: Response) => string | undefined = () => undefined): RequestHandler {
  return (req: Request, res: Response, next: NextFunction) => {
    const startMs = performance.now();
    const id = String(res.getHeader('x-request-id'));
    const { method } = req;
    const path = req.path.slice(0, 200);
    res.once('close', () => {
      const { promptTokens, completionTokens, code, error = '' } = noted(res);
      const status = res.writableFinished ? String(res.statusCode) : 'cut off';
      const durationMs = Math.round(performance.now() - startMs);
      const tokens = promptTokens === undefined ? '' : ` ${promptTokens}${completionTokens === undefined ? '' : `+${completionTokens}`} tokens`;
      const name = askedBy(res);
      const by = name === undefined ? '' : ` by ${JSON.stringify(name)}`;
      log(isRoutine(req) ? 'debug' : 'info', `${id} ${method} ${path} ${status}${error}${by}${tokens} ${durationMs} ms`);
      if (method !== 'POST' && method !== 'DELETE') return;
      recent.add({
        id, method, path, startedMs: Date.now() - durationMs, durationMs, ...(res.writableFinished ? { status: res.statusCode } : {}),
        ...(promptTokens === undefined ? {} : { promptTokens }), ...(completionTokens === undefined ? {} : { completionTokens }), ...(code === undefined ? {} : { error: code }),
      });
    });
    next();
  };
}

export function noteTokens(res: Response, promptTokens: number, completionTokens?: number): void {
  Object.assign(noted(res), { promptTokens, completionTokens });
}

/** The sentence of an error may quote the request: its code and the field's name do not. */
export function noteError(res: Response, { code, param }: RecuaError): void {
  const field = param !== undefined && /^[\w.[\]]{1,80}$/.test(param) ? ` at ${param}` : '';
  Object.assign(noted(res), { code, error: ` ${code}${field}` });
}

function noted(res: Response): Noted {
  return (res.locals['noted'] ??= {}) as Noted;
}

/** What monitors, browsers and `recua serve` ask again and again. */
function isRoutine(req: Request): boolean {
  return req.method === 'OPTIONS' || /^(\/v1)?\/health$/.test(req.path);
}
