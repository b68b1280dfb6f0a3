// A trace goes on in requests that the server asks of itself, and in those over a WebSocket.
import { propagation, type Context } from '@opentelemetry/api';
import type { Response } from 'express';
import type { IncomingHttpHeaders } from 'node:http';
import type { TraceHeaders } from '../http/inner.js';

/** Where the context of a request's span is kept. */
export const contextKey = 'traceContext';

/** Of the span of this request; empty where there is none. */
export function traceHeaders(res: Response): TraceHeaders {
  const context = res.locals[contextKey] as Context | undefined;
  const headers: Record<string, string> = {};
  if (context) propagation.inject(context, headers);
  return headers;
}

/** As they came from outside. */
export function traceHeadersOf(headers: IncomingHttpHeaders): TraceHeaders {
  return Object.fromEntries(propagation.fields().flatMap((name) => {
    const value = headers[name];
    return typeof value === 'string' ? [[name, value]] : [];
  }));
}
