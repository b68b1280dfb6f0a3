// The HTTP API as an Express app: the routes of all paths, and the middleware around them. Called
// by listen, and by programs that mount the app in their own server. Gateway process.
import { join } from 'node:path';
import express, { type Express, type NextFunction, type Request, type RequestHandler, type Response } from 'express';
import { makeConfig, type Config } from '../settings/config.js';
import type { ModelPool } from '../engine/pool-api.js';
import { RecuaError } from '../errors.js';
import { BodyMemory, defaultBodyMemory } from './body/body-memory.js';
import { ApiKeys, isSameUser } from './access/api-keys.js';
import { adminOnly, keyOf, letIn, readKey, requireKey } from './access/guard.js';
import { keyGone, KeyWatch } from './access/key-watch.js';
import { leaveRunning, Limits } from './access/limits.js';
import { TokenUsage } from './access/token-usage.js';
import { Visitors } from './access/visitors.js';
import { cors } from './access/cors.js';
import type { Dialect, Route } from './exchange/dialect.js';
import { LiveChats } from './http/live-chats.js';
import { errorHandler, shapeErrors } from './http/error-reply.js';
import type { Gateway, Log } from './http/gateway.js';
import { health, live, ready } from './health.js';
import { askedBy as askedByKey, askedFor, IdleWork, Inner, reasonOf } from './http/inner.js';
import { factsOf, tokensOf } from './http/facts.js';
import { isBrowser, pageRefusal, watchPages } from './access/pages.js';
import { KeptFolder } from './kept/kept-folder.js';
import { everyone, ownerWith } from './kept/owner.js';
import { checkTransfer } from './body/body-reader.js';
import { hasBody, jsonBody } from './body/json-body.js';
import { holdReplies, ReplyMemory } from './body/reply-memory.js';
import type { SavedChats } from './http/saved-chats.js';
import type { ModelShelf } from './http/shelf.js';
import { Metrics } from './metrics/metrics.js';
import { Traces } from './traces/traces.js';
import { answersFor } from './ui/answers.js';
import { page } from './ui/page.js';
import { requestId } from './http/request-id.js';
import { requestLog } from './http/request-log.js';
import { anthropic } from './anthropic/dialect.js';
import { batches } from './batches/dialect.js';
import { files } from './files/dialect.js';
import { llamaServer } from './llama-server/dialect.js';
import { ollama } from './ollama/dialect.js';
import { openai } from './openai/dialect.js';
import { describe, openApi } from './openapi.js';
import { BackgroundRun } from './responses/background.js';
import { responses } from './responses/dialect.js';
import { sessions } from './sessions/dialect.js';
import { operations as about } from './server-operations.js';
import { RecentRequests } from './http/recent.js';
import { RunningAnswers } from './http/running.js';
import { nearest } from '../models/names/nearest.js';
import type { RequestDefaults } from '../request/sampling-fields.js';
import { Traffic } from './http/traffic.js';
import { visibleTo } from './http/visible-models.js';
import { inTurn } from './http/turns.js';
import type { SocketLimits, Upgrades } from './http/upgrades.js';

const dialects: readonly Dialect[] = [openai, responses, llamaServer, anthropic, ollama, files, batches, sessions];

export interface AppOptions {
  pool: ModelPool;
  config: Readonly<Config>;
  /** Defaults for fields that requests for a model leave out; `config` fills the gaps. */
  defaultsOf?: (id: string) => Partial<RequestDefaults>;
  /** Given by listen, which drains it. */
  traffic?: Traffic;
  /** Given by listen; if absent, the app serves no WebSockets. */
  upgrades?: Upgrades;
  log?: Log;
  /** Given by the owner of the server: registers work for after the last request. */
  atEnd?: (work: () => Promise<void>) => void;
  /**
   * Given by listen, which reloads the key file when it changes. If absent, the keys of `config`.
   */
  keys?: ApiKeys;
  /** An extra key for programs of the server's own user, used if `config` has keys. */
  ownKey?: string | undefined;
  /** Folder for stored responses; if absent, a temporary one that goes with the app. */
  keepIn?: string | undefined;
  /** If absent, requests can neither pull nor delete models. */
  shelf?: ModelShelf | undefined;
  /** If absent, the server does not show the chats that `recua chat` saved. */
  savedChats?: SavedChats | undefined;
  /** Until then, a model that loads does not make the server ready. */
  isStarting?: (() => boolean) | undefined;
}

