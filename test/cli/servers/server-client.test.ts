import t from 'tap';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Test } from 'tap';
import { ServerClient } from '#recua/cli/servers/server-client.js';
import { startApp } from '../../server/app-under-test.js';

async function listen(t: Test, answer: RequestListener): Promise<string> {
  const server = createServer(answer).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

t.test('it sends requests to a server, and throws the errors of the server', async (t) => {
  const { url } = await startApp(t);
  const client = new ServerClient({ url });
  t.equal(client.url, url);
  t.match(await client.getJson('/v1/models'), { object: 'list' });
  const body = { messages: [{ role: 'user', content: 'hi' }] };
  t.match(await client.postJson('/v1/chat/completions', body), { object: 'chat.completion' });
  t.match(await (await client.post('/v1/chat/completions', { ...body, stream: true })).text(), /data: \[DONE\]/);
  t.match(await client.postJson('/models/load', { model: 'owner/model', keep_alive: 60 }), { success: true, warnings: [/^keep_alive changes nothing here: this server has a single model/] });
  t.notOk('warnings' in (await client.postJson('/models/load', { model: 'owner/model' }) as object));
  await t.rejects(client.postJson('/models/unload', { model: 'small' }), { code: 'model_fixed', message: /started with one model/ });
  await t.rejects(client.post('/v1/chat/completions', { model: 'gpt-4', ...body }), { code: 'model_not_found', param: 'model' });
  await t.rejects(client.getJson('/nowhere'), { code: 'route_not_found' });
});

t.test('an address is read in all the usual spellings', async (t) => {
  for (const given of ['http://localhost:8080', 'localhost:8080', 'http://localhost:8080/', 'http://localhost:8080/v1/']) {
    t.equal(new ServerClient({ url: given }).url, 'http://localhost:8080', given);
  }
  for (const wrong of ['', 'ftp://localhost', 'http://', 'http://a b', 'http://localhost/?x']) {
    t.throws(() => new ServerClient({ url: wrong }), { code: 'invalid_usage', message: /Expected the address of a server, such as http/ }, wrong);
  }
});

t.test('a server that does not respond is named, with what to do', async (t) => {
  const url = await listen(t, (_, res) => res.destroy());
  await t.rejects(new ServerClient({ url }).getJson('/v1/models'), { code: 'server_unreachable', message: new RegExp(`^The server ${url} ended the connection`) });
  const gone = createServer().listen(0, '127.0.0.1');
  await once(gone, 'listening');
  const { port } = gone.address() as AddressInfo;
  await new Promise((resolve) => gone.close(resolve));
  await t.rejects(new ServerClient({ url: `127.0.0.1:${port}` }).postJson('/x', {}), {
    code: 'server_unreachable', message: `The server http://127.0.0.1:${port} refuses the connection: no server listens there. recua ps lists the running servers; recua serve start starts one.`,
  });
});

t.test('a server that is not Recua is reported as such', async (t) => {
  const page = await listen(t, (_, res) => res.end('<html>'));
  await t.rejects(new ServerClient({ url: page }).getJson('/v1/models'), { code: 'server_unreachable', message: /something other than JSON: it is not a Recua server/ });
  const other = await listen(t, (_, res) => res.writeHead(404).end('{"detail":"none"}'));
  await t.rejects(new ServerClient({ url: other }).getJson('/v1/models'), { code: 'server_unreachable', message: /GET \/v1\/models with HTTP 404/ });
});

t.test('a reply without end is not waited for', async (t) => {
  for (const status of [200, 500]) {
    let sentMib = 0;
    const url = await listen(t, (_, res) => {
      res.writeHead(status);
      const more = (): void => {
        while (sentMib++ < 200 && res.write(' '.repeat(2 ** 20)));
        if (sentMib >= 200) res.end();
      };
      res.on('drain', more);
      more();
    });
    await t.rejects(new ServerClient({ url }).postJson('/models/load', {}), { code: 'server_unreachable', message: /it is not a Recua server/ });
    t.ok(sentMib < 100, `${status}: ${sentMib} MiB`);
  }
});

t.test('an aborted request is cancelled', async (t) => {
  const controller = new AbortController();
  const url = await listen(t, () => controller.abort());
  await t.rejects(new ServerClient({ url }).postJson('/x', {}, controller.signal), { code: 'cancelled' });
  // Also before and just after its body is sent.
  t.equal(await new ServerClient({ url }).postJson('/x', {}, AbortSignal.abort()).catch(({ code }) => code), 'cancelled');
  for (let turns = 0; turns < 12; turns++) {
    const soon = new AbortController();
    const asked = new ServerClient({ url: await listen(t, () => undefined) }).postJson('/x', {}, soon.signal);
    for (let passed = 0; passed < turns; passed++) await new Promise(setImmediate);
    soon.abort();
    await t.rejects(asked, { code: 'cancelled' });
  }
});
