// `recua api`: the HTTP server over one model or several, from start to shutdown.
import { resolve } from 'node:path';
import { configSettings, makeConfig } from '../../settings/config.js';
import { RecuaError } from '../../errors.js';
import type { Arguments } from '../flags/arguments.js';
import { command } from '../command.js';
import { deviceListing, deviceListingJson, listDevices, refuseJson } from '../devices.js';
import { perCall, settingNames, text } from '../flags/flags.js';
import type { Values } from '../flags/flags.js';
import { settingFlags, settingValues } from '../flags/setting-flags.js';
import { openOutput, serve, servingOf } from '../serve/serving.js';
import { register } from '../serve/state-file.js';
import type { Registration } from '../serve/state-file.js';
import { tellUserSignals, watchSignals } from '../terminal/signals.js';
import { recuaVersion } from './version.js';

/** The flags of every command that starts a server. */
export const serverFlags = settingFlags(configSettings);

export type ServerValues = Values<typeof serverFlags>;

/** The most used flags of every command that serves. */
export const oftenServed = ['model', 'port', 'host', 'contextSize', 'gpuLayers', 'parallel', 'maxTokens', 'temperature', 'apiKeyFile', 'keepAliveSeconds', 'ui'] as const;

export const api = command({
  name: 'api',
  aliases: [],
  operands: '[model...]',
  summary: 'Start the HTTP API server',
  details: 'The server listens at once. If you name models, it serves only these and loads them at start. '
    + 'Otherwise it serves every complete model that recua list shows, and those of "models" in the config file, and loads each when a request names it. '
    + 'A request has 4,096 tokens of context by default (2,048 with recua serve start); --ctx-size changes that. '
    + 'An idle model is unloaded after --keep-alive, or when another model needs its memory. '
    + 'A server started with one model keeps it loaded (and /health answers 503 while it loads), unless --keep-alive, --max-models or --max-memory is changed, --models is given, or the config file has settings for the model. '
    + 'Ctrl-C or SIGTERM lets running answers finish, for up to --drain-timeout, and exits with 0; '
    + 'a second one stops at once. Prompts and answers are never logged. To run in the background: recua serve.',
  examples: [
    ['recua api builtin', 'Serve the small built-in model on http://127.0.0.1:8080'],
    ['recua api model.gguf -c 8192 -np 2 -ngl -1', 'Serve your own file: two requests of 8192 tokens at once, all layers on the GPU'],
    ['recua api', 'Serve every model on this machine, and load each on demand'],
    ['recua api chat.gguf embed.gguf --keep-alive -1', 'Serve two models on one port; requests that name none get the first'],
    ['recua api -m model.gguf --host 0.0.0.0 --api-key-file keys', 'Serve other machines too; they need one of the keys in the file'],
  ],
  often: oftenServed,
  flags: {
    ...serverFlags,
    ...deviceListing,
    json: deviceListingJson,
    stateFile: perCall(text(['--state-file'], 'file', 'Write to this file, as JSON, what runs at which address, as recua serve does; replaces no other file')),
  },
  async run(given) {
    const { values } = given;
    if (values.listDevices) return await listDevices(values.json);
    refuseJson(values.json);
    const { port, host } = values;
    const config = makeConfig({ ...await settingValues(configSettings, values), model: '' });
    const serving = await servingOf(namedModels(given), config);
    const output = await openOutput(config, values.logFile, values.stateFile !== '');
    let registration: Registration | undefined;
    // Watched before the record is written: a server that was stopped must not look crashed.
    const stop = watchSignals();
    tellUserSignals((name) => output.log('info', `${name} does nothing: a log file that was moved is begun anew without it.`));
    try {
      if (values.stateFile !== '') {
        registration = await register(resolve(values.stateFile), {
          host, port, model: serving.record, version: recuaVersion(),
          logFile: values.logFile === '' ? '' : resolve(values.logFile), settings: settingsOf(values),
        });
      }
      return await serve(serving, config, output, async (change) => await registration?.update(change), stop.signal, values.apiKeyFile === '' ? undefined : resolve(values.apiKeyFile));
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

/** The models named by operands, flag or setting; operands override a setting. */
export function namedModels({ values, operands, origins }: Pick<Arguments<Pick<typeof serverFlags, 'model'>>, 'values' | 'operands' | 'origins'>): string[] {
  const flagged = values.model !== '' && (origins.model.from === 'flag' || operands.length === 0);
  return [...(flagged ? [values.model] : []), ...operands];
}

/** Values by the long names of their flags. */
function settingsOf(values: ServerValues): Record<string, unknown> {
  return Object.fromEntries(Object.entries(serverFlags).map(([key, flag]) => [settingNames(flag)[0]!, values[key as keyof ServerValues]]));
}
