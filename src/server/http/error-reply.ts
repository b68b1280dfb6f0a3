// Writes every error of the API: any thrown value → RecuaError → a body, in OpenAI's format unless
// the route's dialect has its own, and headers that guide retries. Called by Express as its only
// error handler, and by listen for bad HTTP.
import type { ErrorRequestHandler, NextFunction, Request, RequestHandler, Response } from 'express';
import { RecuaError, type ErrorCode } from '../../errors.js';
import type { Log } from './gateway.js';
import { noteError } from './facts.js';
import { hasLongRest, replyAndHangUp } from '../body/hang-up.js';
import { notesOf } from '../notes/notes.js';

export interface ErrorBody {
  error: { message: string; type: string; param: string | null; code: string; [detail: string]: unknown };
}

/** Seconds after which the same request may succeed. */
const retryAfterSeconds: Partial<Record<ErrorCode, number>> = {
  model_loading: 2, queue_full: 1, queue_timeout: 5, body_memory_full: 1, too_many_open_files: 2,
};

/** Retrying cannot help; without `x-should-retry`, OpenAI's clients retry every 5xx twice. */
const permanent: ReadonlySet<ErrorCode> = new Set(['model_unusable', 'model_too_large', 'addon_missing', 'backend_unusable', 'sandbox_unavailable', 'gpu_unavailable', 'not_implemented', 'invalid_argument', 'closed', 'internal_error']);

/** Makes the body of an error reply in a dialect's format. */
export type ErrorShape = (error: RecuaError, requestId: string) => object;

export function errorBody(error: RecuaError): ErrorBody {
  return { error: { ...error.details, message: publicMessage(error), type: error.type, param: error.param ?? null, code: error.code } };
}

/**
 * The message of an internal error may hold paths or memory contents, so it only goes to the log.
 */
export function publicMessage({ code, message }: RecuaError): string {
  return code === 'internal_error' ? 'Recua met an internal error; its log has the details under this request id.' : message;
}

/** Express middleware: sets the format of errors for the handlers after it. */
export function shapeErrors(shape: ErrorShape): RequestHandler {
  return (_req: Request, res: Response, next: NextFunction) => {
    notesOf(res)['errorShape'] = shape;
    next();
  };
}

function bodyFor(res: Response, error: RecuaError): object {
  const shape = (notesOf(res)['errorShape'] as ErrorShape | undefined) ?? errorBody;
  return shape(error, String(res.getHeader('x-request-id')));
}

export function errorHeaders(error: RecuaError): Record<string, string> {
  const headers: Record<string, string> = {};
  const seconds = retryAfterSeconds[error.code];
  if (seconds !== undefined) headers['Retry-After'] = String(seconds);
  if (permanent.has(error.code)) headers['x-should-retry'] = 'false';
  return headers;
}

export function logError(log: Log, res: Response, error: RecuaError): void {
  noteError(res, error);
  // The message may quote the request, and the client has it: the request's log line has the code.
  // What the server does not have is the client's to know, too.
  if (error.status < 500 || error.code === 'not_implemented') return;
  const id = String(res.getHeader('x-request-id'));
  const isOfDisk = error.code === 'store_unwritable' || error.code === 'disk_full';
  if (error.code === 'internal_error') log('error', `${id} ${error.code}: ${rootStack(error)}`, { request_id: id, error: error.code });
  else log('warn', `${id} ${error.code}: ${isOfDisk ? RecuaError.logText(error) : error.message}`, { request_id: id, error: error.code });
}

export function errorHandler(log: Log): ErrorRequestHandler {
  // Express recognizes an error handler by its four parameters.
  return (thrown: unknown, req: Request, res: Response, _next: unknown) => {
    const error = fromExpress(thrown);
    logError(log, res, error);
    if (res.headersSent || error.code === 'cancelled') {
      res.destroy();
      return;
    }
    res.status(error.status).set(errorHeaders(error));
    if (hasLongRest(req)) replyAndHangUp(req, res, bodyFor(res, error));
    else {
      // The rest of a short body must not come before the connection's next request.
      req.resume();
      res.json(bodyFor(res, error));
    }
  };
}

/** Errors of Express itself have a 4xx `status`; all others are ours. */
function fromExpress(thrown: unknown): RecuaError {
  if (thrown instanceof RecuaError) return thrown;
  const { status, message } = (thrown ?? {}) as { status?: number; message?: string };
  if (typeof status === 'number' && status >= 400 && status < 500) {
    return new RecuaError('invalid_value', `The request cannot be read: ${message}.`, { cause: thrown });
  }
  return RecuaError.from(thrown);
}

function rootStack(error: RecuaError): string {
  const root = error.cause ?? error;
  return root instanceof Error ? (root.stack ?? root.message) : JSON.stringify(root);
}
