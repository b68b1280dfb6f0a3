// The model hub's API: the commit of a revision, its files, and where their bytes are. Used by pull
// and by show for remote files, in the command's process. Retries transient failures; other
// failures become coded errors.
import { RecuaError } from '../../errors.js';
import { parseBounded } from './bounded-json.js';
import { ConnectionFault } from './connection-fault.js';
import { readWords, refusalError } from './hub-refusal.js';
import type { Asked, Refusal } from './hub-refusal.js';
import { delayMs, retryPolicy, pause, readRetryAfter } from './retry.js';
import type { RetryPolicy } from './retry.js';
import { findPlaces } from '../places.js';
import { hubEndpoint } from '../names/repository-name.js';
import { checkCommit, checkEtag, checkRepo, checkRepoFile, checkRevision } from '../names/safe-names.js';
import { readLinkedFile } from '../../system/small-file.js';
import { request } from './web-request.js';
import type { WebAnswer, WebRequest } from './web-request.js';

/** A file in a repository's listing. */
export interface HubFile {
  /** Path in the repository, checked: it cannot leave the store. */
  path: string;
  sizeBytes: number;
  /** The name of its blob: the sha256 of a large file, git's sha1 of a small one. */
  etag: string;
  /** How to check the bytes. */
  hash: 'sha256' | 'git-sha1';
}

export interface Listing {
  files: HubFile[];
  /** Names that cannot be files of the store. */
  refused: string[];
}

/** Where the hub says a file's bytes are. Signed addresses last minutes or hours. */
export interface Location {
  url: URL;
  /** For the hub itself; undefined for the hosts that it redirects to. */
  token: string | undefined;
  etag: string | undefined;
  sizeBytes: number | undefined;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** For one page of a listing; the hub's have about 400 kB. */
const longestReplyBytes = 16 * 1024 * 1024;
const mostPages = 1000;
/** Per repository. The hub allows 100,000; model repositories have a few hundred. */
const mostFiles = 200_000;
/**
 * Limit for reading a whole description or listing, as a multiple of the stall timeout: a reply
 * that trickles never ends.
 */
const longestReadStalls = 10;
/** Results of a search. */
export const mostFound = 30;
/** Refused names to keep for reporting. */
const mostRefused = 1000;
const longestShownName = 800;
/** Unknown hosts and refused ports rarely recover. */
const attemptsUnreachable = 2;
const attemptsOtherwise = 4;
/** Before a download has begun, nobody waits longer than this because the hub asks for it. */
const longestListingWaitMs = 60_000;

/** Told before each pause: what went wrong, and how long the pause is. */
export type OnSetback = (what: string, waitMs: number) => void;

/** A repository in search results. */
export interface HubRepository {
  name: string;
  /** Downloads in the last month. */
  downloads: number;
  likes: number;
  /** Users must accept its license first. */
  gated: boolean;
}

export class Hub {
  /** Without a trailing slash. */
  readonly endpoint: string;
  readonly token: string | undefined;
  readonly offline: boolean;
  readonly retry: RetryPolicy;
  readonly #onSetback: OnSetback;

  constructor({
    endpoint,
    token,
    offline,
    retry,
    onSetback = () => undefined,
  }: {
    endpoint: string;
    token: string | undefined;
    offline: boolean;
    retry: RetryPolicy;
    onSetback?: OnSetback | undefined;
  }) {
    this.endpoint = endpoint;
    this.token = token;
    this.offline = offline;
    this.retry = retry;
    this.#onSetback = onSetback;
  }

  static async fromEnvironment(environment: Environment = process.env, onSetback?: OnSetback): Promise<Hub> {
    const endpoint = hubEndpoint(environment);
    const { username, password } = new URL(endpoint);
    if (username !== '' || password !== '') {
      throw new RecuaError('invalid_usage', 'Expected HF_ENDPOINT without a user name and a password, which Recua does not send. An access token goes into HUB_TOKEN.');
    }
    return new Hub({
      endpoint,
      token: await findToken(environment),
      offline: /^(1|on|yes|true)$/i.test(environment['HF_HUB_OFFLINE'] ?? ''),
      retry: retryPolicy(environment),
      onSetback,
    });
  }