/** Comparing a path with all routes takes a millisecond at this length. */
const longestPath = 60;

export function createApp(options: AppOptions): Express {
  const { pool, config, traffic = new Traffic(), log = () => undefined } = options;
  const { temperature, maxTokens } = config;
  const keys = options.keys ?? ApiKeys.read({ keys: config.apiKey, file: config.apiKeyFile, own: options.ownKey });
  const visitors = new Visitors(config);
  const needsKey = requireKey(keys, (req) => reasonOf(req) !== undefined, askedByKey);
  const watchesKey = watchKey(keys, traffic);
  const defaultsOf = (id: string): RequestDefaults => ({ temperature, maxTokens, ...options.defaultsOf?.(id) });
  const app = express();
  const kept = new KeptFolder(options.keepIn);
  const gateway: Gateway = {
    pool,
    config,
    defaultsOf,
    clientOf,
    ...ofKey(pool),
    hasKey: (name) => keys.named(name, Date.now()) !== undefined,
    traffic,
    live: new LiveChats(),
    running: new RunningAnswers(),
    log,
    kept,
    inner: new Inner(app),
    shelf: options.shelf,
    savedChats: options.savedChats,
    isStarting: options.isStarting ?? (() => false),
  };
  const usage = new TokenUsage(async () => join(await kept.of('keys'), 'tokens.json'), (text) => log('warn', text));
  options.atEnd?.(() => usage.close());
  options.atEnd?.(() => kept.close());
  const limited = new Limits(usage).guard(tokensOf, (req) => {
    const reason = reasonOf(req);
    return reason instanceof BackgroundRun ? 'tokens' : reason instanceof IdleWork ? 'idle' : 'all';
  });
  app.disable('x-powered-by');
  // No two answers are the same, and an ETag would hash the whole body.
  app.disable('etag');
  app.set('query parser', false);
  const recent = new RecentRequests();
  const memory = new BodyMemory(config.bodyMemoryBytes || defaultBodyMemory());
  const { askedBy } = gateway;
  traffic.onLastBodies((error) => memory.refuseArriving(error));
  const replies = new ReplyMemory(memory.sizeBytes);
  const metrics = new Metrics({ pool, traffic, bodyBytes: () => memory.usedBytes, askedBy });
  keys.onReplace(() => metrics.forgetKeys((name) => !gateway.hasKey(name)));
  for (const { under = [], errorShape } of dialects) if (errorShape) for (const path of under) app.use(path, shapeErrors(errorShape));
  app.use(
    new Traces(askedBy).watch,
    inTurn(),
    traffic.watchReader,
    holdReplies(replies, clientOf, reasonOf),
    requestId,
    requestLog(log, recent, askedBy),
    metrics.watch,
    cors(visitors),
    watchPages(visitors, keys),
    checkTransfer,
    readKey(keys, askedByKey),
    (_req, res, next) => {
      if (traffic.draining || traffic.probers.isLeaving) res.set('Connection', 'close');
      next();
    },
  );

  if (config.ui) app.use(page(answersFor(gateway, recent, needsKey)));

  if (memory.largestBody < config.bodyLimitBytes) {
    log('warn', `request bodies may have ${memory.largestBody} bytes, not ${config.bodyLimitBytes}: all bodies together have ${memory.sizeBytes} bytes of memory, and each byte of a body takes 4`);
  }
  const socketLimits: SocketLimits = {
    memory, replies, traffic,
    mostMessageBytes: Math.min(config.bodyLimitBytes, memory.largestBody),
    mayOpen: (headers) => (visitors.refusal(headers) === undefined ? letIn(keys, headers) : undefined),
  };
  const body = [refuseWhileDraining(traffic), ...jsonBody(config.bodyLimitBytes, memory, clientOf)];
  const anyBody = [refuseWhileDraining(traffic), ...jsonBody(config.bodyLimitBytes, memory, clientOf, (req) => !isBrowser(req.headers))];
  const known: string[] = [];
  for (const { before, takesAnyType, routes } of routesOf(gateway, metrics.route)) {
    for (const one of routes) {
      known.push(...one.paths.filter((path) => !path.includes(':')));
      const first = [
        ...before,
        ...(one.isOpen ? [] : [needsKey, watchesKey]),
        ...(one.isForAdmin ? [adminOnly] : []),
        ...(one.isOpen || one.endsWork ? [] : [limited]),
      ];
      route(app, traffic, one, first, takesAnyType ? anyBody : body);
    }
  }
  for (const dialect of dialects) {
    if (dialect.before.length > 0) for (const path of dialect.under ?? []) app.use(path, ...dialect.before);
    for (const one of dialect.sockets?.(gateway) ?? []) options.upgrades?.add(one, socketLimits);
  }

  app.use(needsKey, (req) => {
    const near = req.path.length <= longestPath ? nearestPath(req.path, known) : undefined;
    const instead = insteadOf(req.path) ?? (near === undefined ? '' : ` Did you mean ${near}?`);
    throw new RecuaError('route_not_found', `No route ${req.method} ${req.path.slice(0, 200)} in this API.${instead}`);
  });
  app.use(errorHandler(log));
  return app;
}

