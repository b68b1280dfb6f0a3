// GET /openapi.json: the reference of all routes, built on the first request. Route mounted by app.
import { setImmediate } from 'node:timers/promises';
import type { Request, RequestHandler, Response } from 'express';
import { ownInstallation } from '../system/installation.js';
import type { Route } from './exchange/dialect.js';
import { rounds } from './body/rounds.js';
import { makeDocument, type Document, type Documented, type Made } from './reference/document.js';

function steps(routes: readonly Route[]): Generator<void, Made> {
  const all = routes.flatMap((route): Documented[] => [
    route,
    ...[route.also ?? []].flat().map((other) => ({ ...other, paths: route.paths })),
  ]);
  return makeDocument(all, ownInstallation().version);
}

/** Synchronously. */
export function describe(routes: readonly Route[]): Made {
  const making = steps(routes);
  for (;;) {
    const { done, value } = making.next();
    if (done) return value;
  }
}

/** In small steps, so that running answers are not held up. */
async function describeSlowly(routes: readonly Route[]): Promise<Document> {
  const making = steps(routes);
  for (;;) {
    const { done, value } = making.next();
    if (done) return value.document;
    await setImmediate();
  }
}

export function openApi(routes: () => readonly Route[]): RequestHandler {
  let made: Promise<Document> | undefined;
  // Half a megabyte, which takes some ten milliseconds to write.
  let last: { base: string; json: Buffer } | undefined;
  return async (req: Request, res: Response) => {
    const document = await (made ??= describeSlowly(routes()));
    // The app may be mounted below another path.
    const base = req.baseUrl || '/';
    if (last?.base !== base) last = { base, json: Buffer.from(JSON.stringify({ ...document, servers: [{ url: base }] })) };
    const { json } = last;
    await rounds.next();
    res.type('json').send(json);
  };
}
