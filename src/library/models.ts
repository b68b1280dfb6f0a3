// Several models, loaded on demand: the pool of `recua api`, with each lease as a Model. openModels
// makes it; createServer can serve it.
import { EventEmitter } from 'node:events';
import { deviceBudget } from '../engine/offload.js';
import { startPool } from '../engine/model-pool/pool.js';
import { findGpus } from '../engine/gateway/survey.js';
import type { FileChange, Lease, LeaseOptions as PoolLeaseOptions, ModelPool, ModelState, PoolModel } from '../engine/pool-api.js';
import { sleepSettings } from '../engine/sleep/sleep-cache.js';
import { RecuaError } from '../errors.js';
import { ofProgram } from './load-model.js';
import { isServedName, servedNameRule } from '../models/names/served-name.js';
import { readModelFile } from '../models/gguf/model-file.js';
import { makeCatalogue, type OwnSettings } from '../models/served/catalogue.js';
import { chosenModels, storeModels, type ServedModels } from '../models/served-models.js';
import { findPlaces } from '../models/places.js';
import { findModel, type StoredModel } from '../models/store.js';
import { checkName, wrongType, wrongValue } from '../request/fields.js';
import { readSettings } from '../request/setting-fields.js';
import { engineConfigSettings, makeConfig, type Config } from '../settings/config.js';
import type { OptionsOf } from '../settings/kinds.js';
import { poolSettings } from '../settings/server.js';
import { telling } from './listeners.js';
import { Model } from './model.js';
import { modelInfo, type ModelInfo } from './model-info.js';
import { drainOf, orReject, openOptions, readFunction, readSignal, type LoadOptions } from './options.js';

/** One of several models. Its own settings override the shared ones. */
export interface ModelOptions extends OptionsOf<typeof engineConfigSettings> {
  /** The path of a GGUF file, a model in the store, or `builtin`. */
  model: string;
  /** Other names for it. */
  aliases?: readonly string[] | undefined;
  /** How long it stays loaded after its last lease, in milliseconds; below 0 means forever. */
  keepAliveMs?: number | undefined;
  /** Loads it before `openModels` resolves, and never unloads it for another. Default `false`. */
  pinned?: boolean | undefined;
  /** At most one model of a group is loaded at a time. */
  group?: string | undefined;
}

/** Which models to open, how to load them, and their limits. */
export interface OpenOptions extends OptionsOf<typeof engineConfigSettings>, OptionsOf<typeof poolSettings> {
  /**
   * The models by name, at least one. The first is the default model. Default: all complete models
   * that `recua list` shows, and no default model.
   */
  models?: Readonly<Record<string, ModelOptions>> | undefined;
  /** Called with each log line from the start, as the `log` event is. */
  onLog?: LoadOptions['onLog'];
}

/** Options for leasing a model. */
export interface LeaseOptions {
  /**
   * How long the model stays loaded after this lease, in milliseconds; below 0 means forever.
   * Default: the model's own setting.
   */
  keepAliveMs?: number | undefined;
  /** Called while the model loads, with the fraction that is loaded, 0 to 1. */
  onProgress?: ((fraction: number) => void) | undefined;
  /** Aborts the wait; `lease` then rejects with `cancelled`. */
  signal?: AbortSignal | undefined;
}

/** State of one of several models. */
export interface ModelStatus {
  id: string;
  aliases: readonly string[];
  /**
   * `sleeping`: not loaded, with its conversations on disk; `unloading`: unloads when its running
   * work is done.
   */
  state: ModelState['state'];
  /** While loading: the fraction that is loaded, 0 to 1. */
  fraction?: number;
  /** Why loading failed. A request tries again if something has changed, or after a pause. */
  error?: RecuaError;
  /**
   * Its properties when it was last loaded; undefined if it never was, or if another file has its
   * name now.
   */
  info: Omit<ModelInfo, 'path'> | undefined;
  /**
   * Set if its file was replaced or removed since it was loaded. The loaded model stays in use; the
   * next load takes the file that is there then.
   */
  fileChange?: FileChange;
  /** Id of its engine process; undefined if there is none. */
  pid: number | undefined;
  /** Memory that it takes, or is expected to take, in bytes; 0 if unknown. */
  memoryBytes: number;
  pinned: boolean;
  /** Leases and requests that hold it or wait for it. */
  leases: number;
  /** When it will be unloaded if unused; undefined if never, or if it is not loaded. */
  expires: Date | undefined;
}

