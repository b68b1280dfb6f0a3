// Carries a trace on into requests that the server makes to itself, and into those over a
// WebSocket.
import { propagation, type Context } from '@opentelemetry/api';
import type { Response } from 'express';
import type { IncomingHttpHeaders } from 'node:http';
import type { CarriedHeaders } from '../http/inner.js';
import { notesOf } from '../notes/notes.js';

/** Key in the notes of the context of a request's span. */
export const contextKey = 'traceContext';

/** Headers for the span of this request; empty if there is none. */
export function traceHeaders(res: Response): CarriedHeaders {
  const context = notesOf(res)[contextKey] as Context | undefined;
  const headers: Record<string, string> = {};
  if (context) propagation.inject(context, headers);
  return headers;
}

/** The trace headers of an incoming request. */
export function traceHeadersOf(headers: IncomingHttpHeaders): CarriedHeaders {
  return Object.fromEntries(propagation.fields().flatMap((name) => {
    const value = headers[name];
    return typeof value === 'string' ? [[name, value]] : [];
  }));
}
