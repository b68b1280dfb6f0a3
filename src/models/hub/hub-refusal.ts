// Maps the hub's answers other than 200 to coded errors, with a sentence for each case. Used by
// hub.ts and remote-file.ts. Quotes the hub's own words without characters that could control a
// terminal.
import { RecuaError } from '../../errors.js';

export interface Refusal {
  status: number;
  /**
   * X-Error-Code, such as RepoNotFound, RevisionNotFound, EntryNotFound, GatedRepo; '' if there is
   * none.
   */
  reason: string;
  /** X-Error-Message, or the message in the body. */
  words: string;
  retryAfterMs: number | undefined;
}

/** What was requested. */
export interface Asked {
  /** `https://huggingface.co`. */
  endpoint: string;
  repo: string;
  revision?: string | undefined;
  file?: string | undefined;
  /** Whether an access token was sent. */
  withToken: boolean;
}

export function refusalError(refusal: Refusal, asked: Asked): RecuaError {
  const { status, reason } = refusal;
  const { repo, endpoint, withToken } = asked;
  const page = `${endpoint}/${repo}`;
  if (status === 429) return rateLimited(endpoint, refusal.retryAfterMs);
  if (status >= 500) {
    return new RecuaError('hub_broken', `${endpoint} failed: it answered ${status} for ${nameOf(asked)}${quoted(refusal)}. Try again later.`);
  }
  if (reason === 'GatedRepo' || status === 403) {
    if (!withToken) {
      return new RecuaError('hub_token_missing',
        `${repo} is open only to those who accepted its license. Accept it at ${page}, then set HUB_TOKEN to an access token of that account (${endpoint}/settings/tokens).`);
    }
    return new RecuaError('license_not_accepted',
      `${endpoint} does not let this access token read ${repo}${quoted(refusal)}. Accept the license at ${page} with the token's account, and see that the token may read gated repositories.`);
  }
  if (status === 401) return unauthorized(refusal, asked, page);
  if (status === 404 || status === 410) return missing(refusal, asked);
  return new RecuaError('hub_broken', `${endpoint} answered ${status} for ${nameOf(asked)}${quoted(refusal)}; expected 200. Is HF_ENDPOINT the address of a model hub?`);
}

const dayMs = 86_400_000;

export function rateLimited(endpoint: string, retryAfterMs: number | undefined): RecuaError {
  const when = retryAfterMs === undefined ? 'in a few minutes' : retryAfterMs > dayMs ? 'in more than a day' : `in ${Math.max(1, Math.ceil(retryAfterMs / 1000))} seconds`;
  return new RecuaError('hub_rate_limited', `${endpoint} wants fewer requests (429). Try again ${when}; an access token in HUB_TOKEN may have a higher limit.`);
}

function unauthorized(refusal: Refusal, asked: Asked, page: string): RecuaError {
  const { repo, endpoint, withToken, file } = asked;
  if (withToken && refusal.reason !== 'RepoNotFound') {
    return new RecuaError('hub_token_refused',
      `${endpoint} does not accept the access token${quoted(refusal)}. Set HUB_TOKEN to a valid one (${endpoint}/settings/tokens), or unset it for public models.`);
  }
  if (!withToken && file !== undefined) {
    return new RecuaError('hub_token_missing', `${endpoint} gives ${file} of ${repo} only to signed-in accounts. Set HUB_TOKEN to an access token that may read it; see ${page}.`);
  }
  return absent(asked);
}

function missing(refusal: Refusal, asked: Asked): RecuaError {
  const { repo, revision, file } = asked;
  if (refusal.reason === 'RevisionNotFound' || (refusal.reason === '' && revision !== undefined && file === undefined)) {
    return new RecuaError('revision_not_found', `${repo} has no revision ${String(revision)}. Expected a branch, tag or commit of it; leave it out for main.`);
  }
  if (file !== undefined && refusal.reason !== 'RepoNotFound') {
    return new RecuaError('repository_file_not_found', `${repo} has no file ${file}${revision === undefined ? '' : ` in ${revision}`}. See what it has: recua pull ${repo}`);
  }
  return absent(asked);
}

/** The hub does not distinguish a private repository from a missing one. */
function absent({ repo, endpoint, withToken }: Asked): RecuaError {
  return new RecuaError('repository_not_found', withToken
    ? `There is no repository ${repo} at ${endpoint}, or it is private and the access token may not see it. Check the name and the token.`
    : `There is no repository ${repo} at ${endpoint}, or it is private: check the name, or set HUB_TOKEN to an access token that may see it.`);
}

function nameOf({ repo, revision, file }: Asked): string {
  return `${repo}${revision === undefined ? '' : `@${revision}`}${file === undefined ? '' : `/${file}`}`;
}

function quoted({ words }: Refusal): string {
  return words === '' ? '' : ` ("${words}")`;
}

/** The first words of an answer for the user: plain text, no HTML code. */
export function readWords(header: string | null, body: string): string {
  const text = header ?? wordsOf(body);
  return text.replace(/[\p{Cc}\p{Cf}\p{Cs}\s]+/gu, ' ').trim().replace(/[.!]$/, '').slice(0, 200);
}

function wordsOf(body: string): string {
  try {
    const { error } = JSON.parse(body) as { error?: unknown };
    return typeof error === 'string' ? error : '';
  } catch {
    return /^\s*</.test(body) ? '' : body;
  }
}
