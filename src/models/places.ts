// Where Recua keeps things: models in the hub's own cache, which people delete to free disk space;
// chat sessions and Recua's state among the user's data. SERVICE_HOME puts them into one folder.
// Reads the environment at each call; tests pass their own.
import { statSync } from 'node:fs';
import { isAbsolute, join, resolve } from 'node:path';
import { homeFolder } from '../system/home-folder.js';

export interface Places {
  /**
   * The hub's cache: `models--owner--repo/{blobs,snapshots,refs}`, shared with Python's
   * huggingface_hub.
   */
  hub: string;
  /** Saved chats. */
  sessions: string;
  /** Aliases, usage times, the managed server's state and logs, chat history, the CPU proof. */
  state: string;
  /** The file where Python's `login` stores the access token. */
  tokenFile: string;
}

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * For models the narrower variable wins; among equals, Recua's own. HUB_HOME and HF_HUB_CACHE name
 * the cache itself, SERVICE_HOME and HF_HOME the folder around it. HUB_HOME may also name a folder
 * laid out like HF_HOME, with the cache in its `hub`.
 */
export function findPlaces(environment: Environment = process.env): Places {
  const folder = (name: string) => pathIn(name, environment);
  const caches = folder('XDG_CACHE_HOME') ?? join(homeFolder(environment), '.cache');
  const theirs = folder('HF_HOME') ?? join(caches, 'huggingface');
  const base = folder('SERVICE_HOME');
  const data = join(standardFolder('XDG_DATA_HOME', environment) ?? join(homeFolder(environment), '.local', 'share'), 'recua');
  const hubHome = folder('HUB_HOME');
  return {
    hub: (hubHome === undefined ? folder('HF_HUB_CACHE') : innerHub(hubHome)) ?? join(base ?? theirs, 'hub'),
    sessions: join(base ?? data, 'sessions'),
    state: base === undefined ? join(data, 'state') : join(base, 'recua'),
    tokenFile: folder('HF_TOKEN_PATH') ?? join(theirs, 'token'),
  };
}

function innerHub(folder: string): string {
  const inner = join(folder, 'hub');
  try {
    return statSync(inner).isDirectory() ? inner : folder;
  } catch {
    // Reading the folder will tell why.
    return folder;
  }
}

/**
 * The folder that a variable of the XDG specification names. As that says, a relative path is
 * ignored: the files would lie in whatever folder a command is started in.
 */
export function standardFolder(name: string, environment: Environment = process.env): string | undefined {
  const value = environment[name] ?? '';
  return isAbsolute(value) || value.startsWith('~') ? pathIn(name, environment) : undefined;
}

/**
 * The path that a variable names, made absolute. An empty variable counts as unset. `~` is the home
 * folder, in case no shell expanded it.
 */
export function pathIn(name: string, environment: Environment = process.env): string | undefined {
  const value = environment[name] ?? '';
  return value === '' ? undefined : resolve(value.replace(/^~(?=$|[\\/])/, () => homeFolder(environment)));
}
