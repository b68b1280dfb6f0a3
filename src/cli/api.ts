// `recua api <model>`: the HTTP server over one engine, from the first listening to the last answer.
import { defaults, makeConfig } from '../config.js';
import type { Config } from '../config.js';
import type { Engine } from '../engine/api.js';
import { startEngine } from '../engine/client.js';
import { readModelFile } from '../models/model-file.js';
import { findModel, markUsed } from '../models/store.js';
import type { StoredModel } from '../models/store.js';
import { listen } from '../server/listen.js';
import { command } from './command.js';
import { engineConfig, engineFlags, engineOptions, maxCount } from './engine-flags.js';
import { choice, integer, misuse, real, text } from './flags.js';
import { LoadingLine, engineLog, makeLog, say } from './output.js';
import { aborted, watchSignals } from './signals.js';

const secondMs = 1000;
const mebibyte = 1024 * 1024;

export const api = command({
  name: 'api',
  aliases: [],
  operands: '<model>',
  summary: 'Start the HTTP API server',
  details: 'It listens at once; while the model loads, /health answers 503. Ctrl-C lets running answers end, a second one stops at once.',
  flags: {
    model: text(['--model', '-m'], 'model', 'The model, instead of the first argument'),
    port: integer(['--port', '-p'], 'n', 'Port to listen on; 0 takes a free one', { fallback: defaults.port, min: 0, max: 65_535 }),
    host: text(['--host', '-h'], 'address', 'Address to listen on', defaults.host),
    maxTokens: integer(['--max-tokens', '-n'], 'n', 'Most tokens per answer', { fallback: defaults.maxTokens, min: 1, max: maxCount }),
    temperature: real(['--temp', '--temperature'], 'x', 'Temperature where a request names none', { fallback: defaults.temperature, min: 0, max: 2 }),
    alias: text(['--alias', '-a'], 'name', 'The model\'s name for clients instead of its file\'s'),
    parallel: integer(['--parallel', '-np'], 'n', 'Requests that run at once', { fallback: defaults.parallel, min: 1, max: 256 }),
    queueSize: integer(['--queue-size'], 'n', 'Requests that may wait beyond those', { fallback: defaults.queueSize, min: 0, max: 1_000_000 }),
    drainSeconds: integer(['--drain-timeout'], 'seconds', 'How long a stop waits for running answers', { fallback: defaults.drainMs / secondMs, min: 0, max: 86_400 }),
    bodyLimitMib: integer(['--body-limit'], 'MiB', 'Largest request body', { fallback: defaults.bodyLimitBytes / mebibyte, min: 1, max: 1024 }),
    pingSeconds: integer(['--ping-interval'], 'seconds', 'Empty chunk on a stream silent for so long, so that clients keep it open; 0 is off',
      { fallback: defaults.pingIntervalMs / secondMs, min: 0, max: 86_400 }),
    logLevel: choice(['--log-level'], 'How much to tell', ['debug', 'info', 'warn', 'error', 'silent'], defaults.logLevel),
    ...engineFlags,
  },
  async run({ values, operands }) {
    const named = [...(values.model === '' ? [] : [values.model]), ...operands];
    const [name] = named;
    if (name === undefined) throw misuse('Expected a model: recua api <model>, where a model is the path of a GGUF file, a name that recua list shows, or builtin.');
    if (named.length > 1) throw misuse(`Expected one model, got ${named.join(' and ')}.`);
    const model = await findModel(name);
    await readModelFile(model.path);
    await markUsed(model);
    const { port, host, maxTokens, temperature, alias, parallel, queueSize, logLevel } = values;
    const config = makeConfig({
      ...await engineConfig(values),
      model: model.path, port, host, maxTokens, temperature, alias, parallel, queueSize, logLevel,
      drainMs: values.drainSeconds * secondMs,
      bodyLimitBytes: values.bodyLimitMib * mebibyte,
      pingIntervalMs: values.pingSeconds * secondMs,
    });
    return await serve(model, config);
  },
});

async function serve(model: StoredModel, config: Config): Promise<number> {
  const stop = watchSignals();
  const log = makeLog(config.logLevel);
  const engine = startEngine(engineOptions(model.path, config), { log: engineLog(log) });
  try {
    const server = await listen({ engine, config, model: served(model, config.alias), log });
    try {
      const loaded = await Promise.race([loading(engine, model.id).then(() => true), aborted(stop.signal).then(() => false)]);
      if (loaded) {
        say(`Recua listens on ${server.url}`);
        say(`Try: ${curlLine(server.url)}`);
        await aborted(stop.signal);
      }
      say('Stopping; Ctrl-C again stops at once.');
    } finally {
      await server.close(config.drainMs);
    }
    return 0;
  } finally {
    await engine.close(0);
    stop.release();
  }
}

/** With an alias the file's own name still finds the model. */
function served(model: StoredModel, alias: string): StoredModel {
  return alias === '' ? model : { ...model, id: alias, aliases: [...model.aliases, model.id] };
}

async function loading(engine: Engine, id: string): Promise<void> {
  const line = new LoadingLine(`Loading ${id}`);
  const timer = setInterval(() => {
    if (engine.state.state === 'loading') line.show(engine.state.fraction);
  }, 200);
  try {
    const model = await engine.ready();
    line.end();
    say(`${model.description}: ${model.contextSize} tokens of context for each of ${model.parallel} requests at once`);
    for (const note of model.notes) say(`Note: ${note}`);
  } finally {
    clearInterval(timer);
    line.end();
  }
}

/** A request to paste into a shell. */
function curlLine(url: string): string {
  const body = JSON.stringify({ messages: [{ role: 'user', content: 'Hello! Who are you?' }] });
  return `curl ${url}/v1/chat/completions -H 'Content-Type: application/json' -d '${body}'`;
}
