// The HTTP API over a loaded model, as an app to mount in a server of the program's own.
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { singleModel } from '../engine/gateway/single-model.js';
import { makeConfig } from '../settings/config.js';
import { createApp } from '../server/app.js';
import { appSettings } from '../settings/server.js';
import type { OptionsOf } from '../settings/kinds.js';
import { isObject } from '../request/fields.js';
import { readSettings } from '../request/setting-fields.js';
import { Model, servingModelOf } from './model.js';
import { poolOf, type Models } from './models.js';
import { openOptions } from './options.js';

/** The HTTP API of several models. */
export interface ModelsServerOptions extends Omit<ServerOptions, 'alias'> {
  /** What {@link openModels} opened; requests name one of them. */
  models: Models;
}

/** What the HTTP API does where requests say nothing, and how much it takes. */
export interface ServerOptions extends OptionsOf<typeof appSettings> {}

/**
 * An Express app: mount it (`app.use('/llm', server)`), give it to `http.createServer`, or with a
 * certificate to `https.createServer`, or let it listen by itself.
 */
export interface ServerApp {
  (request: IncomingMessage, response: ServerResponse, next?: (error?: unknown) => void): unknown;
  /** Starts a server of `node:http` with this app alone. */
  listen(port: number, host: string, listening?: () => void): Server;
  listen(port: number, listening?: () => void): Server;
}

/**
 * The HTTP API over a model, or over several: what `recua api` serves, in OpenAI's words, under
 * `/v1` of wherever it is mounted.
 *
 * A JSON schema is enforced as a whole where the request says `strict: true`, of
 * `response_format.json_schema` or of a tool's `function`: a keyword that cannot be enforced
 * (`uniqueItems`, `not`, `if` …) is a 400 with its JSON pointer. Without `strict`, or with `false`,
 * which is the default as in OpenAI's API, and with `json_object` or `json_schema`, the answer's
 * `warnings` name it.
 *
 * Where the program has set up OpenTelemetry, each request is a span of it.
 *
 * It reads bodies itself: mount it before any `express.json()`. It asks for a key where
 * `apiKey` names one. The model, or
 * the models, stay the program's: dispose of them after the server is closed; from then on requests
 * get a 503.
 *
 * @throws RecuaError `invalid_type` for what is no model of {@link loadModel} and no models of
 *   {@link openModels}, `invalid_value` for options
 */
export function createServer(model: Model, options?: ServerOptions): ServerApp;
export function createServer(options: ModelsServerOptions): ServerApp;
export function createServer(model: Model | ModelsServerOptions, options: ServerOptions = {}): ServerApp {
  if (!(model instanceof Model) && isObject(model) && 'models' in model) return serverOfSeveral(model);
  const { engine, served, path } = servingModelOf(model as Model);
  const { alias = '', ...given } = readSettings(openOptions(options, Object.keys(appSettings)), appSettings);
  const pool = singleModel(engine, alias === '' ? served : { ...served, id: alias, aliases: [...served.aliases, served.id] });
  const changed = (): void => pool.stateChanged();
  for (const event of ['loading', 'ready', 'crashed', 'failed', 'closed'] as const) (model as Model).on(event, changed);
  return createApp({
    pool,
    config: makeConfig({ ui: false, ...given, model: path }),
    log: (level, text) => void (model as Model).emit('log', level, text),
  });
}

function serverOfSeveral({ models, ...options }: ModelsServerOptions): ServerApp {
  const pool = poolOf(models);
  const known = Object.keys(appSettings).filter((name) => name !== 'alias');
  return createApp({
    pool, config: makeConfig({ ui: false, ...readSettings(openOptions(options, known), appSettings) }),
    log: (level, text) => void models.emit('log', level, text),
  });
}
