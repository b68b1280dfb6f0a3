// Finds the running server of this user that has a model's file loaded, and what it says about the
// model. Compares files by fingerprint, not by name: two servers may use one name for two files.
import { checkedFiles, fingerprintOf } from '../../models/gguf/model-file.js';
import type { ModelFile } from '../../models/gguf/model-file.js';
import { shellWord } from '../../models/names/shell-word.js';
import { RecuaError } from '../../errors.js';
import { runningServers } from '../servers/registry.js';
import { say } from '../terminal/output.js';
import type { Address } from '../servers/connection.js';
import { objectOf } from '../servers/served-model.js';
import { ServerClient } from '../servers/server-client.js';

/** A model that a server has loaded, and that can chat. */
export interface RunningModel {
  url: string;
  /** The API key, if the server requires one. */
  key: string | undefined;
  certificate: string | undefined;
  /** Its name on the server. */
  id: string;
  /** One line, e.g. "llama 135M Q8_0". */
  description: string;
  /** Tokens that a request can hold on the server. */
  contextSize: number;
}

export interface ServedAs {
  url: string;
  fingerprint: string;
  /** Of the models that the server was started with. */
  files: readonly string[];
}

/** A server that takes longer to list its models is skipped. */
const answerMs = 2_000;

/** Undefined if no server has this file loaded. */
export async function findRunningModel(file: ModelFile): Promise<RunningModel | undefined> {
  const servers = await runningServers();
  if (servers.length === 0) return undefined;
  const fingerprint = fingerprintOf(checkedFiles(file));
  const found = await Promise.all(
    servers.map(async (server) => (await modelsOf(server)).find((model) => model.fingerprint === fingerprint)),
  );
  return found.find((model) => model !== undefined)?.model;
}

/** How a command asks for a model that a server may have to load first. */
export interface Asking {
  /** The command loads the model itself, so the server need not. */
  own: boolean;
  signal: AbortSignal;
  quiet: boolean;
}

/**
 * The model that one of the servers has under this name. If none of them has it loaded, the first
 * that can loads it. Throws why the first does not if none can, and `model_not_found` if it is not
 * asked to.
 */
export async function findServedAs(name: string, { own, signal, quiet }: Asking): Promise<ServedAs | undefined> {
  const wanted = name.toLowerCase();
  const isWanted = ({ id, aliases }: Entry): boolean =>
    [id, ...(Array.isArray(aliases) ? (aliases as unknown[]) : [])].some((one) => String(one).toLowerCase() === wanted);
  const found = (
    await Promise.all(
      (await runningServers()).map(async (server) => (await listOf(server)).filter(isWanted).map((entry) => ({ server, entry }))),
    )
  ).flat();
  for (const { server, entry } of found) {
    const loaded = readEntry(server, entry);
    if (loaded) return { url: server.url, fingerprint: loaded.fingerprint, files: server.files };
  }
  const chats = ({ capabilities }: Entry): boolean => !Array.isArray(capabilities) || capabilities.includes('completion');
  const able = found.filter(({ entry }) => chats(entry));
  if (own && able.length > 0) throw new RecuaError('model_not_found', `The server ${able[0]!.server.url} has a model of that name, ${name}, but has not loaded it: recua load ${shellWord(name)}`);
  let failure: RecuaError | undefined;
  for (const { server, entry: { id } } of able) {
    if (!quiet) say(`The server ${server.url} loads ${name} …`);
    try {
      const { model } = await new ServerClient(server).postJson('/models/load', { model: id }, signal) as { model?: unknown };
      const fingerprint = readEntry(server, model)?.fingerprint;
      if (fingerprint !== undefined) return { url: server.url, fingerprint, files: server.files };
    } catch (thrown) {
      if (signal.aborted) throw thrown;
      failure ??= RecuaError.from(thrown);
    }
  }
  if (failure) throw failure;
  return undefined;
}

/**
 * Makes a server load this file, if it serves a model of that name. Undefined if it has no such
 * model, or another file under that name. Throws why the model does not load.
 */
export async function loadThere(server: Address, id: string, file: ModelFile, signal: AbortSignal): Promise<RunningModel | undefined> {
  const client = new ServerClient(server);
  const entries = entriesOf(await client.getJson('/v1/models'));
  const known = entries.find((entry) => entry.id === id || (Array.isArray(entry.aliases) && entry.aliases.includes(id)));
  if (!known) return undefined;
  const { model } = await client.postJson('/models/load', { model: known.id }, signal) as { model?: unknown };
  const loaded = readEntry(server, model);
  return loaded?.fingerprint === fingerprintOf(checkedFiles(file)) ? loaded.model : undefined;
}

interface Entry {
  id?: unknown;
  aliases?: unknown;
  status?: { value?: unknown };
  capabilities?: unknown;
  meta?: unknown;
}

interface LoadedEntry {
  fingerprint: string;
  model: RunningModel;
}

/** Of a server that answers; of another, nothing. */
async function listOf(server: Address): Promise<Entry[]> {
  return entriesOf(await new ServerClient(server).getJson('/v1/models', answerMs).catch(() => undefined));
}

async function modelsOf(server: Address): Promise<LoadedEntry[]> {
  return (await listOf(server)).map((entry) => readEntry(server, entry)).filter((entry) => entry !== undefined);
}

function entriesOf(list: unknown): Entry[] {
  const { data } = (list ?? {}) as { data?: unknown };
  return Array.isArray(data) ? data.filter((entry): entry is Entry => typeof entry === 'object' && entry !== null) : [];
}

/** Undefined for a model that is not loaded or cannot chat, and if the server says too little. */
function readEntry({ url, key, certificate }: Address, entry: unknown): LoadedEntry | undefined {
  const { id, status, capabilities, meta } = (entry ?? {}) as Entry;
  const { fingerprint, description, n_ctx: contextSize } = objectOf(meta);
  const chats = Array.isArray(capabilities) && capabilities.includes('completion');
  if (status?.value !== 'loaded' || !chats || typeof id !== 'string') return undefined;
  if (typeof fingerprint !== 'string' || typeof description !== 'string' || typeof contextSize !== 'number') return undefined;
  return { fingerprint, model: { url, key, certificate, id, description, contextSize } };
}
