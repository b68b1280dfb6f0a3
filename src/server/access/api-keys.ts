// The API keys of a server, read from the settings. Keys are kept only as hashes, and found by a
// hash of these with a secret of this process, so how long that takes says nothing about a key.
// There may be many thousands. Pure.
import { createHash, createHmac, randomBytes } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { describe } from '../../request/fields.js';
import { RecuaError } from '../../errors.js';

export interface ApiKey {
  /**
   * Shown in the log instead of the key. Keys with the same name are one user's: they have the same
   * rights, and share limits and files.
   */
  readonly name: string;
  /** May change the server for everybody: which models it has and which are loaded. */
  readonly admin: boolean;
  /** Names of the models that it may use; undefined means all. */
  readonly models?: readonly string[] | undefined;
  /** Requests that do work. */
  readonly requestsPerMinute?: number | undefined;
  /** Tokens of prompts and answers, per UTC day. */
  readonly tokensPerDay?: number | undefined;
  /** Concurrent requests. */
  readonly concurrency?: number | undefined;
  /** Highest priority of its requests. */
  readonly priority?: number | undefined;
  /** Its prompts share no cache with those of other keys. */
  readonly cacheSalt?: boolean;
}

/** The values of `--api-key` and `--api-key-file`. */
export interface GivenKeys {
  keys: string;
  /** Text of the key file. */
  file: string;
  own?: string | undefined;
}

interface Entry extends ApiKey {
  /** Where it was given, for errors. */
  readonly where: string;
  /** See `hidden`. */
  readonly hash: string;
  /** By Date.now(). */
  readonly expiresMs: number;
}

const known = ['name', 'key', 'sha256', 'admin', 'expires', 'models', 'requests_per_minute', 'tokens_per_day', 'concurrency', 'priority', 'cache_salt'];

/** The values of `service_tier`. */
const priorities: Readonly<Record<string, number>> = { flex: -1, default: 0, priority: 1 };

/** Characters that a header can carry. */
const presentable = /^[\x21-\x7e]+$/;
/** In a file, a key can't have this name. */
const ownName = '(own)';

export class ApiKeys {
  #byHash: ReadonlyMap<string, Entry>;
  #byName: ReadonlyMap<string, readonly Entry[]>;
  #heard: () => void = () => undefined;

  private constructor(byHash: ReadonlyMap<string, Entry>, byName: ReadonlyMap<string, readonly Entry[]>) {
    this.#byHash = byHash;
    this.#byName = byName;
  }

  /**
   * `keys` is the value of `--api-key`: one key, or several separated by commas. `file` is the text
   * of `--api-key-file`: one key per line, or JSON. `own` is a key that the server generated for
   * programs of its user. Throws `invalid_usage`.
   */
  static read({ keys, file, own }: GivenKeys): ApiKeys {
    const entries = [
      ...keys.split(',').filter((key) => key.trim() !== '').map((key, i) => entryOf(key.trim(), `--api-key, key ${i + 1}`)),
      ...fileEntries(file),
    ];
    const byHash = new Map<string, Entry>();
    for (const entry of entries) {
      const same = byHash.get(entry.hash);
      if (same) throw unusable(`${same.where} and ${entry.where} are the same key`);
      byHash.set(entry.hash, entry);
    }
    if (entries.length === 0 && (keys !== '' || file !== '')) throw unusable('there is no key');
    if (entries.length > 0 && own !== undefined) {
      const entry = entryOf(own, '', ownName);
      byHash.set(entry.hash, entry);
    }
    const byName = new Map<string, Entry[]>();
    for (const entry of byHash.values()) {
      const same = byName.get(entry.name);
      if (!same) byName.set(entry.name, [entry]);
      else {
        refuseUnequal(same[0]!, entry);
        same.push(entry);
      }
    }
    return new ApiKeys(byHash, byName);
  }

  /**
   * Replaces all keys. Throws `invalid_usage`, and then changes nothing.
   */
  replace(given: GivenKeys): void {
    const next = ApiKeys.read(given);
    // Without keys the server would be open to everybody.
    if (!next.areAsked) throw unusable('there is no key');
    this.#byHash = next.#byHash;
    this.#byName = next.#byName;
    this.#heard();
  }

  /** Calls `heard` after each `replace`. Takes a single listener. */
  onReplace(heard: () => void): void {
    this.#heard = heard;
  }

  /** A key of that name that has not expired. All of them have the same rights. */
  named(name: string, nowMs: number): ApiKey | undefined {
    return this.#byName.get(name)?.find(({ expiresMs }) => nowMs < expiresMs);
  }

  /** False: anybody who can reach the server may use it. */
  get areAsked(): boolean {
    return this.#byHash.size > 0;
  }