/** What to do instead of what other servers have under this path. */
function insteadOf(path: string): string | undefined {
  if (/^\/api\/(create|blobs)\b/.test(path)) return ' Recua makes no models from a Modelfile: a models file (recua api --models FILE) gives a model its name, template and defaults.';
  return path === '/api/push' ? ' Recua uploads no models.' : undefined;
}

/** Another name in the same place has to resemble the last one; else the paths as a whole. */
function nearestPath(path: string, known: readonly string[]): string | undefined {
  const [first, ...longer] = known.filter((other) => other.startsWith(`${path}/`)).sort();
  if (first !== undefined && longer.every((other) => other.startsWith(first))) return first;
  const place = path.slice(0, path.lastIndexOf('/') + 1);
  const beside = known.filter((other) => other.startsWith(place) && !other.slice(place.length).includes('/'));
  const near = nearest(path.slice(place.length), beside.map((other) => other.slice(place.length)));
  return near === undefined ? nearest(path, known.filter((other) => !beside.includes(other))) : place + near;
}

/**
 * An app for a server of somebody else. Its `close` refuses new work and ends its timers; `closed`
 * is called then. What it stored goes when the last request has ended.
 */
export function createMountedApp(options: AppOptions, closed: () => void = () => {}): Express & { close(): void } {
  const traffic = new Traffic();
  const atEnd: (() => Promise<void>)[] = [];
  const end = async (): Promise<void> => {
    await traffic.idle();
    await traffic.settled();
    let failed: unknown;
    for (const work of atEnd) await work().catch((thrown: unknown) => (failed ??= thrown));
    if (failed !== undefined) throw failed as Error;
  };
  const close = (): void => {
    traffic.drain();
    closed();
    end().catch((thrown: unknown) => options.log?.('warn', `What the server stored stays until the program ends: ${RecuaError.logText(thrown)}`));
  };
  return Object.assign(createApp({ ...options, traffic, atEnd: (work) => void atEnd.push(work) }), { close });
}

/** All routes, with the middleware before them. */
function routesOf(gateway: Gateway, metrics: RequestHandler): readonly (Pick<Dialect, 'before' | 'takesAnyType'> & { routes: readonly Route[] })[] {
  const own: Route[] = [
    { method: 'get', paths: ['/health', '/v1/health'], about: about.health, handler: health(gateway), isOpen: true },
    { method: 'get', paths: ['/health/live'], about: about.live, handler: live, isOpen: true },
    { method: 'get', paths: ['/health/ready'], about: about.ready, handler: ready(gateway), isOpen: true },
    { method: 'get', paths: ['/metrics'], about: about.metrics, handler: metrics },
    { method: 'get', paths: ['/openapi.json'], about: about.document, handler: openApi(() => all.flatMap(({ routes }) => routes)) },
  ];
  const all = [{ before: [], routes: own }, ...dialects.map((dialect) => ({ ...dialect, routes: dialect.routes(gateway) }))];
  return all;
}

/** The reference of the API, without a running server. */
export function describeApi(): ReturnType<typeof describe> {
  const app = express();
  const config = makeConfig({});
  const { temperature, maxTokens } = config;
  // Never used.
  const pool = {} as ModelPool;
  const gateway: Gateway = {
    pool,
    config,
    clientOf,
    ...ofKey(pool),
    hasKey: () => false,
    defaultsOf: () => ({ temperature, maxTokens }),
    traffic: new Traffic(),
    live: new LiveChats(),
    running: new RunningAnswers(),
    log: () => undefined,
    kept: new KeptFolder(),
    inner: new Inner(app),
    shelf: undefined,
    savedChats: undefined,
    isStarting: () => false,
  };
  return describe(routesOf(gateway, () => undefined).flatMap(({ routes }) => routes));
}

