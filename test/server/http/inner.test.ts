// Requests of the server to itself: like any other, but without a socket.
import express from 'express';
import t from 'tap';
import { Inner, reasonOf } from '#recua/server/http/inner.js';
import { deferred } from '../../deferred.js';

const signal = new AbortController().signal;

t.test('requests and replies are complete, however long', async (t) => {
  const app = express();
  app.post('/echo', (req, res) => void req.pipe(res.set('x-request-id', 'req_1')));
  const inner = new Inner(app);
  for (const length of [0, 1, 65_536, 5_000_000]) {
    const reply = await inner.ask({ path: '/echo', body: 'x'.repeat(length), reason: {}, by: undefined, signal });
    t.equal(reply.status, 200);
    t.equal(reply.requestId, 'req_1');
    t.equal(reply.body.length, length);
  }
  t.equal((await inner.ask({ path: '/echo', body: 'x', reason: {}, by: undefined, signal, dropsBody: true })).body.length, 0);
  t.equal((await inner.ask({ path: '/none', body: 'x', reason: {}, by: undefined, signal, dropsBody: true })).status, 404);
});

t.test('the reason reaches the route, and no outside request can set one', async (t) => {
  const app = express();
  const reasons: unknown[] = [];
  app.post('/', (req, res) => {
    reasons.push(reasonOf(req));
    res.end();
  });
  const reason = { why: 'because' };
  await new Inner(app).ask({ path: '/', body: '', reason, by: undefined, signal });
  const server = app.listen(0, '127.0.0.1');
  t.teardown(() => server.close());
  await new Promise((resolve) => server.once('listening', resolve));
  await fetch(`http://127.0.0.1:${(server.address() as { port: number }).port}/`, { method: 'POST', headers: { reason: 'because' } });
  t.equal(reasons[0], reason);
  t.equal(reasons[1], undefined);
});

t.test('the route sees its caller hang up, and the caller sees the route hang up', async (t) => {
  const app = express();
  const { promise: seen, resolve: gone } = deferred();
  app.post('/wait', (_req, res) => {
    res.once('close', gone);
    res.write('begun');
  });
  app.post('/break', (_req, res) => {
    res.write('begun');
    setImmediate(() => res.destroy());
  });
  const inner = new Inner(app);
  const abort = new AbortController();
  const asked = inner.ask({ path: '/wait', body: '', reason: {}, by: undefined, signal: abort.signal });
  setTimeout(() => abort.abort(), 5);
  await t.rejects(asked, { name: 'AbortError' });
  await seen;
  await t.rejects(inner.ask({ path: '/wait', body: '', reason: {}, by: undefined, signal: AbortSignal.abort() }), { name: 'AbortError' });
  await t.rejects(inner.ask({ path: '/break', body: '', reason: {}, by: undefined, signal }), { code: 'ECONNRESET' });
});
