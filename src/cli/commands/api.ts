// `recua api <model>`: the HTTP server over one engine, from the first listening to the last answer.
import { isIP } from 'node:net';
import { resolve } from 'node:path';
import { configSettings, makeConfig } from '../../settings/config.js';
import type { Config } from '../../settings/config.js';
import type { Engine } from '../../engine/api.js';
import { startEngine } from '../../engine/gateway/client.js';
import { singleModel } from '../../engine/gateway/single-model.js';
import type { SingleModelPool } from '../../engine/gateway/single-model.js';
import type { EngineOptions, ModelDescription, Offload } from '../../engine/protocol.js';
import { RecuaError } from '../../errors.js';
import { readModelFile } from '../../models/gguf/model-file.js';
import { findModel, markUsed } from '../../models/store.js';
import type { StoredModel } from '../../models/store.js';
import type { Arguments } from '../flags/arguments.js';
import { command } from '../command.js';
import { deviceListing, deviceListingJson, listDevices, placeText } from '../devices.js';
import { engineOptions } from '../flags/engine-flags.js';
import { misuse, perCall, settingNames, text } from '../flags/flags.js';
import type { Values } from '../flags/flags.js';
import { settingFlags, settingValues } from '../flags/setting-flags.js';
import type { LogFile } from '../serve/log-file.js';
import { checkContext, showLoading } from '../terminal/model-loading.js';
import { engineLog, engineLogLevel, makeLog, say, sayError } from '../terminal/output.js';
import { describePortInUse } from '../serve/port-owner.js';
import { register } from '../serve/state-file.js';
import type { Registration } from '../serve/state-file.js';
import { aborted, watchSignals } from '../terminal/signals.js';
import { recuaVersion } from './version.js';

/** Of every command that starts a server. */
export const serverFlags = settingFlags(configSettings);

export type ServerValues = Values<typeof serverFlags>;

export const api = command({
  name: 'api',
  aliases: [],
  operands: '<model>',
  summary: 'Start the HTTP API server',
  details: 'It listens at once; while the model loads, /health answers 503. Ctrl-C or SIGTERM lets running answers end and exits with 0, a second one stops at once. '
    + 'Neither prompts nor answers are ever logged. To run it in the background: recua serve.',
  examples: [
    ['recua api builtin', 'Serve the small embedded model on http://127.0.0.1:8080'],
    ['recua api model.gguf -c 8192 -np 2 -ngl -1', 'A model of your own: two requests of 8192 tokens at once, all layers on the GPU'],
    ['recua api -m model.gguf --host 0.0.0.0 --port 9000', 'For other machines, too; whoever reaches it may use it'],
  ],
  flags: {
    ...serverFlags,
    ...deviceListing,
    json: deviceListingJson,
    stateFile: perCall(text(['--state-file'], 'file', 'Tell there, as JSON, what runs at which address, as recua serve has it')),
  },
  async run(given) {
    const { values } = given;
    if (values.listDevices) return await listDevices(values.json);
    const name = namedModel('api', given);
    const model = await findModel(name);
    const file = await readModelFile(model.path);
    await markUsed(model);
    const { port, host, alias } = values;
    const config = makeConfig({ ...await settingValues(configSettings, values), model: model.path });
    const output = await openOutput(config.logLevel, values.logFile, values.stateFile !== '');
    let registration: Registration | undefined;
    // Before the record is there: a server that is stopped has not crashed.
    const stop = watchSignals();
    try {
      if (values.stateFile !== '') {
        registration = await register(resolve(values.stateFile), {
          host, port, model: { name, path: model.path, id: alias || model.id }, version: recuaVersion(),
          logFile: values.logFile === '' ? '' : resolve(values.logFile), settings: settingsOf(values),
        });
      }
      return await serve(served(model, alias), engineOptions(model.path, config, file), config, output, async (change) => await registration?.update(change), stop.signal);
    } catch (thrown) {
      output.note('error', RecuaError.from(thrown).message);
      throw thrown;
    } finally {
      await output.close();
      await registration?.release();
      stop.release();
    }
  },
});

/** The one model that operand, flag or setting names; the operand goes before a setting. */
export function namedModel(
  path: string, { values, operands, origins }: Pick<Arguments<Pick<typeof serverFlags, 'model'>>, 'values' | 'operands' | 'origins'>,
): string {
  const flagged = values.model !== '' && (origins.model.from === 'flag' || operands.length === 0);
  const [name, ...surplus] = [...(flagged ? [values.model] : []), ...operands];
  if (name === undefined) throw misuse(`Expected a model: recua ${path} <model>, where a model is the path of a GGUF file, a name that recua list shows, or builtin.`);
  if (surplus.length > 0) throw misuse(`Expected one model, got ${[name, ...surplus].join(' and ')}.`);
  return name;
}