/** The parts of the gateway that depend on a request's API key. */
function ofKey(pool: ModelPool): Pick<Gateway, 'poolFor' | 'askedBy' | 'ownerOf' | 'mostPriority' | 'saltOf' | 'staysAnyway' | 'countsTokens' | 'leaveRunning'> {
  return {
    poolFor: (res) => visibleTo(keyOf(res), pool),
    askedBy: (res) => keyOf(res)?.name,
    ownerOf(res) {
      const key = keyOf(res);
      return key ? ownerWith(key) : everyone;
    },
    mostPriority: (res) => keyOf(res)?.priority ?? Infinity,
    saltOf(res) {
      const key = keyOf(res);
      return key?.cacheSalt ? key.name : undefined;
    },
    staysAnyway(res) {
      const key = keyOf(res);
      if (key && !key.admin) return `keep_alive changes nothing here: the API key ${key.name} may use models but not decide how long they stay loaded; that takes a key with "admin": true.`;
      if (pool.sole) return 'keep_alive changes nothing here: this server has a single model, which stays loaded as long as the server runs.';
      return pageRefusal(res) && 'keep_alive changes nothing here: pages of other sites, and programs that address this server by a name that any site could have, may use models but not decide how long they stay loaded.';
    },
    countsTokens: (res) => keyOf(res)?.tokensPerDay !== undefined,
    leaveRunning,
  };
}

/**
 * Ends background work and open streams when their key stops being valid; the streams, too, if it
 * gets other rights. Runs before any handler.
 */
function watchKey(keys: ApiKeys, traffic: Traffic): RequestHandler {
  const watch = new KeyWatch();
  return (req, res, next) => {
    const key = keyOf(res);
    const reason = reasonOf(req);
    if (key && (reason instanceof BackgroundRun || reason instanceof IdleWork)) {
      watch.add(res, { isValid: () => keys.named(key.name, Date.now()) !== undefined, end: () => traffic.cancel(res, keyGone(key.name)) });
    } else if (key && req.method === 'GET') {
      watch.add(res, { isValid: () => isSameUser(key, letIn(keys, req.headers)?.key), end: () => res.destroy() });
    }
    next();
  };
}

function clientOf(res: Response): string {
  return keyOf(res)?.name ?? askedFor(res.req) ?? res.req.socket.remoteAddress ?? '';
}

/** `before` runs before every handler, `body` before the handlers that read a body. */
function route(app: Express, traffic: Traffic, one: Route, before: readonly RequestHandler[], body: readonly RequestHandler[]): void {
  const noteRoute: RequestHandler = (_req, res, next) => {
    factsOf(res).route = one.paths[0]!;
    next();
  };
  const path = app.route(one.paths as unknown as string).all(noteRoute, ...before, (_req, _res, next) => next());
  const all = [one, ...[one.also ?? []].flat()];
  const read = one.mayLackBody ? body.map(unlessEmpty) : body;
  for (const { method, handler, bodiless, takesBody } of all) path[method](...((method === 'post' && !bodiless) || takesBody ? read : []), traffic.held(handler));
  const allow = [...all.map(({ method }) => (method === 'get' ? 'GET, HEAD' : method.toUpperCase())), 'OPTIONS'].join(', ');
  path.all((req: Request, res: Response) => {
    res.set('Allow', allow);
    throw new RecuaError('method_not_allowed', `Expected one of ${allow} for ${req.path.slice(0, 200)}, got ${req.method}.`);
  });
}

function unlessEmpty(handler: RequestHandler): RequestHandler {
  return (req, res, next) => {
    if (hasBody(req)) return handler(req, res, next);
    req.body ??= {};
    next();
  };
}

/** Runs before the body is read: there is no use in receiving a request that will be refused. */
function refuseWhileDraining(traffic: Traffic): RequestHandler {
  return (_req: Request, _res: Response, next: NextFunction) => {
    traffic.admit();
    next();
  };
}
