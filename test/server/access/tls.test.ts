// HTTPS: clients that check certificates, and certificates that change while the server runs.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createPrivateKey, generateKeyPairSync, X509Certificate } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import t from 'tap';
import { WebSocket } from 'ws';
import { root } from '../../cli/recua.js';
import { startApp, until } from '../app-under-test.js';
import { getSecurely, makeCertificates } from './certificates.js';

t.test('HTTPS works from TLS 1.2 on, checked by the authority', async (t) => {
  const { tlsCert, tlsKey, ca } = await makeCertificates(t);
  const { url, certificate } = await startApp(t, { tlsCert, tlsKey });
  t.match(url, /^https:\/\/127\.0\.0\.1:\d+$/);
  t.equal(certificate(), new X509Certificate(readFileSync(tlsCert)).fingerprint256);
  const health = await getSecurely(`${url}/health`, ca);
  t.match(health, { status: 200, fingerprint: certificate(), protocol: 'TLSv1.3' });
  t.equal(health.headers['strict-transport-security'], undefined, 'other servers of the same name are not ours to decide on');
  t.match(await getSecurely(`${url}/health`, ca, { maxVersion: 'TLSv1.2' }), { protocol: 'TLSv1.2' });
  await t.rejects(getSecurely(`${url}/health`, ca, { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' }), { message: /protocol/ });
  await t.rejects(getSecurely(`${url}/health`, ''), 'nobody else signed it');
});

t.test('plain HTTP on the TLS port is hung up on, and nobody else notices', async (t) => {
  const { tlsCert, tlsKey, ca } = await makeCertificates(t);
  const { url, port } = await startApp(t, { tlsCert, tlsKey });
  const socket = connect(port, '127.0.0.1');
  let got = '';
  socket.on('data', (bytes) => { got += bytes.toString('latin1'); }).on('error', () => undefined);
  socket.write('GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n');
  await once(socket, 'close');
  t.notMatch(got, /HTTP\/1\.1/);
  t.match(await getSecurely(`${url}/health`, ca), { status: 200 });
  t.match(await getSecurely(`${url}/health`, ca, { headers: { connection: 'upgrade', upgrade: 'h2c' } }), { status: 200 }, 'an upgrade that is none is read again');
});

t.test('a stop does not wait for handshakes that clients never finish', async (t) => {
  const { tlsCert, tlsKey, ca } = await makeCertificates(t);
  const { url, port, server, close } = await startApp(t, { tlsCert, tlsKey });
  const failures: (string | undefined)[] = [];
  server.on('tlsClientError', ({ code }: NodeJS.ErrnoException) => failures.push(code));
  const begun = ['', '\x16', '\x16\x03\x01\x02\x00\x01'].map((bytes) => {
    const socket = connect(port, '127.0.0.1').on('error', () => undefined);
    socket.write(bytes, 'latin1');
    return socket;
  });
  await Promise.all(begun.map(async (socket) => await once(socket, 'connect')));
  t.match(await getSecurely(`${url}/health`, ca), { status: 200 });
  const gone = Promise.all(begun.map(async (socket) => await once(socket, 'close')));
  await close(0);
  await gone;
  t.notOk(failures.includes('ERR_TLS_HANDSHAKE_TIMEOUT'), String(failures));
});

t.test('a WebSocket works over TLS', async (t) => {
  const { tlsCert, tlsKey, ca } = await makeCertificates(t);
  const { url } = await startApp(t, { tlsCert, tlsKey });
  const socket = new WebSocket(`${url.replace('https', 'wss')}/v1/responses`, { ca });
  await once(socket, 'open');
  socket.close();
  await once(socket, 'close');
});

t.test("OpenAI's client trusts the authority through NODE_EXTRA_CA_CERTS", async (t) => {
  const { tlsCert, tlsKey, caFile } = await makeCertificates(t);
  const { url } = await startApp(t, { tlsCert, tlsKey });
  const program = `
    import OpenAI from 'openai';
    const client = new OpenAI({ baseURL: '${url}/v1', apiKey: 'none', maxRetries: 0 });
    const whole = await client.chat.completions.create({ model: 'default', messages: [{ role: 'user', content: 'hello wide world' }] });
    const stream = await client.chat.completions.create({ model: 'default', messages: [{ role: 'user', content: 'hello wide world' }], stream: true });
    let streamed = '';
    for await (const chunk of stream) streamed += chunk.choices[0]?.delta.content ?? '';
    console.log(JSON.stringify([whole.choices[0].message.content, streamed]));`;
  const ask = async (env: NodeJS.ProcessEnv): Promise<{ code: number; stdout: string; stderr: string }> => {
    const child = spawn(process.execPath, ['--input-type=module', '-e', program], { cwd: root, env: { ...process.env, NODE_OPTIONS: '', ...env } });
    let [stdout, stderr] = ['', ''];
    child.stdout.on('data', (piece) => { stdout += piece; });
    child.stderr.on('data', (piece) => { stderr += piece; });
    const [code] = await once(child, 'close') as [number];
    return { code, stdout, stderr };
  };
  const trusting = await ask({ NODE_EXTRA_CA_CERTS: caFile });
  t.equal(trusting.code, 0, trusting.stderr);
  const [whole, streamed] = JSON.parse(trusting.stdout) as [string, string];
  t.ok(whole.length > 0);
  t.equal(streamed, whole);
  t.not((await ask({ NODE_EXTRA_CA_CERTS: '' })).code, 0, 'it trusts nobody else');
});

t.test('a changed pair is taken, unless it is mismatched or incomplete', async (t) => {
  const { tlsCert, tlsKey, ca, issue, put } = await makeCertificates(t);
  const app = await startApp(t, { tlsCert, tlsKey });
  const heard: string[] = [];
  app.onCertificate((fingerprint) => heard.push(fingerprint));
  const shown = async (): Promise<string> => (await getSecurely(`${app.url}/health`, ca)).fingerprint;
  const first = await shown();
  const refusals = (): number => app.logged.filter((line) => /^warn The previous certificate stays in use\. /.test(line)).length;
  const next = await issue();

  put(tlsCert, next.cert);
  await until(() => refusals() === 1);
  t.match(app.logged.at(-1), /the key in .*key\.pem does not belong to the first certificate/);
  t.equal(await shown(), first);

  writeFileSync(tlsKey, next.key.slice(0, 80));
  await until(() => refusals() === 2);
  t.match(app.logged.at(-1), /is incomplete/);
  t.equal(await shown(), first);

  put(tlsKey, next.key);
  const expected = new X509Certificate(next.cert).fingerprint256;
  await until(() => app.logged.some((line) => line === `info A new certificate is in use: ${expected}`));
  t.equal(await shown(), expected);
  t.equal(app.certificate(), expected);
  t.strictSame(heard, [expected]);
});

t.test('an unusable pair ends the start with a sentence', async (t) => {
  const { folder, tlsCert, tlsKey, issue, put } = await makeCertificates(t);
  const other = await issue();
  const file = (name: string, text: string): string => {
    put(`${folder}/${name}`, text);
    return `${folder}/${name}`;
  };
  const encrypted = createPrivateKey(other.key).export({ type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'sesame' }) as string;
  for (const [config, code, message] of [
    [{ tlsCert }, 'invalid_usage', /expected --tls-cert and --tls-key together, got only --tls-cert\.$/],
    [{ tlsKey }, 'invalid_usage', /got only --tls-key\.$/],
    [{ tlsCert: `${folder}/none.pem`, tlsKey }, 'file_unreadable', /none\.pem, the file of --tls-cert, cannot be read: there is no such file\./],
    [{ tlsCert: file('junk.pem', 'junk'), tlsKey }, 'invalid_usage', /junk\.pem is not a PEM file/],
    [{ tlsCert, tlsKey: file('other.pem', other.key) }, 'invalid_usage', /other\.pem does not belong to the first certificate/],
    [{ tlsCert, tlsKey: file('locked.pem', encrypted) }, 'invalid_usage', /locked\.pem is encrypted; write it without its passphrase/],
    [{ tlsCert, tlsKey: tlsCert }, 'invalid_usage', /has no readable private key/],
    [{ tlsCert: tlsKey, tlsKey }, 'invalid_usage', /has no readable certificate/],
    [{ tlsCert, tlsKey: file('curve-key.pem', generateKeyPairSync('ec', { namedCurve: 'secp256k1' }).privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()) }, 'invalid_usage', /curve-key\.pem is of the kind secp256k1, which clients do not support/],
    [{ tlsCert, tlsKey, host: `unix:${folder}/a.sock` }, 'invalid_usage', /TLS or a Unix socket, got both/],
  ] as const) {
    await t.rejects(startApp(t, config), { code, message }, String(message));
  }
});
