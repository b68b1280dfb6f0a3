// The HTTP API over loaded models, as an app that a program mounts in its own server.
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { singleModel } from '../engine/model-pool/single-model.js';
import { makeConfig } from '../settings/config.js';
import { createMountedApp } from '../server/app.js';
import { appSettings } from '../settings/server.js';
import type { OptionsOf, ValuesOf } from '../settings/kinds.js';
import { isServedName, servedNameRule } from '../models/names/served-name.js';
import { isObject, wrongType, wrongValue } from '../request/fields.js';
import { readSettings } from '../request/setting-fields.js';
import { Model, servingModelOf } from './model.js';
import { poolOf, type Models } from './models.js';
import { openOptions } from './options.js';

/** Options for serving several models. */
export interface ModelsServerOptions extends Omit<ServerOptions, 'alias'> {
  /**
   * The models of {@link openModels}; a request that names none gets the first of its option
   * `models`, or an error if that was not given.
   */
  models: Models;
}

/** Request defaults and limits of the HTTP API. */
export interface ServerOptions extends OptionsOf<typeof appSettings> {}

/**
 * An Express app. Mount it (`app.use('/llm', server)`), pass it to `http.createServer` or, with a
 * certificate, to `https.createServer`, or call its `listen`.
 */
export interface ServerApp {
  (request: IncomingMessage, response: ServerResponse, next?: (error?: unknown) => void): unknown;
  /** Starts a `node:http` server with only this app. */
  listen(port: number, host: string, listening?: () => void): Server;
  listen(port: number, listening?: () => void): Server;
  /**
   * Ends the app, not its models: it answers new requests that need a model with a 503, and running
   * answers complete. Then it removes the responses, files and batches that it stored. Without
   * this, an app stays in memory for as long as its models.
   */
  close(): void;
}

/**
 * Creates the HTTP API of `recua api` over one model or several, with the OpenAI-compatible routes
 * under `/v1` of the mount path.
 *
 * With `strict: true` in `response_format.json_schema` or in a tool's `function`, the API enforces
 * the whole JSON schema: a keyword that it cannot enforce (`uniqueItems`, `not`, `if` …) is a 400
 * error with the JSON pointer of that keyword. Without it, and for schemas of the `json_object`
 * format and the field `json_schema`, the answer's `warnings` list such keywords. `strict` defaults
 * to `false`, as in OpenAI's API.
 *
 * If the program has set up OpenTelemetry, each request is a span.
 *
 * The app parses request bodies itself: mount it before any `express.json()`. If `apiKey` is set,
 * requests need a key. The app does not own the models: dispose of them after you close the server.
 * After that, requests get a 503.
 *
 * @throws RecuaError `invalid_type` if the argument is neither a model of {@link loadModel} nor has
 *   models of {@link openModels}, or is a leased model; `invalid_value` for options
 */
export function createServer(model: Model, options?: ServerOptions): ServerApp;
export function createServer(options: ModelsServerOptions): ServerApp;
export function createServer(model: Model | ModelsServerOptions, options: ServerOptions = {}): ServerApp {
  if (!(model instanceof Model) && isObject(model) && 'models' in model) return serverOfSeveral(model);
  const { engine, served, path, release } = servingModelOf(model as Model);
  if (release) throw wrongType('model', 'a model of loadModel() (createServer({ models }) serves those that models.lease() gives)', model);
  const { alias = '', ...given } = readOptions(options, Object.keys(appSettings));
  if (alias !== '' && !isServedName(alias)) throw wrongValue('alias', servedNameRule, alias);
  const pool = singleModel(engine, alias === '' ? served : { ...served, id: alias, aliases: [...served.aliases, served.id] });
  const pools = changedWith(model as Model);
  pools.add(pool);
  return createMountedApp({
    pool,
    config: makeConfig({ ui: false, ...given, model: path }),
    log: (level, text) => void (model as Model).emit('log', level, text),
  }, () => pools.delete(pool));
}

/** An empty key, as of a variable that is not set, would leave the server open to everyone. */
function readOptions(options: object, known: readonly string[]): Partial<ValuesOf<typeof appSettings>> {
  const settings = readSettings(openOptions(options, known), appSettings);
  if (settings.apiKey === '') throw wrongValue('apiKey', 'a key (leave it out if requests need none)', '');
  return settings;
}

type SinglePool = ReturnType<typeof singleModel>;

/** Told of each change of a model: one listener serves all its apps. */
const changed = new WeakMap<Model, Set<SinglePool>>();

function changedWith(model: Model): Set<SinglePool> {
  const known = changed.get(model);
  if (known) return known;
  const pools = new Set<SinglePool>();
  changed.set(model, pools);
  for (const event of ['loading', 'ready', 'crashed', 'failed', 'closed'] as const) {
    model.on(event, () => { for (const pool of pools) pool.stateChanged(); });
  }
  return pools;
}

function serverOfSeveral({ models, ...options }: ModelsServerOptions): ServerApp {
  const pool = poolOf(models);
  const known = Object.keys(appSettings).filter((name) => name !== 'alias');
  return createMountedApp({
    pool, config: makeConfig({ ui: false, ...readOptions(options, known) }),
    log: (level, text) => void models.emit('log', level, text),
  });
}