/** Events and the arguments of their listeners. */
export interface ModelsEvents {
  /** A model's state or its loading progress changed. */
  change: [status: ModelStatus];
  /** A log line. The log never contains prompts or answers. */
  log: [level: 'debug' | 'info' | 'warn' | 'error', text: string];
}

const pools = new WeakMap<Models, ModelPool>();

/** The pool behind several models, for createServer. */
export function poolOf(models: Models): ModelPool {
  const pool = pools.get(models);
  if (!pool) throw wrongType('models', 'models of openModels()', models);
  return pool;
}

/**
 * Several models. Each runs in its own process, which starts when the model is first needed. {@link
 * openModels} makes them.
 *
 * Release a leased model with the model's `dispose()`; end all models with the `dispose()` of this
 * object. A leased model is never unloaded for another.
 */
export class Models extends EventEmitter<ModelsEvents> implements AsyncDisposable {
  readonly #pool: ModelPool;
  readonly #served: ServedModels;
  readonly #leased = new Map<Model, Lease>();
  #disposing: Promise<void> | undefined;

  /** @internal */
  constructor(pool: ModelPool, served: ServedModels) {
    super();
    this.#pool = pool;
    this.#served = served;
    pools.set(this, pool);
    pool.onChange((model) => {
      for (const [leased, lease] of this.#leased) {
        // While it unloads, nothing happens to the engine.
        if (lease.id === model.id && model.state.state !== 'unloading') telling(() => leased.heed(lease.engine.state));
      }
      telling(() => this.emit('change', status(model)));
    });
  }

  /**
   * Leases a model. Loads it if necessary, which may unload another one. It stays loaded until you
   * call `dispose()` on the returned model:
   *
   * ```ts
   * const chat = await models.lease('chat');
   * console.log((await chat.chat('Hello!')).content);
   * await chat.dispose();
   * ```
   *
   * @param name its name or an alias; default: the first of the option `models`
   * @throws RecuaError (as a rejection) `model_not_found`, the codes of a failed load,
   *   `model_too_large` if it cannot fit, `queue_full`, `cancelled`, `closed`
   */
  async lease(name?: string, options: LeaseOptions = {}): Promise<Model> {
    const fields = openOptions(options, ['keepAliveMs', 'onProgress', 'signal']);
    const keepAliveMs = fields.integer('keepAliveMs', poolSettings.keepAliveMs);
    const onProgress = readFunction<(fraction: number) => void>(fields, 'onProgress');
    const signal = readSignal(fields);
    if (name !== undefined) checkName(name, 'name', mostNameLength);
    const tell = (fraction: number): void => telling(() => onProgress?.(fraction));
    const wish: PoolLeaseOptions = {
      ...(keepAliveMs === undefined ? {} : { keepAliveMs: keepAliveMs < 0 ? Infinity : keepAliveMs }),
      ...(signal ? { signal } : {}),
      onWait: (state) => {
        if (state.state === 'loading') tell(state.fraction);
      },
    };
    const lease = await this.#asking(() => this.#pool.lease(name, wish));
    const { path } = await this.#served.find(lease.id).catch(() => ({ path: '' }));
    tell(1);
    const model: Model = new Model({
      engine: lease.engine, description: lease.model, path,
      served: { id: lease.id, aliases: [], createdSeconds: 0 },
      release: () => {
        this.#leased.delete(model);
        lease.release();
      },
    });
    this.#leased.set(model, lease);
    return model;
  }

