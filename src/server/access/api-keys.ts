// The API keys of a server: read from settings, compared without telling by the time it takes how
// much of a guess was right. Only their hashes are kept. Pure.
import { createHash, timingSafeEqual } from 'node:crypto';
import { describe } from '../../request/fields.js';
import { RecuaError } from '../../errors.js';

export interface ApiKey {
  /** For the log; never the key. */
  readonly name: string;
  /** Opens what changes the server for all: which models it has and which are loaded. */
  readonly admin: boolean;
}

interface Entry extends ApiKey {
  /** SHA-256 of the key. */
  readonly hash: Buffer;
  /** By Date.now(). */
  readonly expiresMs: number;
}

/** What a header can carry. */
const presentable = /^[\x21-\x7e]+$/;

export class ApiKeys {
  readonly #entries: readonly Entry[];

  private constructor(entries: readonly Entry[]) {
    this.#entries = entries;
  }

  /**
   * `keys` is what `--api-key` says: one key, or several with commas between them. `file` is the
   * text of `--api-key-file`: a key in each line, or JSON. `own` is a key that the server made up
   * for programs of its user. Throws `invalid_usage`.
   */
  static read({ keys, file, own }: { keys: string; file: string; own?: string | undefined }): ApiKeys {
    const entries = [
      ...keys.split(',').filter((key) => key.trim() !== '').map((key, i) => entryOf(key.trim(), `--api-key, key ${i + 1}`, `key ${i + 1}`)),
      ...fileEntries(file),
    ];
    const twice = entries.find(({ hash }, i) => entries.findIndex((other) => other.hash.equals(hash)) < i);
    if (twice) throw unusable(`the key ${describe(twice.name)} stands there twice`);
    if (entries.length === 0 && (keys !== '' || file !== '')) throw unusable('no key stands there');
    return new ApiKeys(entries.length > 0 && own !== undefined ? [...entries, entryOf(own, '', 'own')] : entries);
  }

  /** False: whoever reaches the server may use it. */
  get areAsked(): boolean {
    return this.#entries.length > 0;
  }

  /** Undefined for one that is unknown or has expired. */
  find(given: string, nowMs: number): ApiKey | undefined {
    const hash = hashOf(given);
    let found: Entry | undefined;
    for (const entry of this.#entries) if (timingSafeEqual(entry.hash, hash)) found = entry;
    return found && nowMs < found.expiresMs ? found : undefined;
  }
}

function fileEntries(text: string): Entry[] {
  const trimmed = text.replace(/^\ufeff/, '').trim();
  if (!/^[[{]/.test(trimmed)) {
    const lines = trimmed.split(/\r?\n/).map((line) => line.trim()).filter((line) => line !== '' && !line.startsWith('#'));
    return lines.map((line, i) => entryOf(line, `the key file, key ${i + 1}`, `key ${i + 1} of the file`));
  }
  let value: unknown;
  try {
    value = JSON.parse(trimmed);
  } catch {
    // What JSON.parse says quotes the file.
    throw unusable('the key file begins as JSON, and is none as a whole');
  }
  const list = Array.isArray(value) ? value as unknown[] : (value as { keys?: unknown }).keys;
  if (!Array.isArray(list)) throw unusable('the key file has no list "keys"');
  return list.map((one: unknown, i) => jsonEntry(one, `keys[${i}] of the key file`, `key ${i + 1} of the file`));
}

function jsonEntry(given: unknown, where: string, usualName: string): Entry {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) throw unusable(`${where} is no object`);
  const { name = usualName, key, sha256, admin = false, expires, ...others } = given as Record<string, unknown>;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) throw unusable(`${where} has ${describe(unknown)}: known are name, key, sha256, admin and expires`);
  if (typeof name !== 'string' || !/^[\w .@-]{1,64}$/.test(name)) throw unusable(`the name of ${where} is not 1 to 64 letters, digits, blanks and . @ _ -`);
  if (typeof admin !== 'boolean') throw unusable(`admin of ${where} is neither true nor false`);
  if ((key === undefined) === (sha256 === undefined)) throw unusable(`${where} needs either key or sha256`);
  const expiresMs = expires === undefined ? Infinity : typeof expires === 'string' ? Date.parse(expires) : NaN;
  if (Number.isNaN(expiresMs)) throw unusable(`expires of ${where} is no date such as "2027-01-31"`);
  if (sha256 === undefined) return { ...entryOf(key, where, name), admin, expiresMs };
  if (typeof sha256 !== 'string' || !/^[0-9a-f]{64}$/i.test(sha256)) throw unusable(`sha256 of ${where} is not 64 hexadecimal digits`);
  return { name, admin, hash: Buffer.from(sha256, 'hex'), expiresMs };
}

/** Of the server's owner, unless a file says otherwise. */
function entryOf(key: unknown, where: string, name: string): Entry {
  if (typeof key !== 'string' || !presentable.test(key)) throw unusable(`${where} is not made of visible ASCII characters without blanks, which is what a header can carry`);
  return { name, admin: true, hash: hashOf(key), expiresMs: Infinity };
}

function hashOf(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}

function unusable(what: string): RecuaError {
  return new RecuaError('invalid_usage', `The API keys cannot be used: ${what}.`);
}
