// Logs one line per request: its route, its outcome and its numbers, but no text of the request or
// the answer. Express middleware, mounted first by app; the values come from facts.
import type { NextFunction, Request, RequestHandler, Response } from 'express';
import { factsOf, usedBy, type Facts } from './facts.js';
import type { Log, LogFields } from './gateway.js';
import type { RecentRequests } from './recent.js';

/** Without a key, anybody could fill the list of recent requests with these. */
const turnedAway: ReadonlySet<number> = new Set([401, 403, 405]);

/** `askedBy`: name of the request's API key, if it had one. */
export function requestLog(
  log: Log,
  recent: RecentRequests,
  askedBy: (res: Response) => string | undefined = () => undefined,
): RequestHandler {
  return (req: Request, res: Response, next: NextFunction) => {
    const facts = factsOf(res);
    const id = String(res.getHeader('x-request-id'));
    const { method } = req;
    const path = pathOf(req);
    res.once('close', () => {
      const { startMs, model, promptTokens, completionTokens, cachedTokens, firstMs, code, error = '' } = facts;
      const status = res.writableFinished ? String(res.statusCode) : 'cut off';
      const durationMs = Math.round(performance.now() - startMs);
      const tokens =
        promptTokens === undefined ? '' : ` ${promptTokens}${completionTokens === undefined ? '' : `+${completionTokens}`} tokens`;
      const name = askedBy(res);
      const by = name === undefined ? '' : ` by ${JSON.stringify(name)}`;
      const of = model === undefined ? '' : ` of ${/^[\w.:@/+-]+$/.test(model) ? model : JSON.stringify(model)}`;
      const more = [
        ...(cachedTokens === undefined ? [] : [` ${cachedTokens} cached`]),
        ...(firstMs === undefined ? [] : [` first after ${Math.round(firstMs)} ms`]),
        ` ${durationMs} ms`,
      ];
      // A check that is refused is no routine: whoever sends it takes the server for dead.
      log(
        isRoutine(req) && res.statusCode !== 401 && res.statusCode !== 403 ? 'debug' : 'info',
        `${id} ${method} ${path} ${status}${error}${by}${of}${[tokens, ...more].filter((part) => part !== '').join(',')}`,
        fieldsOf(facts, {
          request_id: id,
          method,
          path,
          ...(res.writableFinished ? { status: res.statusCode } : { cut_off: true }),
          key: name,
          duration_ms: durationMs,
        }),
      );
      if ((method !== 'POST' && method !== 'DELETE') || facts.route === undefined || (name === undefined && turnedAway.has(res.statusCode))) return;
      recent.add({
        id,
        method,
        path,
        ...(model === undefined ? {} : { model }),
        ...(name === undefined ? {} : { key: name }),
        startedMs: Date.now() - durationMs,
        durationMs,
        ...(res.writableFinished ? { status: res.statusCode } : {}),
        ...usedBy(facts),
        ...(code === undefined ? {} : { error: code }),
      });
    });
    next();
  };
}

/**
 * The path for logs and traces, not too long. Names of saved chats come from what was said in them,
 * so the route's pattern replaces them.
 */
export function pathOf({ path }: Pick<Request, 'path'>): string {
  return path.replace(/^\/sessions\/.+/is, '/sessions/:name').slice(0, 200);
}

/** The fields of a JSON log line, with the engine's times if there was exactly one answer. */
function fieldsOf(
  { route, model, promptTokens, completionTokens, cachedTokens, loadFromMs, loadMs, firstMs, finishes, code, traceId }: Facts,
  about: LogFields,
): LogFields {
  const ms = (time: number | undefined): number | undefined => (time === undefined ? undefined : Math.round(time * 1_000) / 1_000);
  const { timings } = (finishes?.length === 1 ? finishes[0] : undefined) ?? {};
  return {
    ...about,
    route,
    error: code,
    model,
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    cached_tokens: cachedTokens,
    load_ms: loadFromMs === undefined ? undefined : ms(loadMs),
    queue_ms: ms(timings?.queueMs),
    prompt_ms: ms(timings?.promptMs),
    generate_ms: ms(timings?.generateMs),
    first_ms: ms(firstMs),
    trace_id: traceId,
  };
}

/** Requests that monitors, browsers, the page and `recua serve` repeat all the time. */
export function isRoutine(req: Request): boolean {
  // Browsers say that it is the page who asks, every few seconds.
  if (req.method === 'GET' && req.path === '/v1/models' && req.get('sec-fetch-site') === 'same-origin') return true;
  return req.method === 'OPTIONS' || /^(\/v1)?\/health(\/live|\/ready)?$|^\/metrics$|^\/ui\//.test(req.path);
}
