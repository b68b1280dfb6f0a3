// Parses names of models on the hub: `owner/repo`, optionally with a quantization, file or
// revision, or the address of its page. Pure; used by pull and remote-model.ts for the hub, and by
// lookup.ts for the store.
import { RecuaError } from '../../errors.js';
import { isGgufFile } from './model-names.js';
import { checkRepo, checkRepoFile, checkRevision, withoutUser } from './safe-names.js';

export interface RepositoryName {
  repo: string;
  /** A branch, tag or commit; undefined if the name has none. */
  revision: string | undefined;
  /** The text after a colon: a quantization, or a file or model name. */
  word: string | undefined;
  /** Path inside the repository; never together with a word. */
  file: string | undefined;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Parsing a text of megabytes would take seconds. */
const longestName = 4_096;

/** Hosts whose page addresses are accepted, besides that of HF_ENDPOINT. */
const hosts = ['huggingface.co', 'www.huggingface.co', 'hf.co'];

/**
 * The hub's address, without a trailing slash. Throws `invalid_usage` if HF_ENDPOINT is not an
 * address.
 */
export function hubEndpoint(environment: Environment = process.env): string {
  const given = environment['HF_ENDPOINT'] || 'https://huggingface.co';
  if (!URL.canParse(given) || !/^https?:$/.test(new URL(given).protocol)) {
    throw new RecuaError('invalid_usage', `Expected an address like https://huggingface.co for HF_ENDPOINT, got ${JSON.stringify(withoutUser(given).slice(0, 80))}.`);
  }
  return given.replace(/\/+$/, '');
}

/**
 * Parses `owner/repo`, `owner/repo:Q4_K_M`, `owner/repo@revision`, `owner/repo/file.gguf`, each
 * optionally after `hf:` or `hf.co/`, and
 * `https://huggingface.co/owner/repo[/resolve|blob|tree/revision[/file]]`. Throws `invalid_name`.
 */
export function readRepositoryName(given: string, endpoint = 'https://huggingface.co'): RepositoryName {
  if (given.length > longestName) throw refuse(given, `it is longer than ${longestName} characters`);
  const text = given.trim();
  if (/^https?:\/\//i.test(text)) return check(readAddress(text, endpoint));
  const bare = text.replace(/^hf:(\/\/)?/i, '');
  const host = [...hosts, new URL(endpoint).host].find((one) => bare.toLowerCase().startsWith(`${one}/`));
  if (host !== undefined) return check(readAddress(`https://${bare}`, `https://${host}`));
  return check(readShort(bare));
}

/**
 * The same for a name that may also be a path, an alias or a file name: undefined if it cannot be a
 * repository's.
 */
export function tryRepositoryName(given: string, endpoint = hubEndpoint()): RepositoryName | undefined {
  let name: RepositoryName;
  try {
    name = readRepositoryName(given, endpoint);
  } catch (thrown) {
    if (thrown instanceof RecuaError && thrown.code === 'invalid_name') return undefined;
    throw thrown;
  }
  // `folder/model.gguf` and `folder/folder/model` are paths: no repository has such a name, and
  // none is run by another file.
  if (name.file !== undefined) return isGgufFile(name.file) ? name : undefined;
  return name.word === undefined && isGgufFile(name.revision ?? name.repo) ? undefined : name;
}

/** Whether `pull` could fetch it: it has an owner and was not imported. */
export function isHubName(name: RepositoryName | undefined): name is RepositoryName {
  return name !== undefined && name.repo.includes('/') && !name.repo.startsWith('local/');
}

function readShort(text: string): RepositoryName {
  const colon = text.indexOf(':');
  const word = colon < 0 ? undefined : text.slice(colon + 1);
  const [path = '', ...more] = (colon < 0 ? text : text.slice(0, colon)).split('@');
  const revision = more.length === 0 ? undefined : more.join('@');
  const segments = path.split('/');
  const file = segments.length > 2 && word === undefined ? segments.slice(2).join('/') : undefined;
  return { repo: file === undefined ? path : segments.slice(0, 2).join('/'), revision, word, file };
}

function readAddress(text: string, endpoint: string): RepositoryName {
  if (!URL.canParse(text)) throw refuse(text, 'it is not a web address');
  const url = new URL(text);
  if (![...hosts, new URL(endpoint).host].includes(url.host)) throw refuse(text, `${url.host} is not the hub; HF_ENDPOINT names another hub`);
  // A hub may be under a path of its host.
  const base = url.host === new URL(endpoint).host ? new URL(endpoint).pathname.replace(/\/$/, '') : '';
  const path = url.pathname.startsWith(`${base}/`) ? url.pathname.slice(base.length) : url.pathname;
  const segments = path.split('/').filter((segment) => segment !== '').map((segment) => decode(segment, text));
  const verb = segments.findIndex((segment, index) => index > 0 && /^(resolve|blob|tree|raw)$/.test(segment));
  if (verb < 0) return readShort(segments.join('/'));
  const revision = segments[verb + 1];
  const rest = segments.slice(verb + 2).join('/');
  return { repo: segments.slice(0, verb).join('/'), revision, word: undefined, file: rest === '' || segments[verb] === 'tree' ? undefined : rest };
}

function decode(segment: string, text: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    throw refuse(text, 'it has an invalid % escape');
  }
}

function check(name: RepositoryName): RepositoryName {
  checkRepo(name.repo);
  if (name.revision !== undefined) checkRevision(name.revision);
  const inside = name.word ?? name.file;
  if (inside !== undefined) checkRepoFile(inside);
  return name;
}

function refuse(given: string, why: string): RecuaError {
  // Without a scheme, @ stands before a revision.
  const shown = /^\s*https?:/i.test(given) ? withoutUser(given) : given;
  return new RecuaError('invalid_name', `Expected a repository like owner/repo, owner/repo:Q4_K_M or the address of its page, got ${JSON.stringify(shown.slice(0, 120))}: ${why}.`);
}