  /** Lists all models, loaded or not. */
  async list(): Promise<ModelStatus[]> {
    return (await this.#asking(() => this.#pool.list())).map(status);
  }

  /** Loads a model if it is not loaded, and waits until it is ready. */
  async load(name: string): Promise<ModelStatus> {
    return status(await this.#asking(() => this.#pool.load(checkName(name, 'name', mostNameLength))));
  }

  /**
   * Unloads a model once its leases and requests end, and waits until it is unloaded. Its state is
   * then `sleeping` if its conversations are kept on disk, else `unloaded`.
   */
  async unload(name: string): Promise<ModelStatus> {
    return status(await this.#asking(() => this.#pool.unload(checkName(name, 'name', mostNameLength))));
  }

  /**
   * Ends all models, leased or not. You can call it at any time and more than once; running answers
   * reject with `closed`.
   *
   * @param options `drainMs`: how long running answers may continue first, in milliseconds (default
   *   0); `Infinity`: until they end. A later call shortens it for this program's answers
   */
  dispose(options: { drainMs?: number | undefined } = {}): Promise<void> {
    return orReject(() => {
      const drainMs = drainOf(options);
      if (!this.#disposing) return (this.#disposing = this.#close(drainMs));
      for (const model of this.#leased.keys()) void model.dispose({ drainMs }).catch(() => undefined);
      return this.#disposing;
    });
  }

  /** Calls `dispose()`; for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }

  async #close(drainMs: number): Promise<void> {
    // An answer whose model calls tools asks its engine again after each call.
    const answers = Promise.all([...this.#leased.keys()].map((model) => model.dispose({ drainMs })));
    await this.#pool.close(drainMs, answers);
  }

  async #asking<T>(ask: () => Promise<T>): Promise<T> {
    try {
      return await ask();
    } catch (thrown) {
      throw thrown instanceof RecuaError && thrown.code === 'shutting_down' ? new RecuaError('closed', 'The models were disposed of.') : thrown;
    }
  }
}

/**
 * Opens several models. Loads only the pinned ones; the others load on demand.
 *
 * ```ts
 * const models = await openModels({
 *   models: { chat: { model: 'chat.gguf', contextSize: 8192 }, embed: { model: 'embed.gguf' } },
 *   maxModels: 1,
 * });
 * // …
 * await models.dispose();
 * ```
 *
 * @throws RecuaError (as a rejection) `model_not_found`, `ambiguous_model`, `file_unreadable`,
 *   `invalid_gguf`, and `invalid_type` or `invalid_value` for options; for pinned models also the
 *   codes of a failed load
 */
export async function openModels(options: OpenOptions = {}): Promise<Models> {
  const fields = openOptions(options, ['models', 'onLog', ...Object.keys(engineConfigSettings), ...Object.keys(poolSettings)]);
  const onLog = readFunction<NonNullable<LoadOptions['onLog']>>(fields, 'onLog');
  const given = readSettings(fields, { ...engineConfigSettings, ...poolSettings });
  const config = makeConfig({ ...given });
  const named = fields.object('models');
  const wanted = Object.entries(named ?? {}).map(([name, one]) => readModel(name, one));
  if (named && wanted.length === 0) throw new RecuaError('invalid_value', 'Expected at least one model in models, got none; leave models out to open all that recua list shows.', { param: 'models' });
  const [chosen, settings] = await findAll(wanted);
  const devices = await findGpus([config, ...wanted.map((one) => makeConfig({ ...config, ...one.config }))]);
  const log = (level: 'debug' | 'info' | 'warn' | 'error', text: string): void => {
    telling(() => {
      onLog?.(level, text);
      models.emit('log', level, text);
    });
  };
  const served = chosen.length > 0 ? chosenModels(chosen, chosen[0]!.id, 'list()') : storeModels({ listedBy: 'list()', warn: (text) => log('warn', text) });
  const { maxModels, maxMemoryBytes } = config;
  const pool = startPool(makeCatalogue({ models: served, config, settings, devices }), {
    maxModels, maxMemoryBytes, maxDeviceBytes: deviceBudget(devices),
    sleep: sleepSettings(config, findPlaces().state), engines: ofProgram, log,
  });
  const models = new Models(pool, served);
  try {
    for (const { id } of chosen) if (settings.get(id)?.pinned) await pool.load(id);
  } catch (thrown) {
    await pool.close(0);
    throw thrown;
  }
  return models;
}

const mostNameLength = 200;

interface WantedModel extends OwnSettings {
  name: string;
  model: string;
  aliases: string[];
}

function checkServed(name: unknown, param: string): string {
  if (!isServedName(name)) throw wrongValue(param, servedNameRule, name);
  return name;
}

function readModel(name: string, options: unknown): WantedModel {
  checkServed(name, 'models');
  const known = ['model', 'aliases', 'pinned', 'group', 'keepAliveMs', ...Object.keys(engineConfigSettings)];
  const fields = openOptions(options as object, known, `models.${name}`);
  const model = fields.string('model');
  if (model === undefined || model === '') throw wrongType(fields.param('model'), 'the path of a GGUF file, a model of the store, or builtin', model);
  const group = fields.string('group');
  const config: Partial<Config> = readSettings(fields, { ...engineConfigSettings, keepAliveMs: poolSettings.keepAliveMs });
  const aliases = (fields.array('aliases', mostNameLength) ?? []).map((alias, index) => checkServed(alias, fields.param(`aliases[${index}]`)));
  for (const one of [name, ...aliases]) if (one.toLowerCase() === 'default') throw wrongValue('models', 'a name; "default" means the first model already', one);
  return { name, model, aliases, config, defaults: {}, pinned: fields.boolean('pinned') ?? false, ...(group === undefined ? {} : { group }) };
}

/** Finds and checks all files before anything is loaded. */
async function findAll(wanted: readonly WantedModel[]): Promise<[StoredModel[], Map<string, OwnSettings>]> {
  const chosen: StoredModel[] = [];
  const owners = new Map<string, string>();
  const pinned = new Map<string, string>();
  for (const { name, model, aliases, ...own } of wanted) {
    for (const one of [name, ...aliases]) {
      const owner = owners.get(one.toLowerCase());
      if (owner !== undefined) throw new RecuaError('invalid_value', `Expected each name once, got ${JSON.stringify(one)} for ${owner} and for ${name}.`, { param: 'models' });
      owners.set(one.toLowerCase(), name);
    }
    const other = own.pinned && own.group !== undefined ? pinned.get(own.group) : undefined;
    if (other !== undefined) throw new RecuaError('invalid_value', `Expected one pinned model at most in the group ${own.group}, got ${other} and ${name}.`, { param: 'models' });
    if (own.pinned && own.group !== undefined) pinned.set(own.group, name);
    const stored = await findModel(model);
    await readModelFile(stored.path);
    chosen.push({ ...stored, id: name, aliases, unlisted: [] });
  }
  return [chosen, new Map(wanted.map((one) => [one.name, one]))];
}

function status({ id, aliases, state, known, sizeBytes, pinned, leases, expiresMs, fileChange, pid }: PoolModel): ModelStatus {
  return {
    id, aliases, state: state.state, info: known && modelInfo(id, known), memoryBytes: sizeBytes, pinned, leases, pid,
    expires: expiresMs === undefined ? undefined : new Date(expiresMs),
    ...(state.state === 'loading' ? { fraction: state.fraction } : {}),
    ...(fileChange === undefined ? {} : { fileChange }),
    ...(state.state === 'failed' ? { error: RecuaError.fromPlain(state.error) } : {}),
  };
}