  /** Repositories with GGUF files that match the words, most pulled first. */
  async search(words: string, signal?: AbortSignal): Promise<HubRepository[]> {
    const asked = { repo: 'the result of the search' };
    const address = this.address('api/models');
    address.search = new URLSearchParams({
      search: words,
      filter: 'gguf',
      sort: 'downloads',
      direction: '-1',
      limit: String(mostFound),
    }).toString();
    const { value } = await this.#json(address, asked, this.#readingTime(), signal);
    if (!Array.isArray(value)) throw this.#unexpected('a list of repositories', asked);
    return value.slice(0, mostFound).flatMap(repositoryOf);
  }

  /** The commit of a branch or tag. */
  async commitOf(repo: string, revision: string, signal?: AbortSignal): Promise<string> {
    checkRepo(repo);
    checkRevision(revision);
    const asked = { repo, revision };
    try {
      const { value } = await this.#json(
        this.address(`api/models/${repo}/revision/${encodeURIComponent(revision)}`),
        asked,
        this.#readingTime(),
        signal,
      );
      const { sha } = (value ?? {}) as { sha?: unknown };
      if (typeof sha !== 'string' || !/^[0-9a-f]{40}$/.test(sha)) throw this.#unexpected('the description of a revision', asked);
      return sha;
    } catch (thrown) {
      // A hub that gives no reason answers 404 for both.
      if (thrown instanceof RecuaError && thrown.code === 'revision_not_found') {
        await this.#json(this.address(`api/models/${repo}`), { repo }, this.#readingTime(), signal);
      }
      throw thrown;
    }
  }

  async list(repo: string, commit: string, signal?: AbortSignal): Promise<Listing> {
    checkRepo(repo);
    const asked = { repo, revision: commit };
    const listing: Listing = { files: [], refused: [] };
    const time = this.#readingTime();
    let entries = 0;
    let next: URL | undefined = this.address(`api/models/${repo}/tree/${commit}?recursive=true`);
    for (let page = 0; next; page++) {
      if (page === mostPages) throw this.#unexpected('a listing that ends', asked);
      const answer: { value: unknown; next: URL | undefined } = await this.#json(next, asked, time, signal);
      if (!Array.isArray(answer.value)) throw this.#unexpected('a list of files', asked);
      entries += answer.value.length;
      if (entries > mostFiles) throw this.#unexpected(`at most ${mostFiles} files`, asked);
      for (const entry of answer.value) addEntry(listing, entry);
      next = answer.next;
    }
    return listing;
  }

  /** Asks where a file's bytes are, without following the redirect. */
  async locate(repo: string, commit: string, file: string, signal?: AbortSignal): Promise<Location> {
    checkRepo(repo);
    const path = checkRepoFile(file).map(encodeURIComponent).join('/');
    const asked = { repo, file };
    const answer = await this.#ask(
      this.address(`${repo}/resolve/${checkCommit(commit)}/${path}`),
      { method: 'HEAD', stayHere: true },
      asked,
      signal,
    );
    answer.discard();
    const { headers, leftFor } = answer;
    const size = headers.get('x-linked-size') ?? (leftFor ? null : headers.get('content-length'));
    const etag = headers.get('x-linked-etag') ?? (leftFor ? null : headers.get('etag'));
    return {
      url: leftFor ?? answer.url,
      token: leftFor ? undefined : this.token,
      etag: etag === null ? undefined : etag.replace(/^W\//, '').replaceAll('"', ''),
      sizeBytes: size === null || !/^\d+$/.test(size) ? undefined : Number(size),
    };
  }

