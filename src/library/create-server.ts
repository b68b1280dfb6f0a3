// The HTTP API over a loaded model, as an app to mount in a server of the program's own.
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { makeConfig } from '../settings/config.js';
import { createApp } from '../server/app.js';
import { int32Max } from '../request/fields.js';
import { servingModelOf, type Model } from './model.js';
import { openOptions } from './options.js';

/** What the HTTP API does where requests say nothing, and how much it takes. */
export interface ServerOptions {
  /** The model's name for clients, instead of its own; that still finds it. */
  alias?: string | undefined;
  /** Most tokens of an answer whose request sets no bound. Default 2048. */
  maxTokens?: number | undefined;
  /** Temperature of requests that name none. Default 0.7. */
  temperature?: number | undefined;
  /** Largest request body in bytes. Default 32 MiB. */
  bodyLimitBytes?: number | undefined;
  /** Memory for the bodies of all requests together, in bytes, 4 for each of theirs; more get a 503. 0, the default, is a quarter of what V8 may use. */
  bodyMemoryBytes?: number | undefined;
  /** An empty chunk after so much silence on an event stream, so that clients keep it open; 0 is off. Default 10,000. */
  pingIntervalMs?: number | undefined;
}

/** An Express app: mount it (`app.use('/llm', server)`), give it to `http.createServer`, or let it listen by itself. */
export interface ServerApp {
  (request: IncomingMessage, response: ServerResponse, next?: (error?: unknown) => void): unknown;
  /** Starts a server of `node:http` with this app alone. */
  listen(port: number, host: string, listening?: () => void): Server;
  listen(port: number, listening?: () => void): Server;
}

/**
 * The HTTP API over a model: what `recua api` serves, in OpenAI's words, under `/v1` of wherever it is mounted.
 *
 * A JSON schema is enforced as a whole where the request says `strict: true`, of `response_format.json_schema` or of a tool's `function`: a keyword
 * that cannot be enforced (`uniqueItems`, `not`, `if` …) is a 400 with its JSON pointer. Without `strict`, or with `false`, which is the default
 * as in OpenAI's API, and with `json_object` or `json_schema`, the answer's `warnings` name it.
 *
 * It reads bodies itself: mount it before any `express.json()`. It asks for no key. The model stays the program's: dispose of it after the
 * server is closed; from then on requests get a 503.
 *
 * @throws RecuaError `invalid_type` for what is no model of {@link loadModel}, `invalid_value` for options
 */
export function createServer(model: Model, options: ServerOptions = {}): ServerApp {
  const { engine, served, path } = servingModelOf(model);
  const fields = openOptions(options, ['alias', 'maxTokens', 'temperature', 'bodyLimitBytes', 'bodyMemoryBytes', 'pingIntervalMs']);
  const alias = fields.string('alias') ?? '';
  const given = {
    maxTokens: fields.integer('maxTokens', { min: 1, max: int32Max }),
    temperature: fields.number('temperature', { min: 0, max: 100 }),
    bodyLimitBytes: fields.integer('bodyLimitBytes', { min: 1, max: 1024 ** 3 }),
    bodyMemoryBytes: fields.integer('bodyMemoryBytes', { min: 0, max: 1024 ** 4 }),
    pingIntervalMs: fields.integer('pingIntervalMs', { min: 0, max: int32Max }),
  };
  return createApp({
    engine,
    config: makeConfig({ ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)), model: path }),
    model: alias === '' ? served : { ...served, id: alias, aliases: [...served.aliases, served.id] },
    log: (level, text) => void model.emit('log', level, text),
  });
}
