// Listening on a socket in the file system.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { request, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import t from 'tap';
import { ownFolder, startApp } from './app-under-test.js';

if (process.platform === 'win32') t.plan(0, 'no sockets in the file system that HTTP clients reach');
else {
  const get = (socketPath: string, path: string): Promise<number> => new Promise((resolve, reject) => {
    request({ socketPath, path }, (res) => {
      res.resume();
      resolve(res.statusCode!);
    }).once('error', reject).end();
  });

  t.test('the server answers on its socket, which is private to its user and gone at the end', async (t) => {
    const path = join(ownFolder(t), 'recua.sock');
    const { url, port, close } = await startApp(t, { host: `unix:${path}` });
    t.match({ url, port }, { url: `unix:${path}`, port: 0 });
    t.equal(statSync(path).mode & 0o777, 0o600);
    t.equal(await get(path, '/health'), 200);
    t.equal(await get(path, '/v1/files'), 200);
    t.notOk(existsSync(`${path}.lock`));
    await close(0);
    t.notOk(existsSync(path));
    const shared = await startApp(t, { host: path, socketMode: '660' });
    t.equal(shared.url, `unix:${path}`, 'a path that ends in .sock is one, too');
    t.equal(statSync(path).mode & 0o777, 0o660);
  });

  t.test('the settings that the page shows do not tell the path', async (t) => {
    const folder = ownFolder(t);
    for (const host of [`unix:${folder}/one`, `${folder}/other.sock`]) {
      const { url } = await startApp(t, { host });
      const reply = request({ socketPath: url.slice('unix:'.length), path: '/ui/settings' }).end();
      const [res] = await once(reply, 'response') as [IncomingMessage];
      const told = (await res.toArray()).join('');
      const { data } = JSON.parse(told) as { data: { name: string; value: string }[] };
      t.equal(data.find(({ name }) => name === '--host')?.value, 'set');
      t.notOk(told.includes(folder));
    }
  });

  t.test('the socket of a killed server is replaced, that of a running one is not', async (t) => {
    const path = join(ownFolder(t), 'recua.sock');
    const child = spawn(process.execPath, ['-e', `require('node:http').createServer((_, res) => res.end('old')).listen(${JSON.stringify(path)}, () => console.log('up'))`], { env: { ...process.env, NODE_OPTIONS: '' } });
    await once(child.stdout, 'data');
    await t.rejects(startApp(t, { host: `unix:${path}` }), { code: 'port_in_use', message: /Another server listens on the socket .*recua\.sock\. Stop it/ });
    t.equal(await get(path, '/'), 200, 'and goes on');
    child.kill('SIGKILL');
    await once(child, 'exit');
    t.ok(existsSync(path), 'left behind');
    await startApp(t, { host: `unix:${path}` });
    t.equal(await get(path, '/health'), 200);
  });

  t.test('a server leaves the socket that another one has put in the place of its own', async (t) => {
    const path = join(ownFolder(t), 'recua.sock');
    const old = await startApp(t, { host: `unix:${path}` });
    await startApp(t, { host: `unix:${path}.new` });
    renameSync(`${path}.new`, path);
    await old.close(0);
    t.equal(await get(path, '/health'), 200);
    const gone = await startApp(t, { host: `unix:${path}.other` });
    rmSync(`${path}.other`);
    await gone.close(0);
    t.notOk(existsSync(`${path}.other`));
  });

  t.test('an invalid place for a socket ends the start', async (t) => {
    const folder = ownFolder(t);
    writeFileSync(join(folder, 'file.sock'), 'mine');
    await t.rejects(startApp(t, { host: join(folder, 'file.sock') }), { code: 'port_in_use', message: /exists and is not a socket/ });
    await t.rejects(startApp(t, { host: 'unix:' }), { code: 'invalid_usage', message: /Expected the path of a socket/ });
    await t.rejects(startApp(t, { host: `unix:${join(folder, 'long'.repeat(30))}` }), { code: 'invalid_usage', message: /at most 10\d bytes/ });
    await t.rejects(startApp(t, { host: 'unix:/dev/null/a.sock' }), { code: 'address_unavailable', message: /Cannot listen on the socket/ });
  });
}
