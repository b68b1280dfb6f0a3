// Spans of a server whose program set up OpenTelemetry itself, as users of the library do.
import t from 'tap';
import { createServer } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { once } from 'node:events';
import { context, propagation, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { InMemorySpanExporter, NodeTracerProvider, SimpleSpanProcessor, type ReadableSpan } from '@opentelemetry/sdk-trace-node';
import WebSocket from 'ws';
import { singleModel } from '#recua/engine/model-pool/single-model.js';
import { RecuaError } from '#recua/errors.js';
import { createApp } from '#recua/server/app.js';
import { listen } from '#recua/server/listen.js';
import { makeConfig } from '#recua/settings/config.js';
import { hello, post, served, startApp, until } from '../app-under-test.js';
import { echo, FakeEngine } from '../fake-engine.js';
import { FakePool } from '../fake-pool.js';
import { chatPath } from '../real-app.js';
import { deferred } from '../../deferred.js';

const exporter = new InMemorySpanExporter();
const provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
provider.register();
t.teardown(() => provider.shutdown());
t.beforeEach(() => exporter.reset());

const traceId = '0af7651916cd43dd8448eb211c80319c';
const traceparent = `00-${traceId}-b7ad6b7169203331-01`;

async function spanOf(fits: (span: ReadableSpan) => boolean): Promise<ReadableSpan> {
  await until(() => exporter.getFinishedSpans().some(fits));
  return exporter.getFinishedSpans().find(fits)!;
}

const isOf = (id: string) => ({ attributes }: ReadableSpan): boolean => attributes['recua.request_id'] === id;
const childrenOf = (parent: ReadableSpan): ReadableSpan[] =>
  exporter.getFinishedSpans().filter((one) => one.parentSpanContext?.spanId === parent.spanContext().spanId);
const msOf = ([seconds, nanoseconds]: [number, number]): number => seconds * 1_000 + nanoseconds / 1e6;

t.test('within a span of the program, a request is part of it', async (t) => {
  const app = createApp({ pool: singleModel(new FakeEngine(), served), config: makeConfig({}) });
  const tracer = trace.getTracer('program');
  const server = createServer((req, res) => {
    const span = tracer.startSpan('program', { kind: SpanKind.SERVER }, propagation.extract(context.active(), req.headers));
    res.once('close', () => span.end());
    context.with(trace.setSpan(context.active(), span), () => app(req, res));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await (await post(url + chatPath, hello, { traceparent, 'x-request-id': 'inside' })).text();
  const span = await spanOf(isOf('inside'));
  const around = await spanOf(({ name }) => name === 'program');
  t.equal(span.spanContext().traceId, traceId);
  t.equal(span.parentSpanContext?.spanId, around.spanContext().spanId);
  t.equal(span.kind, SpanKind.INTERNAL);
  t.equal(around.parentSpanContext?.spanId, 'b7ad6b7169203331');
});

t.test('waiting for a model to load is a span, even if the client leaves first', async (t) => {
  const pool = new FakePool('owner/a', 'owner/b');
  pool.slow.add('owner/a');
  pool.slow.add('owner/b');
  const { url, close } = await listen({ pool, config: makeConfig({ port: 0 }) });
  t.teardown(() => close(0));
  const asked = post(url + chatPath, { ...hello, model: 'owner/a-alias' }, { 'x-request-id': 'slow' });
  await until(() => pool.entry('owner/a').waiting.length === 1);
  await new Promise((resolve) => setTimeout(resolve, 20));
  pool.finish('owner/a');
  await (await asked).text();
  const span = await spanOf(isOf('slow'));
  t.match(span.attributes, { 'gen_ai.request.model': 'owner/a-alias', 'gen_ai.response.model': 'owner/a' });
  t.strictSame(childrenOf(span).map(({ name }) => name), ['load', 'queue', 'prefill', 'decode']);
  const [load, queue] = childrenOf(span);
  t.ok(msOf(load!.duration) >= 15);
  t.ok(msOf(queue!.startTime) >= msOf(load!.endTime) - 0.01, 'the queue is behind it');

  await (await post(url + chatPath, { ...hello, model: 'owner/a' }, { 'x-request-id': 'loaded' })).text();
  t.strictSame(childrenOf(await spanOf(isOf('loaded'))).map(({ name }) => name), ['queue', 'prefill', 'decode']);

  const leaving = new AbortController();
  const gone = post(url + chatPath, { ...hello, model: 'owner/b' }, { 'x-request-id': 'left' }, leaving.signal).catch(() => undefined);
  await until(() => pool.entry('owner/b').waiting.length === 1);
  leaving.abort();
  await gone;
  const left = await spanOf(isOf('left'));
  t.equal(left.name, 'chat');
  t.equal(left.attributes['error.type'], 'cancelled');
  t.strictSame(childrenOf(left).map(({ name, endTime }) => [name, msOf(endTime) <= msOf(left.endTime) + 0.01]), [['load', true]]);
});

t.test('an error of the server is an error of its span, without the sentence that may quote the request', async (t) => {
  const { url, engine } = await startApp(t, { apiKey: 'one' });
  const headers = { authorization: 'Bearer one' };
  engine.script = async function* () {
    yield { content: 'x' };
    throw new RecuaError('model_crashed', 'It died of xyzzy.');
  };
  await (await post(url + chatPath, { ...hello, stream: true }, { ...headers, 'x-request-id': 'crash' })).text();
  const crash = await spanOf(isOf('crash'));
  t.match(crash.attributes, { 'error.type': 'model_crashed', 'http.response.status_code': 200, 'recua.key.name': 'key 7692c3ad3540' });
  t.strictSame(crash.status, { code: SpanStatusCode.ERROR, message: 'model_crashed' });
  await (await post(url + chatPath, hello, { 'x-request-id': 'stranger' })).text();
  const stranger = await spanOf(isOf('stranger'));
  t.match(stranger, { name: `POST ${chatPath}`, status: { code: SpanStatusCode.UNSET }, attributes: { 'error.type': 'invalid_api_key', 'http.response.status_code': 401 } });
  engine.early = new RecuaError('queue_full', 'Too many.');
  await (await post(url + chatPath, hello, { ...headers, 'x-request-id': 'full' })).text();
  t.match(await spanOf(isOf('full')), { attributes: { 'error.type': 'queue_full' } });
  t.equal(crash.events.length, 0);
});

t.test('messages over a WebSocket continue the trace that it was opened with', async (t) => {
  const { url } = await startApp(t);
  const socket = new WebSocket(`${url.replace('http', 'ws')}/v1/responses`, { headers: { traceparent } });
  await once(socket, 'open');
  const ended = new Promise((resolve) => socket.on('message', (data) => {
    if ((data as Buffer).toString().includes('response.completed')) resolve(undefined);
  }));
  socket.send(JSON.stringify({ type: 'response.create', input: 'hello' }));
  await ended;
  socket.close();
  const span = await spanOf(({ attributes }) => attributes['http.route'] === '/v1/responses');
  t.match(span, { name: 'chat owner/model', attributes: { 'recua.inner': true } });
  t.equal(span.spanContext().traceId, traceId);
  t.equal(span.parentSpanContext?.spanId, 'b7ad6b7169203331');
});

t.test('requests that wait behind others on one connection keep their own parents', async (t) => {
  const { url, engine } = await startApp(t);
  const { promise: gate, resolve: open } = deferred();
  engine.script = async function* (request) {
    await gate;
    yield* echo(request);
  };
  const socket = connect(Number(new URL(url).port), '127.0.0.1');
  t.teardown(() => socket.destroy());
  const body = JSON.stringify(hello);
  const request = (id: string, parent: string): string => [`POST ${chatPath} HTTP/1.1`, 'host: x', 'content-type: application/json', `x-request-id: ${id}`,
    `traceparent: 00-${traceId}-${parent}-01`, `content-length: ${body.length}`, '', body].join('\r\n');
  socket.write(request('first', '1'.repeat(16)) + request('second', '2'.repeat(16)));
  socket.resume();
  await until(() => engine.running.size === 1);
  open();
  for (const [id, parent] of [['first', '1'], ['second', '2']] as const) t.equal((await spanOf(isOf(id))).parentSpanContext?.spanId, parent.repeat(16));
});

t.test('a trace that its sender does not record is not recorded here', async (t) => {
  const { url } = await startApp(t);
  await (await post(url + chatPath, hello, { traceparent: traceparent.replace(/01$/, '00'), 'x-request-id': 'unseen' })).text();
  await (await post(url + chatPath, hello, { 'x-request-id': 'seen' })).text();
  await spanOf(isOf('seen'));
  t.notOk(exporter.getFinishedSpans().some(isOf('unseen')));
});

t.test('paths of spans have no names of saved chats', async (t) => {
  const { url } = await startApp(t);
  await fetch(`${url}/sessions/my%20secret`, { headers: { 'x-request-id': 'named' } });
  t.equal((await spanOf(isOf('named'))).attributes['url.path'], '/sessions/:name');
});
