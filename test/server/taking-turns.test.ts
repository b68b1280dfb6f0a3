// The engine learns which client a request is from, and takes clients in turn: by API key, else by
// address. Also what `service_tier` requests, in each dialect.
import { once } from 'node:events';
import t from 'tap';
import { WebSocket } from 'ws';
import { hello, post, startApp, until } from './app-under-test.js';

const { messages } = hello;

t.test('clients are told apart by the name of their key, and without keys by address', async (t) => {
  const open = await startApp(t);
  await (await post(`${open.url}/v1/chat/completions`, hello)).text();
  t.match(open.engine.requests.at(-1)!.asker, { client: /127\.0\.0\.1$/, priority: 0 });

  const keyed = await startApp(t, { apiKeyFile: JSON.stringify({ keys: [{ name: 'ann', key: 'a' }, { name: 'bob', key: 'b' }] }) });
  for (const [key, name] of [['a', 'ann'], ['b', 'bob']]) {
    await (await post(`${keyed.url}/v1/chat/completions`, hello, { authorization: `Bearer ${key}` })).text();
    t.strictSame(keyed.engine.requests.at(-1)!.asker, { client: name, priority: 0 });
  }
});

t.test('so are those whose requests the server makes to itself', async (t) => {
  const open = await startApp(t);
  const asked = (): unknown => open.engine.requests.at(-1)?.asker?.client;
  await post(`${open.url}/v1/responses`, { input: 'x', background: true });
  await until(() => open.engine.requests.length === 1);
  t.match(asked(), /127\.0\.0\.1$/, 'in the background');
  const socket = new WebSocket(`${open.url.replace('http', 'ws')}/v1/responses`);
  t.teardown(() => socket.terminate());
  await once(socket, 'open');
  socket.send(JSON.stringify({ type: 'response.create', input: 'x' }));
  await until(() => open.engine.requests.length === 2);
  t.match(asked(), /127\.0\.0\.1$/, 'over a WebSocket');
});

t.test('service_tier moves a request before or behind others, in each dialect', async (t) => {
  const { url, engine } = await startApp(t);
  const bodies: [string, object][] = [
    ['/v1/chat/completions', { messages }], ['/v1/completions', { prompt: 'a' }], ['/v1/responses', { input: 'a' }],
    ['/v1/messages', { messages, max_tokens: 9 }], ['/completion', { prompt: 'a' }],
  ];
  for (const [path, body] of bodies) {
    for (const [tier, priority] of [['priority', 1], ['flex', -1], ['auto', 0], ['standard_only', 0], [undefined, 0], ['constructor', 0]] as const) {
      t.equal((await post(url + path, { ...body, service_tier: tier })).status, 200, path);
      t.equal(engine.requests.at(-1)!.asker!.priority, priority, `${path}: ${tier}`);
    }
  }
});

t.test('a reply reports the place in the queue that its request had', async (t) => {
  const { url, engine } = await startApp(t);
  const ask = async (stream: boolean) => (await post(`${url}/v1/chat/completions`, { messages, stream })).headers.get('x-queue-position');
  for (const stream of [false, true]) {
    engine.position = 0;
    t.equal(await ask(stream), null, 'it had to wait for nobody');
    engine.position = 3;
    t.equal(await ask(stream), '3');
  }
});
