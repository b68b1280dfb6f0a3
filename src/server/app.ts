// The HTTP API as an Express app: which path is answered by which route, and what surrounds them
// all. Called by listen, and by programs that mount it in a server of their own. Gateway process.
import express, { type Express, type NextFunction, type Request, type RequestHandler, type Response } from 'express';
import type { Config } from '../settings/config.js';
import type { ModelPool } from '../engine/pool-api.js';
import { RecuaError } from '../errors.js';
import { BodyMemory, defaultBodyMemory } from './body/body-memory.js';
import { cors } from './http/cors.js';
import type { Dialect, Route } from './exchange/dialect.js';
import { LiveChats } from './http/live-chats.js';
import { errorHandler } from './http/error-reply.js';
import type { Gateway, Log } from './http/gateway.js';
import { health } from './health.js';
import { Inner } from './http/inner.js';
import { KeptFolder } from './kept/kept-folder.js';
import { jsonBody } from './body/json-body.js';
import type { ModelShelf } from './http/shelf.js';
import { requestId } from './http/request-id.js';
import { requestLog } from './http/request-log.js';
import { anthropic } from './anthropic/dialect.js';
import { batches } from './batches/dialect.js';
import { files } from './files/dialect.js';
import { llamaServer } from './llama-server/dialect.js';
import { ollama } from './ollama/dialect.js';
import { openai } from './openai/dialect.js';
import { responses } from './responses/dialect.js';
import type { RequestDefaults } from '../request/sampling-fields.js';
import { Traffic } from './http/traffic.js';
import { inTurn } from './http/turns.js';

const dialects: readonly Dialect[] = [openai, responses, llamaServer, anthropic, ollama, files, batches];

export interface AppOptions {
  pool: ModelPool;
  config: Readonly<Config>;
  /** What requests for a model mean where they say nothing; `config` where this says nothing. */
  defaultsOf?: (id: string) => Partial<RequestDefaults>;
  /** Given by listen, which drains it. */
  traffic?: Traffic;
  log?: Log;
  /** Where responses are kept; absent: in a folder that is gone when the process ends. */
  keepIn?: string | undefined;
  /** Absent: models are neither pulled nor deleted by requests. */
  shelf?: ModelShelf | undefined;
}

export function createApp(options: AppOptions): Express {
  const { pool, config, traffic = new Traffic(), log = () => undefined } = options;
  const { temperature, maxTokens } = config;
  const defaultsOf = (id: string): RequestDefaults => ({ temperature, maxTokens, ...options.defaultsOf?.(id) });
  const app = express();
  const gateway: Gateway = { pool, config, defaultsOf, traffic, live: new LiveChats(), log, kept: new KeptFolder(options.keepIn), inner: new Inner(app), shelf: options.shelf };
  app.disable('x-powered-by');
  // Answers are never the same twice, and an ETag hashes the whole body.
  app.disable('etag');
  app.set('query parser', false);
  app.use(inTurn(), requestId, requestLog(log), cors, (_req, res, next) => {
    if (traffic.draining) res.set('Connection', 'close');
    next();
  });

  const memory = new BodyMemory(config.bodyMemoryBytes || defaultBodyMemory());
  if (memory.largestBody < config.bodyLimitBytes) {
    log('warn', `request bodies may have ${memory.largestBody} bytes, not ${config.bodyLimitBytes}: all together have ${memory.sizeBytes} bytes of memory, 4 for each of theirs`);
  }
  const body = [refuseWhileDraining(traffic), ...jsonBody(config.bodyLimitBytes, memory)];
  route(app, { method: 'get', paths: ['/health', '/v1/health'], handler: health(gateway) }, [], []);
  for (const dialect of dialects) {
    for (const one of dialect.routes(gateway)) route(app, one, dialect.before, body);
  }

  app.use((req) => {
    throw new RecuaError('route_not_found', `No route ${req.method} ${req.path.slice(0, 200)} in this API.`);
  });
  app.use(errorHandler(log));
  return app;
}

/** `before` comes before all of it, `body` before what reads one. */
function route(app: Express, one: Route, before: readonly RequestHandler[], body: readonly RequestHandler[]): void {
  const path = app.route(one.paths as unknown as string).all(...before, (_req, _res, next) => next());
  const all = [one, ...(one.also ? [one.also] : [])];
  for (const { method, handler, bodiless, takesBody } of all) path[method](...((method === 'post' && !bodiless) || takesBody ? body : []), handler);
  const allow = [...all.map(({ method }) => (method === 'get' ? 'GET, HEAD' : method.toUpperCase())), 'OPTIONS'].join(', ');
  path.all((req: Request, res: Response) => {
    res.set('Allow', allow);
    throw new RecuaError('method_not_allowed', `Expected one of ${allow} for ${req.path.slice(0, 200)}, got ${req.method}.`);
  });
}

/** Before the body is read: no use in receiving what will not be worked on. */
function refuseWhileDraining(traffic: Traffic): RequestHandler {
  return (_req: Request, _res: Response, next: NextFunction) => {
    traffic.admit();
    next();
  };
}
