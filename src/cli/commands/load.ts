// `recua load` and `recua unload`: load and unload models of a running server.
import { RecuaError } from '../../errors.js';
import { sizeText } from '../../models/byte-size.js';
import { command } from '../command.js';
import { integer, misuse, perCall } from '../flags/flags.js';
import { chooseServer, serverKey, serverUrl } from '../servers/choose-server.js';
import type { Asked } from '../servers/choose-server.js';
import { answered, isThere, modelOf, objectOf } from '../servers/served-model.js';
import type { ServedModel } from '../servers/served-model.js';
import type { ServerClient } from '../servers/server-client.js';
import { watchModel } from '../servers/watch-model.js';
import { LoadingLine, say, sayError } from '../terminal/output.js';
import { watchSignals } from '../terminal/signals.js';
import { plain } from '../terminal/wording.js';

export const load = command({
  name: 'load',
  aliases: [],
  operands: '<model>…',
  summary: 'Load models in a running server',
  details: 'Shows the progress, and returns when the models are ready. Without --url, it asks one of your servers that have the model. A server that can load and unload models is preferred to one that cannot; then one that has the model loaded, then that of recua serve. If several remain, give --url. '
    + 'A server that was started with one model loads no other. Ctrl-C stops the waiting, not the loading.',
  examples: [
    ['recua load owner/repo:Q4_K_M', 'Load a model before the first request needs it'],
    ['recua load chat embed --keep-alive -1', 'Load two models until they are unloaded'],
  ],
  flags: {
    keepAlive: perCall(integer(['--keep-alive'], 'seconds', 'Keep the model loaded this long after its last request; -1 means forever; by default as the server is set', { fallback: 0, min: -1, max: 31_536_000 })),
    url: serverUrl,
    apiKey: serverKey,
  },
  async run({ values, operands, given }) {
    const body = given.has('keepAlive') ? { keep_alive: values.keepAlive } : {};
    return await forEach('load', operands, values, ({ state }) => state === 'loaded' || state === 'loading', async (client, name, signal) => {
      const line = new LoadingLine(`Loading ${name}`);
      try {
        const answer = client.postJson('/models/load', { model: name, ...body }, signal);
        const reply = objectOf(await watchModel(client, name, answer, ({ fraction }) => line.show(fraction ?? 0)));
        line.end();
        const { id, contextSize, memoryBytes } = changedModel(client, reply, name);
        const facts = [...(contextSize === undefined ? [] : [`${contextSize} tokens of context`]), ...(memoryBytes === undefined ? [] : [sizeText(memoryBytes)])];
        // Such as a time that changes nothing on a server of one model.
        if (Array.isArray(reply['warnings'])) for (const warning of reply['warnings']) say(`Note: ${plain(String(warning))}`);
        say(`${id} is loaded at ${client.url}${facts.length > 0 ? ` (${facts.join(', ')})` : ''}`);
      } finally {
        line.end();
      }
    });
  },
});

export const unload = command({
  name: 'unload',
  // Ollama's name for it.
  aliases: ['stop'],
  operands: '<model>…',
  summary: 'Unload models of a running server',
  details: 'Running answers finish first; when the command returns, their memory is free. It chooses the server as recua load does. To stop the server itself: recua serve stop.',
  examples: [['recua unload owner/repo:Q4_K_M', 'Unload a model; recua stop does the same']],
  flags: { url: serverUrl, apiKey: serverKey },
  async run({ values, operands }) {
    return await forEach('unload', operands, values, isThere, async (client, name, signal) => {
      const before = await modelOf(client, name).catch(() => undefined);
      let told = false;
      const answer = client.postJson('/models/unload', { model: name }, signal);
      const reply = objectOf(await watchModel(client, name, answer, ({ id, running }) => {
        if (running === 0 || told) return;
        told = true;
        say(`Waiting for ${running} running ${running === 1 ? 'request' : 'requests'} of ${id} to end.`);
      }));
      say(`${changedModel(client, reply, name).id} ${before && !isThere(before) ? 'was not' : 'is no longer'} loaded at ${client.url}`);
    });
  },
});

/** llama-server's answer has no model. */
function changedModel(client: ServerClient, { model, success }: Record<string, unknown>, name: string): ServedModel {
  return answered(client, model ?? (success === true ? { id: name } : undefined));
}

/** The error with the server that it came from: the command may have chosen that. */
function from({ url }: ServerClient, thrown: unknown): RecuaError {
  if (!(thrown instanceof RecuaError)) return RecuaError.from(thrown);
  const { code, message, param, details } = thrown;
  const named = message.includes(url) || code === 'cancelled' ? message : `The server at ${url} says: ${message}`;
  return new RecuaError(code, named, { param, details, cause: thrown });
}

/** A server of one model loads no other, and does not know that this machine has more. */
async function hinted(error: RecuaError, client: ServerClient, verb: string): Promise<RecuaError> {
  if (error.code !== 'model_not_found' || verb !== 'load') return error;
  const only = await modelOf(client, 'default').catch(() => undefined);
  return only?.fixed ? new RecuaError(error.code, `${error.message} It was started with one model, and loads no other. To serve every model of recua list, start it without naming one.`, { cause: error }) : error;
}

type Step = (client: ServerClient, name: string, signal: AbortSignal) => Promise<void>;

/**
 * One after the other. A mistake on the command line ends the command before it does anything; if
 * one model fails, the others are still done.
 */
async function forEach(
  verb: string,
  names: readonly string[],
  asked: Asked,
  prefers: (model: ServedModel) => boolean,
  step: Step,
): Promise<number> {
  if (names.length === 0) {
    const whole = verb === 'unload' ? ' To stop the server itself: recua serve stop' : '';
    throw misuse(`Expected a model: recua ${verb} <model>…, where a model is a name that recua ps --all shows.${whole}`);
  }
  const chosen: [ServerClient, string][] = [];
  for (const name of names) chosen.push([await chooseServer(asked, name, prefers), name]);
  const stop = watchSignals();
  let code = 0;
  try {
    for (const [client, name] of chosen) {
      try {
        // A load may take minutes; a server that is stuck must not look like one that loads.
        await client.getJson('/v1/models');
        await step(client, name, stop.signal);
      } catch (thrown) {
        const error = await hinted(from(client, thrown), client, verb);
        if (names.length === 1 || error.code === 'cancelled') throw error;
        sayError(error);
        code = 1;
      }
    }
  } finally {
    stop.release();
  }
  return code;
}