  /** Sends one request without retries; fails if offline. */
  async request(url: URL, options: Omit<WebRequest, 'stallMs'>, what: string): Promise<WebAnswer> {
    if (this.offline) {
      throw new RecuaError('hub_offline', `HF_HUB_OFFLINE is set, so ${what} cannot be fetched from the hub (${this.endpoint}). Unset it to go on.`);
    }
    return await request(url, { ...options, stallMs: this.retry.stallMs });
  }

  /** The error for an unexpected answer; reads a little of its body. */
  async refusalOf(answer: WebAnswer): Promise<Refusal> {
    const { headers, status } = answer;
    const body = await readText(answer, 4096, this.#readingTime()).catch(() => '');
    return {
      status,
      reason: headers.get('x-error-code') ?? '',
      words: readWords(headers.get('x-error-message'), body),
      retryAfterMs: readRetryAfter(headers.get('retry-after')),
    };
  }

  askedOf(asked: Pick<Asked, 'repo' | 'revision' | 'file'>): Asked {
    return { ...asked, endpoint: this.endpoint, withToken: this.token !== undefined };
  }

  address(path: string): URL {
    return new URL(`${this.endpoint}/${path}`);
  }

  #readingTime(): ReadingTime {
    return { leftMs: longestReadStalls * this.retry.stallMs };
  }

  async #json(
    url: URL,
    asked: Pick<Asked, 'repo' | 'revision'>,
    time: ReadingTime,
    signal: AbortSignal | undefined,
  ): Promise<{ value: unknown; next: URL | undefined }> {
    const answer = await this.#ask(url, {}, asked, signal, Math.min(longestListingWaitMs, this.retry.longestRetryAfterMs));
    let text: string;
    try {
      text = await readText(answer, longestReplyBytes, time);
    } catch (thrown) {
      throw thrown instanceof ConnectionFault ? thrown.toError() : thrown;
    }
    try {
      return { value: parseBounded(text), next: nextPage(answer, url) };
    } catch (cause) {
      if (cause instanceof RecuaError) throw cause;
      throw new RecuaError(
        'hub_broken',
        `Expected JSON from ${url.host}, got ${/^\s*</.test(text) ? 'a web page: perhaps a login page of this network, open it in a browser' : 'something else'}. ` +
          'Is HF_ENDPOINT the address of a model hub?',
        { cause },
      );
    }
  }

  /** Requests data from the hub itself, with a few retries. */
  async #ask(
    url: URL,
    options: Pick<WebRequest, 'method' | 'stayHere'>,
    asked: Pick<Asked, 'repo' | 'revision' | 'file'>,
    signal: AbortSignal | undefined,
    longestWaitMs = this.retry.longestRetryAfterMs,
  ): Promise<WebAnswer> {
    for (let failures = 1; ; failures++) {
      let waitMs = delayMs(this.retry, failures);
      let what: string;
      try {
        const answer = await this.request(url, { ...options, token: this.token, signal }, asked.repo);
        if (answer.leftFor || answer.status === 200) return answer;
        const refusal = await this.refusalOf(answer);
        waitMs = Math.max(waitMs, refusal.retryAfterMs ?? 0);
        const passing = answer.status === 429 || answer.status >= 500;
        if (!passing || failures >= attemptsOtherwise || (refusal.retryAfterMs ?? 0) > longestWaitMs)
          throw refusalError(refusal, this.askedOf(asked));
        what = answer.status === 429 ? `${url.host} wants fewer requests (429)` : `${url.host} answered ${answer.status}`;
      } catch (thrown) {
        if (!(thrown instanceof ConnectionFault)) throw thrown;
        const attempts = thrown.kind === 'name' || thrown.kind === 'refused' ? attemptsUnreachable : attemptsOtherwise;
        if (!thrown.passing || failures >= attempts) throw thrown.toError();
        what = `${thrown.place}: ${thrown.message}`;
      }
      this.#onSetback(what, waitMs);
      await pause(waitMs, signal);
    }
  }

  #unexpected(wanted: string, { repo }: Pick<Asked, 'repo'>): RecuaError {
    return new RecuaError(
      'hub_broken',
      `Expected ${wanted} of ${repo} from ${this.endpoint}, got something else. Is HF_ENDPOINT the address of a model hub?`,
    );
  }
}

