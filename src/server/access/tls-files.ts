// The certificate of a server and its key, from files that are read again when they change. What
// does not fit together is never taken: the pair before goes on serving.
import { createPrivateKey, X509Certificate, type KeyObject } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createSecureContext } from 'node:tls';
import { RecuaError } from '../../errors.js';
import { watchFiles } from '../../system/watched-files.js';

export interface TlsPaths {
  tlsCert: string;
  tlsKey: string;
}

/** Texts in PEM. */
interface TlsPair {
  cert: string;
  key: string;
  /** SHA-256 of the server's own certificate, by which commands of its user know it. */
  fingerprint: string;
  /** By Date.now(). */
  expiresMs: number;
}

export type TlsLog = (level: 'info' | 'warn', text: string) => void;

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
   * Undefined where no files are named.
   * @throws RecuaError `invalid_usage` where only one is, or they do not fit; `file_unreadable`
   */
  static async open({ tlsCert, tlsKey }: TlsPaths, log: TlsLog): Promise<TlsFiles | undefined> {
    if (tlsCert === '' && tlsKey === '') return undefined;
    if (tlsCert === '' || tlsKey === '') throw unusable(`expected --tls-cert and --tls-key together, got only --tls-${tlsKey === '' ? 'cert' : 'key'}`);
    const paths = { tlsCert, tlsKey };
    return new TlsFiles(paths, await readPair(paths), log);
  }

  /** For the server. */
  get options(): { cert: string; key: string; minVersion: 'TLSv1.2' } {
    const { cert, key } = this.#pair;
    return { cert, key, minVersion: 'TLSv1.2' };
  }

  get fingerprint(): string {
    return this.#pair.fingerprint;
  }

  /** Calls back when there is another pair. Returns what ends that. */
  watch(changed: () => void): () => void {
    return watchFiles([this.#paths.tlsCert, this.#paths.tlsKey], async () => {
      try {
        const pair = await readPair(this.#paths);
        if (pair.cert === this.#pair.cert && pair.key === this.#pair.key) return;
        this.#pair = pair;
      } catch (thrown) {
        return this.#log('warn', `The certificate of before goes on serving. ${(thrown as Error).message}`);
      }
      changed();
      this.#log('info', `Another certificate serves from now on: ${this.#pair.fingerprint}`);
      this.#tellExpiry();
    });
  }

  #tellExpiry(): void {
    const { expiresMs } = this.#pair;
    if (expiresMs < Date.now()) this.#log('warn', `The certificate ${this.#paths.tlsCert} has expired on ${new Date(expiresMs).toISOString()}: most clients refuse it.`);
  }
}

async function readPair({ tlsCert, tlsKey }: TlsPaths): Promise<TlsPair> {
  const cert = await readPem(tlsCert, '--tls-cert');
  const key = await readPem(tlsKey, '--tls-key');
  const own = readCertificate(cert, tlsCert);
  if (!own.checkPrivateKey(readKey(key, tlsKey))) throw unusable(`the key in ${tlsKey} is not that of the certificate in ${tlsCert}; the server's own certificate stands first in its file`);
  try {
    createSecureContext({ cert, key, minVersion: 'TLSv1.2' });
  } catch (cause) {
    throw unusable(`${tlsCert} and ${tlsKey} cannot be used together: ${(cause as Error).message}`, cause);
  }
  return { cert, key, fingerprint: own.fingerprint256, expiresMs: Date.parse(own.validTo) };
}

async function readPem(path: string, flag: string): Promise<string> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (cause) {
    throw new RecuaError('file_unreadable', `${path}, the file of ${flag}, cannot be read: ${(cause as Error).message}`, { cause });
  }
  const begins = text.match(/^-----BEGIN /gm)?.length ?? 0;
  if (begins === 0) throw unusable(`${path} is no file in PEM, which begins with -----BEGIN`);
  if (begins !== (text.match(/^-----END [A-Z0-9 ]+-----$/gm)?.length ?? 0)) throw unusable(`${path} ends in the middle of what it holds`);
  return text;
}

function readCertificate(text: string, path: string): X509Certificate {
  try {
    return new X509Certificate(text);
  } catch (cause) {
    throw unusable(`${path} holds no certificate that can be read: ${(cause as Error).message}`, cause);
  }
}

function readKey(text: string, path: string): KeyObject {
  if (/^-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: 4,ENCRYPTED/m.test(text)) {
    throw unusable(`the key in ${path} is encrypted; write it without its passphrase (openssl pkey -in ${path} -out FILE) into a file that only the server's user can read`);
  }
  try {
    return createPrivateKey(text);
  } catch (cause) {
    throw unusable(`${path} holds no private key that can be read: ${(cause as Error).message}`, cause);
  }
}

function unusable(what: string, cause?: unknown): RecuaError {
  return new RecuaError('invalid_usage', `TLS cannot be used: ${what}.`, { cause });
}
