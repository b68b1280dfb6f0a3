// A server with a key, and the commands that ask it.
import { spawnSync } from 'node:child_process';
import t from 'tap';
import { makeHome } from '../home.js';
import { recua, start } from '../recua.js';

const small = ['--port', '0', '-c', '512', '--threads', '1', '--drain-timeout', '1'];
const secret = 'sesame-4711';

t.test('commands of the same user get in by themselves, others with the key', async (t) => {
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
  t.match(await recua(['ps', '--url', url], '', { env: other.env }), { code: 1, stderr: /asks for an API key/ });
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
  t.match(await home.serve('start', 'builtin', '--api-key', 'another'), { code: 0, stderr: /it runs with another --api-key\. To change that: recua serve restart/ });
  t.match(await home.serve('stop'), { code: 0 });
});

t.test('keys that cannot be used end the start', async (t) => {
  const { folder, env } = makeHome(t);
  t.match(await recua(['api', 'builtin', '--api-key', 'two words'], '', { env }), { code: 2, stderr: /visible ASCII characters/ });
  t.match(await recua(['api', 'builtin', '--api-key-file', `${folder}/none`], '', { env }), { code: 1, stderr: /none cannot be read/ });
});