/** HUB_TOKEN, HF_TOKEN, then the token that Python's login stored. */
async function findToken(environment: Environment): Promise<string | undefined> {
  const { tokenFile } = findPlaces(environment);
  for (const [source, given] of [
    ['HUB_TOKEN', environment['HUB_TOKEN']], ['HF_TOKEN', environment['HF_TOKEN']],
    [tokenFile, await readLinkedFile(tokenFile).catch(() => undefined)],
  ] as const) {
    const token = given?.trim() ?? '';
    if (token === '') continue;
    if (!/^[\x21-\x7e]+$/.test(token)) {
      throw new RecuaError('hub_token_refused', `Expected an access token, like hf_ and letters, in ${source}; its value contains blanks or other characters that no token has.`);
    }
    return token;
  }
  return undefined;
}

/**
 * Time left for the bodies of one or several replies together; pauses between requests do not
 * count.
 */
interface ReadingTime {
  leftMs: number;
}

/** Reads a body, cut to a limit; ConnectionFault if it is not complete in time. */
async function readText(answer: WebAnswer, mostBytes: number, time: ReadingTime): Promise<string> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  let readMs = performance.now();
  for await (const piece of answer.body()) {
    const now = performance.now();
    time.leftMs -= now - readMs;
    readMs = now;
    if (time.leftMs < 0) throw new ConnectionFault('stalled', answer.url, 'it sends its answer so slowly that it may never end');
    bytes += piece.length;
    if (bytes > mostBytes) break;
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString('utf8');
}

/**
 * Parses `Link: <address>; rel="next"`. Follows only an address on the same host, because the token
 * goes with it.
 */
function nextPage({ headers, url }: WebAnswer, asked: URL): URL | undefined {
  const match = /<([^>]*)>\s*;[^,]*\brel="?next"?/i.exec(headers.get('link') ?? '');
  if (!match) return undefined;
  const next = URL.canParse(match[1]!, url.href) ? new URL(match[1]!, url) : undefined;
  if (next?.origin !== asked.origin) throw new RecuaError('hub_broken', `${asked.host} continues its listing at another place, ${next?.host ?? 'which is no address'}; expected the same host.`);
  return next;
}

/** Undefined if its name cannot be pulled. */
function repositoryOf(entry: unknown): HubRepository[] {
  const { id, downloads, likes, gated } = (entry ?? {}) as Record<string, unknown>;
  if (typeof id !== 'string') return [];
  try {
    return [{ name: checkRepo(id).join('/'), downloads: Number(downloads) || 0, likes: Number(likes) || 0, gated: Boolean(gated) }];
  } catch {
    return [];
  }
}

function addEntry(listing: Listing, entry: unknown): void {
  const { type, path, size, oid, lfs } = (entry ?? {}) as Record<string, unknown>;
  if (type !== 'file') return;
  const large = lfs as { oid?: unknown; size?: unknown } | undefined | null;
  try {
    if (typeof path !== 'string') throw new TypeError('no path');
    checkRepoFile(path);
    const sizeBytes = large?.size ?? size;
    const hash = typeof large?.oid === 'string' ? large.oid.replace(/^sha256:/, '') : String(oid);
    if (typeof sizeBytes !== 'number' || !Number.isSafeInteger(sizeBytes) || sizeBytes < 0) throw new TypeError('no size');
    if (!(large ? /^[0-9a-f]{64}$/ : /^[0-9a-f]{40}$/).test(hash)) throw new TypeError('no hash');
    listing.files.push({ path, sizeBytes, etag: checkEtag(hash), hash: large ? 'sha256' : 'git-sha1' });
  } catch {
    if (listing.refused.length < mostRefused) listing.refused.push(typeof path === 'string' ? path.slice(0, longestShownName) : 'an entry without a name');
  }
}
