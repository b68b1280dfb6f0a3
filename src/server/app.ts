// The HTTP API as an Express app: which path is answered by which route, and what surrounds them
// all. Called by listen, and by programs that mount it in a server of their own. Gateway process.
import express, { type Express, type NextFunction, type Request, type RequestHandler, type Response } from 'express';
import type { Config } from '../settings/config.js';
import type { ModelPool } from '../engine/pool-api.js';
import { RecuaError } from '../errors.js';
import { BodyMemory, defaultBodyMemory } from './body/body-memory.js';
import { chatCompletions } from './openai/chat-completions.js';
import { cors } from './http/cors.js';
import { embeddings } from './openai/embeddings.js';
import { errorHandler } from './http/error-reply.js';
import type { Gateway, Log } from './http/gateway.js';
import { health } from './health.js';
import { jsonBody } from './body/json-body.js';
import { modelEvents } from './openai/model-events.js';
import { modelRoutes } from './openai/models.js';
import { requestId } from './http/request-id.js';
import { requestLog } from './http/request-log.js';
import { rerank } from './openai/rerank.js';
import type { RequestDefaults } from '../request/sampling-fields.js';
import { Traffic } from './http/traffic.js';
import { inTurn } from './http/turns.js';

export interface AppOptions {
  pool: ModelPool;
  config: Readonly<Config>;
  /** What requests for a model mean where they say nothing; `config` where this says nothing. */
  defaultsOf?: (id: string) => Partial<RequestDefaults>;
  /** Given by listen, which drains it. */
  traffic?: Traffic;
  log?: Log;
}

export function createApp(options: AppOptions): Express {
  const { pool, config, traffic = new Traffic(), log = () => undefined } = options;
  const { temperature, maxTokens } = config;
  const defaultsOf = (id: string): RequestDefaults => ({ temperature, maxTokens, ...options.defaultsOf?.(id) });
  const gateway: Gateway = { pool, config, defaultsOf, traffic, log };
  const app = express();
  app.disable('x-powered-by');
  // Answers are never the same twice, and an ETag hashes the whole body.
  app.disable('etag');
  app.set('query parser', false);
  app.use(inTurn(), requestId, requestLog(log), cors, (_req, res, next) => {
    if (traffic.draining) res.set('Connection', 'close');
    next();
  });

  const models = modelRoutes(gateway);
  const memory = new BodyMemory(config.bodyMemoryBytes || defaultBodyMemory());
  if (memory.largestBody < config.bodyLimitBytes) {
    log('warn', `request bodies may have ${memory.largestBody} bytes, not ${config.bodyLimitBytes}: all together have ${memory.sizeBytes} bytes of memory, 4 for each of theirs`);
  }
  const body = [refuseWhileDraining(traffic), ...jsonBody(config.bodyLimitBytes, memory)];
  route(app, ['/health', '/v1/health'], 'get', health(gateway));
  route(app, ['/v1/models', '/models'], 'get', models.list);
  route(app, ['/v1/models/*id'], 'get', models.get);
  route(app, ['/models/load'], 'post', ...body, models.load);
  route(app, ['/models/unload'], 'post', ...body, models.unload);
  route(app, ['/models/sse'], 'get', modelEvents(gateway));
  route(app, ['/v1/chat/completions'], 'post', ...body, chatCompletions(gateway));
  route(app, ['/v1/embeddings'], 'post', ...body, embeddings(gateway));
  route(app, ['/v1/rerank', '/v1/reranking', '/rerank', '/reranking'], 'post', ...body, rerank(gateway));

  app.use((req) => {
    throw new RecuaError('route_not_found', `No route ${req.method} ${req.path.slice(0, 200)} in this API.`);
  });
  app.use(errorHandler(log));
  return app;
}

function route(app: Express, paths: string[], method: 'get' | 'post', ...handlers: RequestHandler[]): void {
  const allow = method === 'get' ? 'GET, HEAD, OPTIONS' : 'POST, OPTIONS';
  app.route(paths as unknown as string)[method](...handlers).all((req: Request, res: Response) => {
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
