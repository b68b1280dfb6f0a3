// A server in the foreground, from start to shutdown: over one fixed model, or over a pool of
// several. Called by api; `serve start` uses servingOf to check beforehand what it would serve.
import { randomBytes, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { resolve } from 'node:path';
import { isServedName, servedNameRule } from '../../models/names/served-name.js';
import { shellWord } from '../../models/names/shell-word.js';
import { socketPath } from '../../settings/address.js';
import { defaults, makeConfig } from '../../settings/config.js';
import type { Config } from '../../settings/config.js';
import type { Engine } from '../../engine/api.js';
import { startEngine } from '../../engine/gateway/client.js';
import { startPool } from '../../engine/model-pool/pool.js';
import { dropSpare } from '../../engine/gateway/spare-process.js';
import { removeLeftOvers, SleepCache, sleepSettings } from '../../engine/sleep/sleep-cache.js';
import { singleModel } from '../../engine/model-pool/single-model.js';
import type { SingleModelPool } from '../../engine/model-pool/single-model.js';
import { deviceBudget } from '../../engine/offload.js';
import type { ModelPool } from '../../engine/pool-api.js';
import type { EngineOptions, ModelDescription } from '../../engine/protocol.js';
import { RecuaError } from '../../errors.js';
import { readModelFile } from '../../models/gguf/model-file.js';
import { ensureFits } from '../../models/needs/fit.js';
import { findPlaces } from '../../models/places.js';
import { asItIsNow, findModel, markUsed, nameAnywhere } from '../../models/store.js';
import type { StoredModel } from '../../models/store.js';
import type { RequestDefaults } from '../../request/sampling-fields.js';
import { placeText } from '../devices.js';
import { engineOptions } from '../flags/engine-flags.js';
import { misuse } from '../flags/flags.js';
import { findSettings, readModelsFile } from '../flags/models-file.js';
import { modelShelf, type ServedFiles } from './model-shelf.js';
import { savedChats } from './saved-chats.js';
import { anyModel } from '../chat/sessions/session.js';
import type { LogFile } from './log-file.js';
import { jsonLine, plainLine } from '../terminal/log-line.js';
import { checkContext, showLoading } from '../terminal/model-loading.js';
import { engineLog, engineLogLevel, LoadingLine, makeLog, say, sayError } from '../terminal/output.js';
import { aborted } from '../terminal/signals.js';
import { plain } from '../terminal/wording.js';
import { pageLines, reachable } from '../servers/connection.js';
import { registerServer } from '../servers/registry.js';
import { describePortInUse } from './port-owner.js';
import { severalModels } from './several-models.js';
import type { SeveralModels } from './several-models.js';
import { onDemand, type FirstUse, type ServerRecord } from './state-file.js';
import { StderrLog } from './stderr-log.js';

/** What a server serves; `open` starts it. */
export interface Serving {
  /** For the state file. */
  record: ServerRecord['model'];
  /** For the log. */
  title: string;
  /** Why requests that name no model would fail; undefined if they would not. */
  defaultFailure?: Error | undefined;
  open(output: Output, config: Config): OpenServing;
}

interface OpenServing {
  pool: ModelPool;
  defaultsOf?: (id: string) => Partial<RequestDefaults>;
  files: ServedFiles;
  /** Loads the models that are loaded at start. Resolves to the model if there is only one. */
  load(): Promise<ModelDescription | undefined>;
  close(): Promise<void>;
}

/** One fixed model, unless several are named or a setting needs a pool. */
export async function servingOf(names: readonly string[], config: Config): Promise<Serving> {
  const [only] = names;
  const file = config.models === '' ? undefined : await readModelsFile(config.models);
  // If the config file lists models, it gives these their settings and does not affect others.
  const isOfFile = file !== undefined && !(file.isConfig && names.length === 1 && !findSettings(file, only!));
  const isPool = isOfFile || (['keepAliveMs', 'maxModels', 'maxMemoryBytes'] as const).some((key) => config[key] !== defaults[key]);
  if (only !== undefined && names.length === 1 && !isPool) return await oneModel(only, config);
  if (config.alias !== '') throw misuse('--alias works only with one model that stays loaded. Otherwise name models in a file: recua api --models FILE');
  return severalServing(await severalModels({ names, file, config }), config);
}

/** Reads and checks the model's file. */
async function oneModel(name: string, given: Config): Promise<Serving> {
  const model = await findModel(name);
  const file = await readModelFile(model.path);
  await markUsed(model);
  const config = makeConfig({ ...given, model: model.path });
  const warning = ensureFits(file, config);
  if (config.alias !== '' && !isServedName(config.alias)) throw misuse(`Expected ${servedNameRule} for --alias, got ${JSON.stringify(config.alias)}.`);
  const named = withAlias(model, config.alias);
  return {
    record: { name, path: model.path, id: config.alias || model.id, names: [nameAnywhere(name, model)] },
    title: named.id,
    open(output) {
      const log = engineLog(output.log);
      if (warning !== undefined) output.log('warn', warning);
      const sleep = config.cacheDiskBytes > 0 ? new SleepCache(sleepSettings(config, findPlaces().state), log) : undefined;
      if (!sleep) void removeLeftOvers();
      let path = model.path;
      let options = { ...engineOptions(path, config, file), sleep: sleep?.placeOf(named.key, named.id) };
      const optionsNow = async (): Promise<EngineOptions> => {
        const { path: now } = await asItIsNow(model);
        if (now !== path) {
          options = { ...engineOptions(now, makeConfig({ ...config, model: now }), await readModelFile(now)), sleep: options.sleep };
          path = now;
        }
        return options;
      };
      const logLevel = engineLogLevel(config.logLevel);
      const onState = (): void => pool.stateChanged();
      const engine = startEngine(options, { log, logLevel, stateFolder: stateFolder(config), optionsNow, onState });
      const pool: SingleModelPool = singleModel(engine, named);
      const close = async (): Promise<void> => {
        await pool.sole.close(0, sleep?.lasts);
        await sleep?.settle(named.key, [named.key]);
      };
      const files = { pathOf: () => Promise.resolve(path), chosen: [named] };
      return { pool, files, load: () => loading(pool.sole, named.id, output), close };
    },
  };
}

/** The folder where engines may save states; undefined if they may not. */
function stateFolder({ slotSavePath }: Config): string | undefined {
  return slotSavePath === '' ? undefined : resolve(slotSavePath);
}

function severalServing(models: SeveralModels, config: Config): Serving {
  const { maxModels, maxMemoryBytes } = config;
  const { catalogue, defaultsOf, files, preload, only, names, devices, defaultFailure, onWarning } = models;
  const others = files.chosen.length - preload.length;
  const title = preload.length > 0 ? `${preload.join(', ')}${others > 0 ? ` and ${others} more on demand` : ''}` : onDemand;
  return {
    record: { name: only?.unlisted[0] ?? only?.id ?? '', path: only?.path ?? '', id: only?.id ?? title, names },
    title,
    defaultFailure,
    open(output, { logLevel }) {
      // The spare process is not allowed to write where these models keep their conversations.
      dropSpare();
      onWarning((text) => output.log('warn', text));
      const pool = startPool(catalogue, {
        maxModels,
        maxMemoryBytes,
        maxDeviceBytes: deviceBudget(devices),
        sleep: sleepSettings(config, findPlaces().state),
        log: engineLog(output.log),
        logLevel: engineLogLevel(logLevel),
        engines: { stateFolder: stateFolder(config) },
      });
      return { pool, defaultsOf, files, load: () => loadAll(pool, preload, output), close: () => pool.close(0) };
    },
  };
}

export interface Output {
  log: ReturnType<typeof makeLog>;
  /** For the user at the terminal, and for the log if it is a file. */
  tell(text: string): void;
  /** Only for a log file: on the terminal the user sees it anyway. */
  note: ReturnType<typeof makeLog>;
  /** Started by `recua serve`: stderr is only for the last words. */
  managed: boolean;
  /** No person reads stderr. */
  quiet: boolean;
  close(): Promise<void>;
}

export async function openOutput({ logLevel, logFormat }: Pick<Config, 'logLevel' | 'logFormat'>, path: string, managed: boolean): Promise<Output> {
  const isJson = logFormat === 'json';
  if (path === '') {
    const stderr = new StderrLog((level, text, fields) => say(isJson ? jsonLine(level, text, fields) : plainLine(level, text)));
    const log = makeLog(logLevel, stderr.write);
    return { log, tell: isJson ? (line) => log('info', line) : say, note: () => undefined, managed, quiet: managed || isJson, close: () => stderr.close() };
  }
  const { LogFile: File } = await import('./log-file.js');
  const file: LogFile = new File(path, say, {}, logFormat);
  const log = makeLog(logLevel, (...line) => file.write(...line));
  return {
    log, note: log, managed, quiet: managed,
    tell(line) {
      if (!managed) say(line);
      log('info', line);
    },
    close: () => file.close(),
  };
}

interface Change extends Pick<ServerRecord, 'offload' | 'contextSize' | 'firstUse'> {
  state?: 'running' | 'stopping';
  url?: string;
  certificate?: string | undefined;
  port?: number;
}

type Tell = (change: Change) => Promise<void>;

export async function serve(
  serving: Serving, config: Config, output: Output, update: Tell, stopped: AbortSignal, keyFile?: string,
): Promise<number> {
  const { log, tell } = output;
  // Loaded on demand: most servers send no traces.
  const traces = asksForTraces(config.traces) ? await (await import('./trace-export.js')).startTraces(config.traces, log) : undefined;
  // Before the engine's own messages.
  output.note('info', `Loading ${plain(serving.title)}`);
  const { pool, defaultsOf, files, load, close } = serving.open(output, config);
  try {
    // Loaded on demand: Express alone costs a third of the start of any other command.
    const { listen } = await import('../../server/listen.js');
    const ownKey = config.apiKey === '' && config.apiKeyFile === '' ? undefined : randomBytes(24).toString('base64url');
    const defaultModel = async (): Promise<string> => await pool.find(undefined).then(({ id }) => id, () => anyModel);
    let isStarting = true;
    const server = await listen({
      pool,
      isStarting: () => isStarting,
      config,
      log,
      ownKey,
      keyFile,
      keepIn: findPlaces().state,
      shelf: modelShelf(files),
      savedChats: config.uiSessions ? savedChats(findPlaces().sessions, defaultModel) : undefined,
      ...(defaultsOf ? { defaultsOf } : {}),
    }).catch(async (thrown: unknown) => {
      const error = RecuaError.from(thrown);
      throw error.code === 'port_in_use' && socketPath(config.host) === undefined ? await describePortInUse(error, config.host, config.port) : error;
    });
    const { url, port } = server;
    const startedAt = new Date().toISOString();
    const paths = files.chosen.map(({ path }) => path).filter((path) => path !== '');
    const enter = async (): Promise<() => void> =>
      await registered({ url, key: ownKey, certificate: server.certificate(), startedAt, files: paths }, output);
    let entered = enter();
    let hasLeft = false;
    server.onCertificate((certificate) => {
      if (hasLeft) return;
      // The new entry is written before the old one is removed.
      entered = Promise.all([entered, enter()]).then(([leave, next]) => { leave(); return next; });
      void update({ certificate }).catch(sayError);
    });
    try {
      await entered;
      await update({ url, port, certificate: server.certificate() });
      const loaded = await Promise.race([load().finally(() => { isStarting = false; }).then((model) => ({ model })), aborted(stopped)]);
      if (loaded) {
        const { model } = loaded;
        await update({ state: 'running', ...(model ? { offload: model.offload, contextSize: model.contextSize, firstUse: firstUseOf(model) } : {}) });
        if (socketPath(config.host) === undefined && !isLoopback(config.host) && ownKey === undefined) tell(`Warning: anyone who can reach ${config.host} port ${port} can use this server, because it requires no key (--api-key).`);
        tell(`Recua listens on ${url}`);
        if (!pool.sole && !output.quiet) await Promise.race([sayModels(pool), aborted(stopped)]);
        if (config.ui && !output.quiet && port !== 0) say(pageLines(url).join('\n'));
        if (!output.quiet) say(`Try: ${model ? curlLine(firstUseOf(model), reachable(url), ownKey !== undefined, config.tlsCert) : `${curlWords(reachable(url), config.tlsCert)}/v1/models${keyWords(ownKey !== undefined)}`}`);
        await aborted(stopped);
      }
      tell(output.quiet ? 'Stopping' : 'Stopping; Ctrl-C again stops at once.');
      // A failed update must not keep the server from stopping.
      await update({ state: 'stopping' }).catch(sayError);
    } finally {
      // From here on the server takes no new requests, except until balancers have heard it.
      hasLeft = true;
      (await entered)();
      await server.close(config.drainMs);
    }
    return 0;
  } finally {
    await close();
    await traces?.close();
    output.note('info', 'Stopped.');
  }
}

function asksForTraces(given: string, env = process.env): boolean {
  return given !== '' || ['OTEL_EXPORTER_OTLP_ENDPOINT', 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'].some((name) => Boolean(env[name]));
}

/** If registration fails, the server runs anyway; commands just cannot find it. */
async function registered(server: Omit<Parameters<typeof registerServer>[0], 'managed'>, { log, managed }: Output): Promise<() => void> {
  return await registerServer({ ...server, managed }).catch((cause: Error) => {
    log('warn', `recua ps and other commands will not find this server: ${cause.message}`);
    return () => undefined;
  });
}

/** Most names in one line. */
const mostNames = 5;

async function sayModels(pool: ModelPool): Promise<void> {
  // Those that cannot be used were told.
  const ids = (await pool.list().catch(() => [])).filter(({ state }) => state.state !== 'failed').map(({ id }) => id);
  const others = ids.length - mostNames;
  if (ids.length > 0) say(`Models: ${ids.slice(0, mostNames).join(', ')}${others > 0 ? ` and ${others} more (recua ps --all)` : ''}`);
  const usual = await pool.find(undefined).catch(() => undefined);
  if (usual) say(`Default: ${usual.id}`);
}

/** The file's own name still finds a model with an alias. */
function withAlias(model: StoredModel, alias: string): StoredModel {
  return alias === '' ? model : { ...model, id: alias, aliases: [...model.aliases, model.id] };
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'));
}

async function loading(engine: Engine, id: string, { tell, quiet }: Output): Promise<ModelDescription> {
  const model = await showLoading(engine, `Loading ${id}`, quiet, engine.ready());
  checkContext(model);
  describeModel(model, tell);
  return model;
}

/**
 * Loads one after the other. A model that does not load is reported, and the others are served.
 * Throws if none loads and the server has no others.
 */
async function loadAll(pool: ModelPool, ids: readonly string[], { tell, quiet }: Output): Promise<undefined> {
  const failures: RecuaError[] = [];
  for (const id of ids) {
    const line = new LoadingLine(`Loading ${id}`, quiet);
    const stop = pool.onChange((model) => {
      if (model.id === id && model.state.state === 'loading') line.show(model.state.fraction);
    });
    try {
      const { known } = await pool.load(id);
      line.end();
      if (known) {
        checkContext(known);
        describeModel(known, tell, `${id}: `);
      }
    } catch (thrown) {
      const error = RecuaError.from(thrown);
      failures.push(error);
      if (failures.length === ids.length && (await pool.list()).every(({ state }) => state.state === 'failed')) throw error;
      line.end();
      tell(`Warning: ${id} is not loaded: ${error.message}`);
    } finally {
      stop();
      line.end();
    }
  }
}

function describeModel(model: ModelDescription, tell: (text: string) => void, prefix = ''): void {
  tell(`${prefix}${model.description}: ${model.contextSize} tokens of context${model.parallel > 1 ? ` for each of ${model.parallel} requests at once` : ''}`);
  tell(`${prefix}${placeText(model)}`);
  for (const one of model.notes) tell(`${prefix}Note: ${one}`);
}

function firstUseOf({ canGenerate, canRerank }: ModelDescription): FirstUse {
  return canGenerate ? 'chat' : canRerank ? 'rerank' : 'embeddings';
}

const firstRequests: Record<FirstUse, { path: string; body: object }> = {
  chat: { path: '/v1/chat/completions', body: { messages: [{ role: 'user', content: 'Hello! Who are you?' }] } },
  embeddings: { path: '/v1/embeddings', body: { input: 'Hello!' } },
  rerank: { path: '/v1/rerank', body: { query: 'a fruit', documents: ['an apple', 'a stone'] } },
};

/** A request to paste into a shell. */
export function curlLine(use: FirstUse, url: string, asksForKey = false, tlsCert = ''): string {
  const { path, body } = firstRequests[use];
  return `${curlWords(url, tlsCert)}${path}${keyWords(asksForKey)} -H 'Content-Type: application/json' -d '${JSON.stringify(body)}'`;
}

/** curl needs the path of a self-signed certificate. */
function curlWords(url: string, tlsCert: string): string {
  const path = socketPath(url);
  if (path !== undefined) return `curl --unix-socket ${shellWord(path)} http://localhost`;
  return `curl${isSelfSigned(tlsCert) ? ` --cacert ${shellWord(tlsCert)}` : ''} ${url}`;
}

function isSelfSigned(path: string): boolean {
  try {
    const { issuer, subject } = new X509Certificate(readFileSync(path));
    return issuer === subject;
  } catch {
    return false;
  }
}

function keyWords(asksForKey: boolean): string {
  if (!asksForKey) return '';
  return ` -H "Authorization: Bearer ${process.env['RECUA_API_KEY'] ? '$RECUA_API_KEY' : 'YOUR_KEY'}"`;
}