/** Values by their flags' long names. */
function settingsOf(values: ServerValues): Record<string, unknown> {
  return Object.fromEntries(Object.entries(serverFlags).map(([key, flag]) => [settingNames(flag)[0]!, values[key as keyof ServerValues]]));
}

interface Output {
  log: ReturnType<typeof makeLog>;
  /** For who watches; the log has it too where it is a file. */
  tell(text: string): void;
  /** For the log alone where it is a file: who watches sees it anyway. */
  note: ReturnType<typeof makeLog>;
  /** Nobody watches: stderr is for last words. */
  managed: boolean;
  close(): Promise<void>;
}

async function openOutput(level: Config['logLevel'], path: string, managed: boolean): Promise<Output> {
  if (path === '') return { log: makeLog(level), tell: say, note: () => undefined, managed, close: async () => { /* stderr stays open. */ } };
  let file: LogFile;
  try {
    const { LogFile: File } = await import('../serve/log-file.js');
    file = new File(path, say);
  } catch (cause) {
    throw new RecuaError('file_unreadable', `The log file ${path} cannot be written: ${(cause as Error).message}.`, { cause });
  }
  const log = makeLog(level, (one, line) => file.write(one, line));
  return {
    log, note: log, managed,
    tell(line) {
      if (!managed) say(line);
      log('info', line);
    },
    close: () => file.close(),
  };
}

type Tell = (change: { state?: 'running' | 'stopping'; url?: string; port?: number; offload?: Offload }) => Promise<void>;

async function serve(model: StoredModel, options: EngineOptions, config: Config, output: Output, update: Tell, stopped: AbortSignal): Promise<number> {
  const { log, tell } = output;
  // Before what the engine has to say of it.
  output.note('info', `Loading ${model.id}`);
  const pool: SingleModelPool = singleModel(startEngine(options, {
    log: engineLog(log), logLevel: engineLogLevel(config.logLevel), onState: () => pool.stateChanged(),
  }), model);
  const engine = pool.sole;
  try {
    // Loaded when first needed: Express is a third of what starting any other command would cost.
    const { listen } = await import('../../server/listen.js');
    const server = await listen({ pool, config, log }).catch(async (thrown: unknown) => {
      const error = RecuaError.from(thrown);
      throw error.code === 'port_in_use' ? await describePortInUse(error, config.host, config.port) : error;
    });
    try {
      await update({ url: server.url, port: server.port });
      const loaded = await Promise.race([loading(engine, model.id, output), aborted(stopped)]);
      if (loaded) {
        await update({ state: 'running', offload: loaded.offload });
        if (!isLoopback(config.host)) tell(`Warning: whoever can reach ${config.host} port ${server.port} can use this server; it asks for no key.`);
        tell(`Recua listens on ${server.url}`);
        if (!output.managed) say(`Try: ${curlLine(server.url)}`);
        await aborted(stopped);
      }
      tell(output.managed ? 'Stopping' : 'Stopping; Ctrl-C again stops at once.');
      // What can't be told must not keep the server from stopping.
      await update({ state: 'stopping' }).catch(sayError);
    } finally {
      await server.close(config.drainMs);
    }
    return 0;
  } finally {
    await engine.close(0);
    output.note('info', 'Stopped.');
  }
}

/** With an alias the file's own name still finds the model. */
function served(model: StoredModel, alias: string): StoredModel {
  return alias === '' ? model : { ...model, id: alias, aliases: [...model.aliases, model.id] };
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'));
}

async function loading(engine: Engine, id: string, { tell, managed }: Output): Promise<ModelDescription> {
  const model = await showLoading(engine, `Loading ${id}`, managed, engine.ready());
  checkContext(model);
  tell(`${model.description}: ${model.contextSize} tokens of context for each of ${model.parallel} requests at once`);
  tell(placeText(model));
  for (const one of model.notes) tell(`Note: ${one}`);
  return model;
}

/** A request to paste into a shell. */
export function curlLine(url: string): string {
  const body = JSON.stringify({ messages: [{ role: 'user', content: 'Hello! Who are you?' }] });
  return `curl ${url}/v1/chat/completions -H 'Content-Type: application/json' -d '${body}'`;
}
