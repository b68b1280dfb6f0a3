// A balancer requests with `x-stream-opens: first-piece` that a stream sends nothing before its
// first piece: until then the balancer can move the request to another server.
import t from 'tap';
import { echo, hang } from './fake-engine.js';
import { hello, post, startApp, until } from './app-under-test.js';
import { deferred } from '../deferred.js';

const held = { 'x-stream-opens': 'first-piece' };

t.test('a held stream opens with its first piece, others when the prompt is accepted', async (t) => {
  const { url, engine } = await startApp(t);
  const { promise: gate, resolve: go } = deferred();
  engine.position = 2;
  engine.script = async function* late(request) {
    await gate;
    yield* echo(request);
  };
  const plain = await post(`${url}/v1/chat/completions`, { ...hello, stream: true });
  t.equal(plain.status, 200, 'its headers came before any piece');
  let isOpen = false;
  const waiting = post(`${url}/v1/chat/completions`, { ...hello, stream: true }, held).then((response) => {
    isOpen = true;
    return response;
  });
  await until(() => engine.running.size === 2);
  // Anything that the held stream sent before its first piece would arrive before this reply.
  await (await fetch(`${url}/health`)).text();
  t.equal(isOpen, false);
  go();
  const response = await waiting;
  t.equal(response.headers.get('x-queue-position'), '2');
  const without = (text: string) => text.replace(/"(id|created)":("[^"]*"|\d+)/g, '');
  t.equal(without(await response.text()), without(await plain.text()), 'the same pieces');
});

t.test('a held stream that a stopping server does not begin gets a status, so that it goes elsewhere', async (t) => {
  const app = await startApp(t);
  app.engine.script = hang;
  const waiting = post(`${app.url}/v1/chat/completions`, { ...hello, stream: true }, held);
  const open = await post(`${app.url}/v1/chat/completions`, { ...hello, stream: true });
  await until(() => app.engine.running.size === 2);
  await app.close(0);
  const response = await waiting;
  t.equal(response.status, 503);
  t.match(await response.json(), { error: { code: 'shutting_down' } });
  t.match(await open.text(), /shutting_down/, 'one that was open says so as its last event');
});

t.test('another value of the header is refused', async (t) => {
  const { url } = await startApp(t);
  const response = await post(`${url}/v1/chat/completions`, { ...hello, stream: true }, { 'x-stream-opens': 'soon' });
  t.equal(response.status, 400);
  t.match(await response.json(), { error: { code: 'invalid_value', param: 'x-stream-opens', message: /first-piece/ } });
});
