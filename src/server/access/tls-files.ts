// The server's certificate and key, from files that are reloaded when they change. If the new files
// do not match each other, the previous pair stays in use.
import { createPrivateKey, X509Certificate, type KeyObject } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import { RecuaError } from '../../errors.js';
import { readGivenFile } from '../../system/given-file.js';
import { readLinkedFile } from '../../system/small-file.js';
import { watchFiles } from '../../system/watched-files.js';

export interface TlsPaths {
  tlsCert: string;
  tlsKey: string;
}

/** `cert` and `key` are PEM. */
interface TlsPair {
  cert: string;
  key: string;
  /** SHA-256 of the server's own certificate; commands of its user recognize it by that. */
  fingerprint: string;
  /** By Date.now(). */
  expiresMs: number;
}

export type TlsLog = (level: 'info' | 'warn', text: string) => void;

/** Kinds of keys, and curves of EC keys, that clients of TLS 1.2 and 1.3 support. */
const kindsOfClients: ReadonlySet<string> = new Set(['rsa', 'rsa-pss', 'prime256v1', 'secp384r1', 'secp521r1', 'ed25519', 'ed448']);

export class TlsFiles {
  readonly #paths: TlsPaths;
  readonly #log: TlsLog;
  #pair: TlsPair;

  private constructor(paths: TlsPaths, pair: TlsPair, log: TlsLog) {
    this.#paths = paths;
    this.#pair = pair;
    this.#log = log;
    this.#tellExpiry();
  }

  /**
   * Undefined if no files are configured.
   * @throws RecuaError `invalid_usage` if only one is, or if they do not match; `file_unreadable`
   */
  static async open({ tlsCert, tlsKey }: TlsPaths, log: TlsLog): Promise<TlsFiles | undefined> {
    if (tlsCert === '' && tlsKey === '') return undefined;
    if (tlsCert === '' || tlsKey === '') throw unusable(`expected --tls-cert and --tls-key together, got only --tls-${tlsKey === '' ? 'cert' : 'key'}`);
    const paths = { tlsCert, tlsKey };
    return new TlsFiles(paths, await readPair(paths, readGivenFile), log);
  }

  /** Options for `tls.createServer`. */
  get options(): { cert: string; key: string; minVersion: 'TLSv1.2' } {
    const { cert, key } = this.#pair;
    return { cert, key, minVersion: 'TLSv1.2' };
  }

  get fingerprint(): string {
    return this.#pair.fingerprint;
  }

  /** Calls `changed` when there is a new pair. Returns a function that stops watching. */
  watch(changed: () => void): () => void {
    const tellStuck = (): void => this.#log('warn', `The previous certificate stays in use. The system does not answer for ${this.#paths.tlsCert} or ${this.#paths.tlsKey}: changes of the files have no effect.`);
    let unreadable = '';
    return watchFiles([this.#paths.tlsCert, this.#paths.tlsKey], tellStuck, async () => {
      try {
        const pair = await readPair(this.#paths, readLinkedFile);
        unreadable = '';
        if (pair.cert === this.#pair.cert && pair.key === this.#pair.key) return;
        this.#pair = pair;
      } catch (thrown) {
        const { code, message } = RecuaError.from(thrown);
        if (message !== unreadable) this.#log('warn', `The previous certificate stays in use. ${message}`);
        unreadable = code === 'file_unreadable' ? message : '';
        // Perhaps it can be read later, as when too many files were open.
        if (unreadable !== '') throw thrown;
        return;
      }
      changed();
      this.#log('info', `A new certificate is in use: ${this.#pair.fingerprint}`);
      this.#tellExpiry();
    });
  }

  #tellExpiry(): void {
    const { expiresMs } = this.#pair;
    if (expiresMs < Date.now()) this.#log('warn', `The certificate ${this.#paths.tlsCert} expired on ${new Date(expiresMs).toISOString()}: most clients will refuse it.`);
  }
}

async function readPair({ tlsCert, tlsKey }: TlsPaths, read: (path: string) => Promise<string>): Promise<TlsPair> {
  const cert = await readPem(tlsCert, '--tls-cert', read);
  const key = await readPem(tlsKey, '--tls-key', read);
  const own = readCertificate(cert, tlsCert);
  const privateKey = readKey(key, tlsKey);
  const kind = privateKey.asymmetricKeyDetails?.namedCurve ?? privateKey.asymmetricKeyType ?? 'unknown';
  // OpenSSL takes others, and then no handshake succeeds.
  if (!kindsOfClients.has(kind)) throw unusable(`the key in ${tlsKey} is of the kind ${kind}, which clients do not support; use RSA, or EC with the curve prime256v1`);
  if (!own.checkPrivateKey(privateKey)) throw unusable(`the key in ${tlsKey} does not belong to the first certificate in ${tlsCert}, which must be the server's own`);
  try {
    createSecureContext({ cert, key, minVersion: 'TLSv1.2' });
  } catch (cause) {
    throw unusable(`${tlsCert} and ${tlsKey} cannot be used together: ${(cause as Error).message}`, cause);
  }
  return { cert, key, fingerprint: own.fingerprint256, expiresMs: Date.parse(own.validTo) };
}

async function readPem(path: string, flag: string, read: (path: string) => Promise<string>): Promise<string> {
  let text: string;
  try {
    text = await read(path);
  } catch (cause) {
    throw new RecuaError('file_unreadable', `${path}, the file of ${flag}, cannot be read: ${(cause as NodeJS.ErrnoException).code === 'ENOENT' ? 'there is no such file.' : (cause as Error).message}`, { cause });
  }
  const begins = text.match(/^-----BEGIN /gm)?.length ?? 0;
  if (begins === 0) throw unusable(`${path} is not a PEM file, which begins with -----BEGIN`);
  if (begins !== (text.match(/^-----END [A-Z0-9 ]+-----$/gm)?.length ?? 0)) throw unusable(`${path} is incomplete`);
  return text;
}

function readCertificate(text: string, path: string): X509Certificate {
  try {
    return new X509Certificate(text);
  } catch (cause) {
    throw unusable(`${path} has no readable certificate: ${(cause as Error).message}`, cause);
  }
}

function readKey(text: string, path: string): KeyObject {
  if (/^-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: 4,ENCRYPTED/m.test(text)) {
    throw unusable(`the key in ${path} is encrypted; write it without its passphrase (openssl pkey -in ${path} -out FILE) into a file that only the server's user can read`);
  }
  try {
    return createPrivateKey(text);
  } catch (cause) {
    throw unusable(`${path} has no readable private key: ${(cause as Error).message}`, cause);
  }
}

function unusable(what: string, cause?: unknown): RecuaError {
  return new RecuaError('invalid_usage', `TLS cannot be used: ${what}.`, { cause });
}
