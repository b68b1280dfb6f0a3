// Certificates for a test, made in its own folder: an authority, and certificates it signs for this
// machine.
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TLSSocket } from 'node:tls';
import { generate } from 'selfsigned';
import type { Test } from 'tap';

export interface Certificates {
  folder: string;
  tlsCert: string;
  tlsKey: string;
  /** The authority's certificate: its text, and a file with it. */
  ca: string;
  caFile: string;
  /** Another certificate and key of the same authority. */
  issue(): Promise<{ cert: string; key: string }>;
  /** Writes the file atomically. */
  put(path: string, text: string): void;
}

export async function makeCertificates(t: Test): Promise<Certificates> {
  const folder = mkdtempSync(join(tmpdir(), 'recua-tls-test-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const authority = await generate([{ name: 'commonName', value: 'Recua test' }], {
    keyType: 'ec', algorithm: 'sha256', extensions: [{ name: 'basicConstraints', cA: true, critical: true }, { name: 'keyUsage', keyCertSign: true, critical: true }],
  });
  const issue = async (): Promise<{ cert: string; key: string }> => {
    const { cert, private: key } = await generate([{ name: 'commonName', value: 'localhost' }], {
      keyType: 'ec', algorithm: 'sha256', ca: { key: authority.private, cert: authority.cert },
      extensions: [{ name: 'subjectAltName', altNames: [{ type: 2, value: 'localhost' }, { type: 7, ip: '127.0.0.1' }] }],
    });
    return { cert, key };
  };
  const [tlsCert, tlsKey, caFile] = ['cert.pem', 'key.pem', 'ca.pem'].map((name) => join(folder, name)) as [string, string, string];
  const put = (path: string, text: string): void => {
    writeFileSync(`${path}.new`, text, { mode: 0o600 });
    renameSync(`${path}.new`, path);
  };
  const { cert, key } = await issue();
  put(tlsCert, cert);
  put(tlsKey, key);
  put(caFile, authority.cert);
  return { folder, tlsCert, tlsKey, ca: authority.cert, caFile, issue, put };
}

/** Checks the certificate against `ca` only. */
export function getSecurely(
  url: string,
  ca: string,
  options: object = {},
): Promise<{ status: number; text: string; fingerprint: string; protocol: string | null; headers: Record<string, unknown> }> {
  return new Promise((resolve, reject) => {
    request(url, { ca, agent: false, ...options }, (res) => {
      const socket = res.socket as TLSSocket;
      const facts = { fingerprint: socket.getPeerX509Certificate()!.fingerprint256, protocol: socket.getProtocol(), headers: res.headers };
      let text = '';
      res
        .setEncoding('utf8')
        .on('data', (piece: string) => {
          text += piece;
        })
        .once('end', () => resolve({ status: res.statusCode!, text, ...facts }));
    })
      .once('error', reject)
      .end();
  });
}
