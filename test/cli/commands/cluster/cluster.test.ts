// `recua cluster config`: the balancer itself accepts the result, and arguments that give no
// configuration are refused at once.
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import t from 'tap';
import { check } from '#recua/cli/commands/cluster/check.js';
import { askingPaths, keptPaths } from '#recua/cluster/conversation.js';
import { readListen, readReplicas } from '#recua/cluster/replicas.js';
import { describeApi } from '#recua/server/app.js';
import { recua } from '../../recua.js';

const path = `${process.env['PATH']}:/usr/sbin:/usr/local/sbin`;
const isThere = (program: string) => spawnSync(program, ['-v'], { env: { ...process.env, PATH: path } }).error === undefined;
const config = (...words: string[]) => recua(['cluster', 'config', ...words]);
const cluster = { replicas: readReplicas('http://10.0.0.1:8080'), listen: readListen('127.0.0.1:8000'), authorities: '', tlsName: '', parallel: 4 };
const two = 'http://10.0.0.1:8080,http://10.0.0.2:8080';

for (const kind of ['haproxy', 'nginx']) {
  t.test(`${kind} accepts the configuration, in each form`, { skip: isThere(kind) ? false : `${kind} is not installed` }, async (t) => {
    const authorities = join(t.testdir(), 'all authorities.pem');
    const made = spawnSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', '/dev/null', '-out', authorities, '-subj', '/CN=a', '-days', '1']);
    const secure = made.status === 0 ? [['--replicas', 'https://10.0.0.1,https://10.0.0.2', '--ca-file', authorities, '--tls-name', 'models.example.com']] : [];
    const forms = [
      ['--replicas', two], ['--replicas', two, '--listen', ':8123', '--parallel', '16'], ['--replicas', 'http://[::1]:8080,http://localhost:8081', '--listen', '[::1]:8123'],
      ['--replicas', Array.from({ length: 200 }, (_, index) => `http://10.0.1.${index}:80`).join(',')], ...secure,
    ];
    for (const form of forms) {
      const { code, stdout, stderr } = await config(kind, ...form);
      t.equal(code, 0, stderr);
      t.match(stderr, new RegExp(`${kind} -[ct] accepts this configuration`));
      t.match(stdout, /first-piece/);
      t.equal(stdout.includes('  bind [::]:8123 v6only\n') || stdout.includes('  listen [::]:8123;\n'), form.includes(':8123'), 'IPv6, too');
      t.match(stdout, form.includes('--tls-name') ? /models\.example\.com/ : /10\.0|::1/);
    }
  });

  t.test(`${kind} accepts what only the balancer's machine has, with a warning`, { skip: isThere(kind) ? false : `${kind} is not installed` }, async (t) => {
    const secure = ['--replicas', 'https://recua-a.invalid', '--ca-file', '/no/such/authorities.pem'];
    const forms: [string[], RegExp, RegExp][] = [
      [['--replicas', two, '--listen', 'balancer.invalid:8000'], /listen on balancer\.invalid:8000 \([\w ]+\)/, /(bind|listen) balancer\.invalid:8000/],
      [secure, /read \/no\/such\/authorities\.pem/, /\/no\/such\/authorities\.pem/],
      [[...secure.slice(0, 3), 'authorities.pem'], /find authorities\.pem, a path of the balancer's own folder/, / authorities\.pem/],
    ];
    for (const [form, lack, kept] of forms) {
      const { code, stdout, stderr } = await config(kind, ...form);
      t.equal(code, 0, stderr);
      t.match(stderr, new RegExp(`${kind} -[ct] accepts this configuration\\.\n(Warning: .*\n)*Warning: this machine cannot ${lack.source}\\. The balancer's machine must`));
      t.match(stdout, kept);
    }
    const { code, stderr } = await config(kind, '--replicas', two, '--listen', '192.0.2.1:8000');
    t.equal(code, 0, stderr);
    if (kind === 'nginx') t.match(stderr, /Warning: this machine cannot listen on 192\.0\.2\.1:8000 \(address not available\)\./);
  });

  t.test(`${kind} refuses a file of authorities that is none`, { skip: isThere(kind) ? false : `${kind} is not installed` }, async (t) => {
    const authorities = join(t.testdir({ 'a.pem': 'no certificate' }), 'a.pem');
    t.match(await config(kind, '--replicas', 'https://localhost', '--ca-file', authorities), { code: 1, stdout: '', stderr: /rejects this configuration, so nothing was written:\n[^]*a\.pem/ });
  });

  t.test(`a missing ${kind} is reported`, async (t) => {
    const before = process.env['PATH'];
    process.env['PATH'] = t.testdir();
    t.teardown(() => { process.env['PATH'] = before; });
    t.strictSame(await check(kind as 'haproxy', cluster, []), { outcome: 'missing' });
  });

  t.test(`a configuration that ${kind} refuses is not written`, { skip: process.platform === 'win32' && 'needs a shell' }, async (t) => {
    const folder = t.testdir({ bin: {} });
    writeFileSync(join(folder, 'bin', kind), '#!/bin/sh\necho "line 7: no good" >&2\nexit 1\n');
    chmodSync(join(folder, 'bin', kind), 0o755);
    const out = join(folder, 'out.conf');
    const { code, stdout, stderr } = await recua(['cluster', 'config', kind, '--replicas', two, '--out', out], '', { env: { PATH: `${join(folder, 'bin')}:${process.env['PATH']}` } });
    t.match({ code, stdout, stderr }, { code: 1, stdout: '', stderr: /rejects this configuration, so nothing was written:\nline 7: no good/ });
    t.notOk(existsSync(out));
  });
}

t.test('nginx accepts names that this machine cannot look up, with a warning', { skip: isThere('nginx') ? false : 'nginx is not installed' }, async (t) => {
  const { code, stdout, stderr } = await config('nginx', '--replicas', 'http://recua-a.invalid:8080,http://10.0.0.2:8080,http://recua-b.invalid:8080');
  t.equal(code, 0, stderr);
  t.match(stderr, /nginx -t accepts this configuration\.\nWarning: this machine cannot look up recua-a\.invalid, recua-b\.invalid\. /);
  t.match(stdout, /server recua-a\.invalid:8080/);
});

t.test('nginx says what it cannot do, and HAProxy what stays on the replica that made it', async (t) => {
  t.match((await config('nginx', '--replicas', two)).stderr, /Note: nginx cannot read JSON.*\n.*Note: nginx counts/);
  t.match((await config('haproxy', '--replicas', two)).stderr, /Note: Files, batches and stored responses/);
});

t.test('--out writes a file, and replaces one only with --force', async (t) => {
  const out = join(t.testdir(), 'recua.yaml');
  const words = ['kubernetes', '--image', 'recua:1', '--model', 'builtin', '--out', out];
  t.match(await config(...words, '--replicas', '2'), { code: 0, stdout: '', stderr: /Wrote / });
  t.equal(readFileSync(out, 'utf8'), (await config(...words.slice(0, -2), '--replicas', '2')).stdout);
  t.match(await config(...words, '--replicas', '2'), { code: 0 }, 'the same again');
  t.match(await config(...words, '--replicas', '3'), { code: 1, stderr: /already exists.*--force/ });
  t.match(readFileSync(out, 'utf8'), /replicas: 2\n/);
  t.match(await config(...words, '--replicas', '3', '--force'), { code: 0 });
  t.match(readFileSync(out, 'utf8'), /replicas: 3\n/);
  const folder = join(t.testdir(), 'a folder');
  mkdirSync(folder);
  t.match(await config(...words.slice(0, -1), folder, '--replicas', '3'), { code: 1, stderr: /cannot be read/ });
  t.match(await config(...words.slice(0, -1), join(folder, 'none', 'x'), '--replicas', '3'), { code: 1, stderr: /cannot be written/ });
});

t.test('arguments that give no configuration are an error that says what was expected', async (t) => {
  const wrong: [string[], RegExp][] = [
    [[], /one of haproxy, nginx, kubernetes.*got none/], [['caddy', '--replicas', two], /got caddy/], [['haproxy', 'nginx', '--replicas', two], /got haproxy nginx/],
    [['haproxy'], /--replicas http.*got none/], [['haproxy', '--replicas', 'one,two'], /no URL of http/], [['haproxy', '--replicas', two, '--listen', 'here'], /--listen/],
    [['haproxy', '--replicas', two, '--image', 'a'], /--image has no effect for haproxy/], [['nginx', '--replicas', two, '--model', 'a'], /--model has no effect for nginx/],
    [['kubernetes', '--replicas', '2', '--image', 'a', '--model', 'b', '--listen', ':80'], /--listen has no effect for kubernetes/], [['kubernetes', '--replicas', two, '--image', 'a', '--model', 'b'], /how many replicas/],
    [['kubernetes', '--replicas', '2', '--model', 'b'], /--image/], [['haproxy', '--replicas', two, '--parallel', '0'], /--parallel/], [['haproxy', '--replicas', two, '--lisen', ':80'], /--lisen/],
    [['nginx', '--replicas', 'http://a:1,https://b:1'], /one scheme/], [['nginx', '--replicas', 'https://a:1,https://b:1'], /--tls-name/], [['haproxy', '--replicas', two, '--tls-name', "a'b"], /--tls-name/], [['haproxy', '--replicas', 'https://10.0.0.1'], /against names/],
    [['nginx', '--replicas', 'https://10.0.0.1'], /against names/],
    [['haproxy', '--replicas', two, '--ca-file', 'a\nb'], /--ca-file/],
  ];
  for (const [words, message] of wrong) t.match(await config(...words), { code: 2, stdout: '', stderr: message }, words.join(' '));
});

t.test('the routes that any replica can answer exist in the API', (t) => {
  const { document } = describeApi();
  const others = ['/v1/reranking', '/reranking', '/rerank', '/api/embeddings'];
  const all = new Set([...Object.keys(document.paths), ...others]);
  const isRoute = (one: string) => all.has(one) || all.has(`/v1${one}`);
  t.strictSame([...askingPaths, ...keptPaths].filter((one) => !isRoute(one)), []);
  t.end();
});
