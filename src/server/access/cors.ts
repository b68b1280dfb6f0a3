// Sets cross-origin headers on every response, errors included, answers preflights, and refuses
// origins and hosts that the server does not allow. By default any page may call, since the
// specification asks for `*`. Express middleware, mounted first by app.
import type { Request, RequestHandler, Response } from 'express';
import type { Visitors } from './visitors.js';

/** The headers except the origin; listen also writes them on replies that never reach Express. */
export const corsHeaders = {
  'Access-Control-Allow-Methods': 'GET, POST, PUT, DELETE, OPTIONS',
  'Access-Control-Expose-Headers': 'x-request-id, request-id, etag, retry-after, x-should-retry, x-queue-position, x-ratelimit-limit-requests, x-ratelimit-remaining-requests, x-ratelimit-reset-requests, x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens',
} as const;

const preflightSeconds = 86_400;

export function cors(visitors: Visitors): RequestHandler {
  return (req: Request, res: Response, next) => {
    res.set(corsHeaders);
    const granted = visitors.grant(req.headers);
    if (granted !== undefined) res.set('Access-Control-Allow-Origin', granted);
    if (!visitors.allowsAll) res.vary('Origin');
    const refusal = visitors.refusal(req.headers);
    if (refusal) throw refusal;
    if (req.method !== 'OPTIONS') return next();
    // Reflected, not listed: OpenAI's clients add x-stainless-* headers, tracing adds others, and
    // `*` would not cover Authorization.
    const asked = req.headers['access-control-request-headers'];
    res.set('Access-Control-Allow-Headers', asked ?? 'Content-Type, Authorization');
    res.set('Access-Control-Max-Age', String(preflightSeconds));
    res.vary('Access-Control-Request-Headers');
    res.status(204).end();
  };
}
