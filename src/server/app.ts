// The HTTP API as an Express app: which path is answered by which route, and what surrounds them all.
// Called by listen, and by programs that mount it in a server of their own. Gateway process.
import express, { type Express, type NextFunction, type Request, type RequestHandler, type Response } from 'express';
import type { Config } from '../settings/config.js';
import type { Engine } from '../engine/api.js';
import { RecuaError } from '../errors.js';
import { BodyMemory, defaultBodyMemory } from './body/body-memory.js';
import { chatCompletions } from './openai/chat-completions.js';
import { cors } from './http/cors.js';
import { embeddings } from './openai/embeddings.js';
import { errorHandler } from './http/error-reply.js';
import { readyModel, type Gateway, type Log } from './http/gateway.js';
import { health } from './health.js';
import { jsonBody } from './body/json-body.js';
import type { ServedModel } from './http/served-model.js';
import { modelRoutes } from './openai/models.js';
import { requestId } from './http/request-id.js';
import { requestLog } from './http/request-log.js';
import { rerank } from './openai/rerank.js';
import { Traffic } from './http/traffic.js';
import { inTurn } from './http/turns.js';

export interface AppOptions {
  engine: Engine;
  config: Readonly<Config>;
  model: ServedModel;
  /** Given by listen, which drains it. */
  traffic?: Traffic;
  log?: Log;
}

export function createApp(options: AppOptions): Express {
  const { engine, config, model, traffic = new Traffic(), log = () => undefined } = options;
  const gateway: Gateway = { engine, config, served: model, traffic, log };
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
  const inference = [admit(gateway), ...jsonBody(config.bodyLimitBytes, memory)];
  route(app, ['/health', '/v1/health'], 'get', health(gateway));
  route(app, ['/v1/models'], 'get', models.list);
  route(app, ['/v1/models/*id'], 'get', models.get);
  route(app, ['/v1/chat/completions'], 'post', ...inference, chatCompletions(gateway));
  route(app, ['/v1/embeddings'], 'post', ...inference, embeddings(gateway));
  route(app, ['/v1/rerank', '/v1/reranking', '/rerank', '/reranking'], 'post', ...inference, rerank(gateway));

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

/** Before the body is read: no use in receiving what cannot be worked on. */
function admit({ engine, traffic }: Gateway): RequestHandler {
  return (_req: Request, _res: Response, next: NextFunction) => {
    traffic.admit();
    readyModel(engine);
    next();
  };
}
