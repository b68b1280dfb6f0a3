// Chooses the running server that a command uses: the one that `--url` names, else the one that has
// the model. Called by the commands that load and unload models.
import { RecuaError } from '../../errors.js';
import { text, perCall, misuse } from '../flags/flags.js';
import type { Flag } from '../flags/flags.js';
import { runningServers } from './registry.js';
import { modelOf } from './served-model.js';
import type { ServedModel } from './served-model.js';
import { ServerClient } from './server-client.js';

/** A flag of every command that calls a server. */
export const serverUrl = perCall(text(['--url'], 'url', 'Ask the server at this address, such as http://127.0.0.1:8080; by default your own running servers'));

/** Needed only with `--url`: registered servers publish a key for their own user. */
export const serverKey: Flag<string> = { ...text(['--api-key'], 'key', 'Send this API key, if the server requires one'), secret: true };

/** The server to call. An empty URL means a registered server of this user. */
export interface Asked {
  url: string;
  apiKey: string;
}

export const noServer = 'No server is running. Start one: recua serve start, or recua api.';

/** The server at an address. If it is this user's own, its registered certificate is trusted. */
export async function clientAt({ url, apiKey }: Asked): Promise<ServerClient> {
  const client = new ServerClient({ url, key: apiKey });
  const own = (await runningServers()).find((server) => server.url === client.url);
  return own?.certificate === undefined ? client : new ServerClient({ url, key: apiKey, certificate: own.certificate });
}

/**
 * Chooses among the servers that have the model, first those that can load and unload it. Of these
 * it takes the one that `prefers` accepts, then the managed one. Throws `server_unreachable`,
 * `invalid_usage` if several remain, and the server's own error if none has the model.
 */
export async function chooseServer({ url, apiKey }: Asked, name: string, prefers: (model: ServedModel) => boolean): Promise<ServerClient> {
  if (url !== '') return await clientAt({ url, apiKey });
  const servers = (await runningServers()).map((server) => ({ ...server, client: new ServerClient(server) }));
  if (servers.length === 0) throw new RecuaError('server_unreachable', noServer);
  if (servers.length === 1) return servers[0]!.client;
  const asked = await Promise.all(
    servers.map(async (server) => ({ ...server, model: await modelOf(server.client, name).catch(() => undefined) })),
  );
  const named = asked.filter(({ model }) => model !== undefined);
  const free = named.filter(({ model }) => !model!.fixed);
  const have = free.length > 0 ? free : named;
  const preferred = have.filter(({ model }) => prefers(model!));
  const among = preferred.length > 0 ? preferred : have.length > 0 ? have : asked;
  const chosen = among.length === 1 ? among[0] : among.find(({ managed }) => managed);
  if (chosen) return chosen.client;
  throw misuse(`${among.length} servers ${have.length > 0 ? `have ${name}` : `run, and none has ${name}`}: ${among.map((server) => server.url).join(', ')}. Name one with --url.`);
}
