// Which running server a command means: the one that `--url` names, else the one that has the
// model. Called by commands that load and unload.
import { RecuaError } from '../../errors.js';
import { text, perCall, misuse } from '../flags/flags.js';
import type { Flag } from '../flags/flags.js';
import { runningServers } from './registry.js';
import { modelOf } from './served-model.js';
import type { ServedModel } from './served-model.js';
import { ServerClient } from './server-client.js';

/** Of every command that asks a server. */
export const serverUrl = perCall(text(['--url'], 'url', 'Ask the server at this address, such as http://127.0.0.1:8080; by default your running server'));

/** What it asks for, where it asks for a key; servers that are found by themselves need none. */
export const serverKey: Flag<string> = { ...text(['--api-key'], 'key', 'Send this API key, if the server requires one'), secret: true };

/** Which server a command is to ask; an empty address means one that runs here. */
export interface Asked {
  url: string;
  apiKey: string;
}

export const noServer = 'No server is running. Start one: recua serve start, or recua api.';

/** The server at an address; one of this user's own is known by its certificate, too. */
export async function clientAt({ url, apiKey }: Asked): Promise<ServerClient> {
  const client = new ServerClient({ url, key: apiKey });
  const own = (await runningServers()).find((server) => server.url === client.url);
  return own?.certificate === undefined ? client : new ServerClient({ url, key: apiKey, certificate: own.certificate });
}

/**
 * Of several servers that have the model, and can load and unload it where one of them can, the one
 * that `prefers` it, then the managed one. Throws `server_unreachable`, `invalid_usage` where it
 * could be any of several, and the server's own error where none has the model.
 */
export async function chooseServer({ url, apiKey }: Asked, name: string, prefers: (model: ServedModel) => boolean): Promise<ServerClient> {
  if (url !== '') return await clientAt({ url, apiKey });
  const servers = (await runningServers()).map((server) => ({ ...server, client: new ServerClient(server) }));
  if (servers.length === 0) throw new RecuaError('server_unreachable', noServer);
  if (servers.length === 1) return servers[0]!.client;
  const asked = await Promise.all(servers.map(async (server) => ({ ...server, model: await modelOf(server.client, name).catch(() => undefined) })));
  const named = asked.filter(({ model }) => model !== undefined);
  const free = named.filter(({ model }) => !model!.fixed);
  const have = free.length > 0 ? free : named;
  const preferred = have.filter(({ model }) => prefers(model!));
  const among = preferred.length > 0 ? preferred : have.length > 0 ? have : asked;
  const chosen = among.length === 1 ? among[0] : among.find(({ managed }) => managed);
  if (chosen) return chosen.client;
  throw misuse(`${among.length} servers ${have.length > 0 ? `have ${name}` : `run, and none has ${name}`}: ${among.map((server) => server.url).join(', ')}. Name one with --url.`);
}