  /** Each model that a key is limited to, with the name of such a key. */
  get limitedTo(): ReadonlyMap<string, string> {
    return new Map([...this.#byHash.values()].flatMap(({ name, models = [] }) => models.map((model) => [model, name])));
  }

  /** Undefined if the key is unknown or has expired. */
  find(given: string, nowMs: number): ApiKey | undefined {
    const found = this.#byHash.get(hidden(sha256Of(given)));
    return found && nowMs < found.expiresMs ? found : undefined;
  }
}

/** Whether what was begun with one may go on: it has the same name and models. */
export function isSameUser(one: ApiKey | undefined, now: ApiKey | undefined): boolean {
  return one?.name === now?.name && isDeepStrictEqual(one?.models, now?.models);
}

/** What a user started goes on with any key of that name. */
function refuseUnequal(first: Entry, entry: Entry): void {
  const [one, two] = [rights(first), rights(entry)];
  const other = known.find((field) => !isDeepStrictEqual(one[field], two[field]));
  if (other !== undefined) throw unusable(`two keys named ${describe(entry.name)} differ in ${other}; keys with one name must have the same rights and limits`);
}

/** By the names of the fields of the key file. */
function rights({
  admin,
  models,
  requestsPerMinute,
  tokensPerDay,
  concurrency,
  priority,
  cacheSalt,
}: ApiKey): Readonly<Record<string, unknown>> {
  return {
    admin,
    models,
    requests_per_minute: requestsPerMinute,
    tokens_per_day: tokensPerDay,
    concurrency,
    priority,
    cache_salt: cacheSalt ?? false,
  };
}

/** The keys of a file with one per line; undefined if it is JSON. */
export function keyLines(text: string): string[] | undefined {
  const trimmed = withoutEnds(text);
  if (/^[[{]/.test(trimmed)) return undefined;
  return trimmed.split(/\r?\n/).map((line) => line.trim()).filter((line) => line !== '' && !line.startsWith('#'));
}

function withoutEnds(text: string): string {
  return text.replace(/^\ufeff/, '').trim();
}

function fileEntries(text: string): Entry[] {
  const lines = keyLines(text);
  if (lines) return lines.map((line, i) => entryOf(line, `the key file, key ${i + 1}`));
  let value: unknown;
  try {
    value = JSON.parse(withoutEnds(text));
  } catch {
    // The message of JSON.parse would quote the file.
    throw unusable('the key file (--api-key-file) begins like JSON but is not valid JSON');
  }
  const list = Array.isArray(value) ? value as unknown[] : (value as { keys?: unknown }).keys;
  if (!Array.isArray(list)) throw unusable('the key file has no list "keys"');
  return list.map((one: unknown, i) => jsonEntry(one, `keys[${i}] of the key file`));
}

function jsonEntry(given: unknown, where: string): Entry {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) throw unusable(`${where} is not an object`);
  const {
    name,
    key,
    sha256,
    admin = false,
    expires,
    models,
    requests_per_minute: requests,
    tokens_per_day: tokens,
    concurrency,
    priority,
    cache_salt: cacheSalt = false,
    ...others
  } = given as Record<string, unknown>;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) throw unusable(`${where} has the unknown field ${describe(unknown)}; the known fields are ${known.join(', ')}`);
  if (name !== undefined && !(typeof name === 'string' && /^[\w .@-]{1,64}$/.test(name))) throw unusable(`the name of ${where} is not 1 to 64 letters, digits, spaces and . @ _ -`);
  if (typeof admin !== 'boolean') throw unusable(`admin of ${where} is neither true nor false`);
  if ((key === undefined) === (sha256 === undefined)) throw unusable(`${where} needs either key or sha256`);
  const expiresMs = expires === undefined ? Infinity : typeof expires === 'string' ? timeOf(expires) : NaN;
  if (Number.isNaN(expiresMs)) throw unusable(`expires of ${where} is not a date such as "2027-01-31"`);
  const count = (field: string, value: unknown): number | undefined => {
    if (value !== undefined && !(Number.isSafeInteger(value) && (value as number) >= 1)) throw unusable(`${field} of ${where} is not a whole number of at least 1`);
    return value as number | undefined;
  };
  if (models !== undefined && !(Array.isArray(models) && models.length > 0 && models.every((one) => typeof one === 'string' && one !== ''))) throw unusable(`models of ${where} is not a list of names`);
  if (priority !== undefined && !(typeof priority === 'string' && Object.hasOwn(priorities, priority))) throw unusable(`priority of ${where} is not one of ${Object.keys(priorities).join(', ')}`);
  if (typeof cacheSalt !== 'boolean') throw unusable(`cache_salt of ${where} is neither true nor false`);
  const limits = {
    admin, expiresMs, cacheSalt, models: models as string[] | undefined, requestsPerMinute: count('requests_per_minute', requests), tokensPerDay: count('tokens_per_day', tokens),
    concurrency: count('concurrency', concurrency), priority: priorities[priority as string],
  };
  if (sha256 === undefined) return { ...entryOf(key, where, name), ...limits };
  if (typeof sha256 !== 'string' || !/^[0-9a-f]{64}$/i.test(sha256)) throw unusable(`sha256 of ${where} is not 64 hexadecimal digits`);
  const hash = Buffer.from(sha256, 'hex');
  return { where, name: name ?? nameOf(hash), hash: hidden(hash), ...limits };
}

/**
 * NaN if it is no date in ISO's form. Date.parse guesses at others, in the time zone of the
 * machine, and moves February 31 into March.
 */
function timeOf(text: string): number {
  const [, day] = /^(\d{4}-\d\d-\d\d)(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?)?$/.exec(text) ?? [];
  const isReal = day !== undefined && !Number.isNaN(Date.parse(day)) && new Date(day).toISOString().startsWith(day);
  return isReal ? Date.parse(text) : NaN;
}

/** A key is an admin's, unless a JSON file says otherwise. */
function entryOf(key: unknown, where: string, name?: string): Entry {
  if (typeof key !== 'string' || !presentable.test(key)) throw unusable(`${where} is not made of visible ASCII characters without spaces, which is all that a header can carry`);
  const hash = sha256Of(key);
  return { where, name: name ?? nameOf(hash), admin: true, hash: hidden(hash), expiresMs: Infinity };
}

/** Stays the same wherever the key is in its list: what it made belongs to its name. */
function nameOf(sha256: Buffer): string {
  return `key ${sha256.toString('hex').slice(0, 12)}`;
}

function sha256Of(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}

const secret = randomBytes(32);

/** A hash that nobody outside this process can compute. */
function hidden(sha256: Buffer): string {
  return createHmac('sha256', secret).update(sha256).digest('base64');
}

function unusable(what: string): RecuaError {
  return new RecuaError('invalid_usage', `The API keys cannot be used: ${what}.`);
}
