// Where things are kept: models in the hub's own cache, chat sessions and Recua's state beside it.
// Read from the environment by whoever needs a place; tests give an environment of their own.
import { statSync } from 'node:fs';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';

export interface Places {
  /**
   * The hub's cache: `models--owner--repo/{blobs,snapshots,refs}`. Python's huggingface_hub reads
   * and writes the same.
   */
  hub: string;
  /** Saved chats. */
  sessions: string;
  /** Aliases, times of use, the managed server's state and logs, chat history, CPU's proof. */
  state: string;
  /** The file that Python's `login` writes the access token to. */
  tokenFile: string;
}

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * The narrower variable wins, and of equals ours: HUB_HOME and HF_HUB_CACHE name the cache itself,
 * SERVICE_HOME and HF_HOME the folder around it. HUB_HOME may also name a folder of HF_HOME's form,
 * with the cache in its `hub`.
 */
export function findPlaces(environment: Environment = process.env): Places {
  const folder = (name: string) => expand(environment[name], environment);
  const caches = folder('XDG_CACHE_HOME') ?? join(home(environment), '.cache');
  const theirs = folder('HF_HOME') ?? join(caches, 'huggingface');
  const base = folder('SERVICE_HOME') ?? theirs;
  const hubHome = folder('HUB_HOME');
  return {
    hub: (hubHome === undefined ? folder('HF_HUB_CACHE') : innerHub(hubHome)) ?? join(base, 'hub'),
    sessions: join(base, 'sessions'),
    state: join(base, 'recua'),
    tokenFile: folder('HF_TOKEN_PATH') ?? join(theirs, 'token'),
  };
}

function innerHub(folder: string): string {
  const inner = join(folder, 'hub');
  return statSync(inner, { throwIfNoEntry: false })?.isDirectory() ? inner : folder;
}

function home(environment: Environment): string {
  return environment['HOME'] || homedir();
}

/** An empty variable is as good as none, and `~` is the home where a shell has not replaced it. */
function expand(value: string | undefined, environment: Environment): string | undefined {
  if (value === undefined || value === '') return undefined;
  return resolve(value.replace(/^~(?=$|[\\/])/, home(environment)));
}
