// Servers with TLS and with sockets in their own processes, and the commands that send requests to
// them.
import { spawnSync } from 'node:child_process';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { getSecurely, makeCertificates } from '../../server/access/certificates.js';
import { makeHome } from '../home.js';
import { recua, start } from '../recua.js';

const small = ['-c', '512', '--threads', '1', '--drain-timeout', '1'];

t.test('commands of the same user trust the certificate, before and after it changes', async (t) => {
  const home = makeHome(t);
  const { env } = home;
  const { tlsCert, tlsKey, ca, caFile, issue, put } = await makeCertificates(t);
  const server = start(['api', 'builtin', '--port', '0', ...small, '--tls-cert', tlsCert, '--tls-key', tlsKey], { env });
  t.teardown(async () => {
    server.child.kill('SIGKILL');
    await server.ended;
  });
  const url = (await server.saw(/Recua listens on (https:\/\/\S+)/))[1]!;
  t.match(await recua(['ps'], '', { env }), { code: 0, stdout: /builtin/ });
  t.match(await recua(['run', 'builtin', '-p', 'Hello', '-n', '8'], '', { env }), { code: 0 });
  await server.saw(/POST \/v1\/chat\/completions 200/);

  const other = makeHome(t).env;
  t.match(await recua(['ps', '--url', url], '', { env: other }), { code: 1, stderr: /has a certificate that this machine does not trust .*NODE_EXTRA_CA_CERTS/s });
  t.match(await recua(['ps', '--url', url], '', { env: { ...other, NODE_EXTRA_CA_CERTS: caFile } }), { code: 0, stdout: /builtin/ });
  t.match(await recua(['ps', '--url', url], '', { env }), { code: 0, stdout: /builtin/ });

  const next = await issue();
  put(tlsKey, next.key);
  put(tlsCert, next.cert);
  await server.saw(/A new certificate is in use/);
  t.match(await recua(['ps'], '', { env }), { code: 0, stdout: /builtin/ });
  t.match(await getSecurely(`${url}/health`, ca), { status: 200 });
});

t.test('the managed server speaks TLS', async (t) => {
  const { folder, serve, record } = makeHome(t);
  const { tlsCert, tlsKey, ca } = await makeCertificates(t);
  t.match(await serve('start', 'builtin', '--port', '0', ...small, '--tls-cert', tlsCert, '--tls-key', tlsKey), { code: 0, stderr: /at https:\/\// });
  t.match(await serve('status'), { code: 0, stdout: /running/ });
  t.match(await getSecurely(`${record().url}/health`, ca), { status: 200 });
  t.match(await serve('restart'), { code: 0, stderr: /at https:\/\// });
  t.match(await serve('stop'), { code: 0 });
  t.match(await serve('start', 'builtin', '--port', '0', ...small, '--tls-cert', `${folder}/none`, '--tls-key', tlsKey), { code: 1, stderr: /--tls-cert, cannot be read/ });
});

t.test('commands reach a server on a socket', { skip: process.platform === 'win32' && 'not there' }, async (t) => {
  const { folder, serve, env, record } = makeHome(t);
  const path = join(folder, 'recua.sock');
  t.match(await serve('start', 'builtin', ...small, '--host', `unix:${path}`), { code: 0, stderr: new RegExp(`curl --unix-socket ${path} http://localhost/v1`) });
  t.equal(record().url, `unix:${path}`);
  t.equal(statSync(path).mode & 0o777, 0o600);
  t.match(await serve('status'), { code: 0, stdout: /running/ });
  t.match(await recua(['ps'], '', { env }), { code: 0, stdout: /builtin/ });
  t.match(await recua(['ps', '--url', `unix:${path}`], '', { env: makeHome(t).env }), { code: 0, stdout: /builtin/ });
  t.match(await recua(['run', 'builtin', '-p', 'Hello', '-n', '8'], '', { env }), { code: 0 });
  const curl = spawnSync('curl', ['-sf', '--unix-socket', path, 'http://localhost/health'], { encoding: 'utf8' });
  if (!curl.error) t.match(curl.stdout, /"status":"ok"/);
  t.match(await recua(['api', 'builtin', '--host', `unix:${path}`], '', { env }), { code: 1, stderr: /Another server listens on the socket/ });
  t.match(await serve('stop'), { code: 0 });
  t.match(await recua(['ps', '--url', `unix:${path}`], '', { env }), { code: 1, stderr: /is a socket that does not exist/ });
});
