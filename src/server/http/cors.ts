// Cross-origin headers on every response, errors included, and the answer to preflights.
// The specification asks for `*`: any page may call. Express middleware, mounted first by app.
import type { NextFunction, Request, Response } from 'express';

/** Also written by listen on replies that never reach Express. */
export const corsHeaders = {
  'Access-Control-Allow-Origin': '*',
  'Access-Control-Allow-Methods': 'GET, POST, OPTIONS',
  'Access-Control-Expose-Headers': 'x-request-id, retry-after, x-should-retry, x-queue-position',
} as const;

const preflightSeconds = 86_400;

export function cors(req: Request, res: Response, next: NextFunction): void {
  res.set(corsHeaders);
  if (req.method !== 'OPTIONS') return next();
  // Reflected, not listed: OpenAI's clients add x-stainless-* headers of their own, tracing adds
  // others. `*` would not cover Authorization.
  const asked = req.headers['access-control-request-headers'];
  res.set('Access-Control-Allow-Headers', asked ?? 'Content-Type, Authorization');
  res.set('Access-Control-Max-Age', String(preflightSeconds));
  res.vary('Access-Control-Request-Headers');
  res.status(204).end();
}
