// A server with a key, and the commands that send requests to it.
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import t from 'tap';
import { makeHome } from '../home.js';
import { recua, start } from '../recua.js';

const small = ['--port', '0', '-c', '512', '--threads', '1', '--drain-timeout', '1'];
const secret = 'sesame-4711';

t.test('commands of the same user get in without a key, others with the key', async (t) => {
  const home = makeHome(t);
  const env = { ...home.env, RECUA_API_KEY: secret };
  const server = start(['api', 'builtin', ...small], { env });
  t.teardown(async () => {
    server.child.kill('SIGKILL');
    await server.ended;
  });
  const url = (await server.saw(/Recua listens on (http:\/\/\S+)/))[1]!;
  await server.saw(/Try: curl \S+ -H "Authorization: Bearer \$RECUA_API_KEY"/);
  t.equal((await fetch(`${url}/v1/models`)).status, 401);
  t.equal((await fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${secret}` } })).status, 200);

  t.match(await recua(['ps'], '', { env: home.env }), { code: 0, stdout: /builtin/ });
  const answered = await recua(['run', 'builtin', '-p', 'Hello', '-n', '8'], '', { env: home.env });
  t.match(answered, { code: 0 });
  await server.saw(/POST \/v1\/chat\/completions 200/);
  const other = makeHome(t);
  t.match(await recua(['ps', '--url', url], '', { env: other.env }), { code: 1, stderr: /needs an API key\. Give it with --api-key, or set RECUA_API_KEY\./ });
  t.match(await recua(['ps', '--url', url], '', { env: { ...other.env, RECUA_API_KEY: secret } }), { code: 0, stdout: /builtin/ });
  t.match(await recua(['ps', '--url', url, '--api-key', secret], '', { env: other.env }), { code: 0, stdout: /builtin/ });
  t.notMatch(server.stderr(), new RegExp(secret));

  const config = await recua(['config', 'api'], '', { env });
  t.match(config.stdout, /api-key +\(hidden\)/);
  t.notMatch(config.stdout, new RegExp(secret));
});

t.test('the managed server keeps its key over a restart, and shows it to nobody', { skip: process.platform === 'win32' && 'ps is not there' }, async (t) => {
  const home = makeHome(t);
  t.match(await home.serve('start', 'builtin', ...small, '--api-key', secret), { code: 0 });
  t.match(await home.serve('restart'), { code: 0 });
  const { url } = home.record();
  t.equal((await fetch(`${url}/v1/models`)).status, 401);
  t.equal((await fetch(`${url}/v1/models`, { headers: { 'x-api-key': secret } })).status, 200);
  t.notMatch(spawnSync('ps', ['-eo', 'args='], { encoding: 'utf8', maxBuffer: 1 << 26 }).stdout, new RegExp(secret));
  t.match(await home.serve('start', 'builtin', '--api-key', 'another'), { code: 0, stderr: /the server runs with another --api-key\. To change that: recua serve restart/ });
  t.match(await home.serve('stop'), { code: 0 });
});

t.test('unusable keys end the start', async (t) => {
  const { folder, env } = makeHome(t);
  t.match(await recua(['api', 'builtin', '--api-key', 'two words'], '', { env }), { code: 2, stderr: /visible ASCII characters/ });
  t.match(await recua(['api', 'builtin', '--api-key-file', `${folder}/none`], '', { env }), { code: 1, stderr: /none cannot be read/ });
});

t.test('keys, template and config may come from pipes, which are read once', { skip: process.platform === 'win32' && 'has no such pipes' }, async (t) => {
  const { folder, env } = makeHome(t);
  writeFileSync(`${folder}/start.sh`, 'exec "$@" --api-key-file <(sleep 0.2; echo sesame) --chat-template-file <(echo "{{ messages[0].content }}")');
  const server = start(['api', 'builtin', ...small], { env, through: ['bash', `${folder}/start.sh`] });
  t.teardown(async () => {
    server.child.kill('SIGKILL');
    await server.ended;
  });
  const url = (await server.saw(/Recua listens on (http:\/\/\S+)/))[1]!;
  t.equal((await fetch(`${url}/v1/models`, { headers: { 'x-api-key': 'sesame' } })).status, 200);
  server.child.kill('SIGTERM');
  t.match(await server.ended, { code: 0 });
  t.notMatch(server.stderr(), /previous API keys/);
});

t.test('a key removed from the file opens nothing, without a restart; the day\'s tokens stay counted over one', async (t) => {
  const { folder, env } = makeHome(t);
  const file = `${folder}/keys.json`;
  const put = (...names: string[]): void => writeFileSync(file, JSON.stringify(names.map((name) => ({ name, key: `key-of-${name}`, tokens_per_day: 10 }))));
  const ask = async (url: string, name: string): Promise<number> => (await fetch(`${url}/v1/chat/completions`, {
    method: 'POST', headers: { 'content-type': 'application/json', 'x-api-key': `key-of-${name}` }, body: JSON.stringify({ messages: [{ role: 'user', content: 'Hello there' }], max_tokens: 8 }),
  })).status;
  const serve = async (): Promise<{ url: string; stop: () => Promise<unknown>; saw: (pattern: RegExp) => Promise<unknown> }> => {
    const server = start(['api', 'builtin', ...small, '--api-key-file', file], { env });
    t.teardown(() => void server.child.kill('SIGKILL'));
    const url = (await server.saw(/Recua listens on (http:\/\/\S+)/))[1]!;
    return { url, saw: server.saw, stop: () => { server.child.kill('SIGTERM'); return server.ended; } };
  };
  put('ann', 'bob');
  const first = await serve();
  t.strictSame([await ask(first.url, 'ann'), await ask(first.url, 'ann')], [200, 429]);
  put('ann');
  await first.saw(/The API keys of .* were read again/);
  t.equal(await ask(first.url, 'bob'), 401);
  await first.stop();
  const second = await serve();
  t.equal(await ask(second.url, 'ann'), 429);
  t.match(await second.stop(), { code: 0 });
});
