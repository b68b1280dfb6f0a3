import { EventEmitter, once } from 'node:events';
import { connect, type Socket } from 'node:net';
import type { Response } from 'express';
import t, { type Test } from 'tap';
import { pack } from '#recua/engine/packed-tokens.js';
import { ReplyMemory } from '#recua/server/body/reply-memory.js';
import { FakeEngine } from '../fake-engine.js';
import { ownFolder, post, startApp } from '../app-under-test.js';

const kib = 1_024;

class FakeResponse extends EventEmitter {
  destroyed = false;

  destroy(): void {
    this.destroyed = true;
    this.emit('close');
  }
}

/** A slow clock: on a busy machine, no reply of a test is held for so long that it gives way. */
function slowClock(t: Test): void {
  const now = performance.now.bind(performance);
  t.intercept(performance, 'now', { value: () => now() / 30 });
}

const response = (): FakeResponse & Response => new FakeResponse() as unknown as FakeResponse & Response;

t.test('unread replies never hold more memory than there is, nor those of one client more than half', (t) => {
  const memory = new ReplyMemory(1_000 * kib);
  const [one, two, three, four] = [response(), response(), response(), response()];
  memory.hold(one, 'ann', 400 * kib);
  t.throws(() => memory.hold(two, 'ann', 200 * kib), { code: 'body_memory_full' });
  memory.hold(two, 'bob', 400 * kib);
  t.throws(() => memory.hold(three, 'cat', 300 * kib), { code: 'body_memory_full' });
  memory.hold(three, 'cat', 200 * kib);
  memory.hold(four, 'ann', 64 * kib);
  t.equal(memory.usedBytes, 1_000 * kib, 'small ones are free');
  memory.hold(one, 'ann', 10);
  t.equal(memory.usedBytes, 600 * kib, 'what was read is free again');
  for (const res of [one, two, three]) res.destroy();
  t.equal(memory.usedBytes, 0);
  memory.hold(one, 'ann', 5_000 * kib);
  t.equal(memory.usedBytes, 5_000 * kib, 'a large one has it all');
  t.throws(() => memory.hold(two, 'bob', 70 * kib), { code: 'body_memory_full' });
  t.end();
});

t.test('parts of one reply are held together, and what a connection held before is forgotten', (t) => {
  const memory = new ReplyMemory(1_000 * kib);
  const [part, other, next] = [response(), response(), response()];
  const whole = {};
  memory.hold(part, 'ann', 900 * kib, whole);
  memory.hold(other, 'ann', 900 * kib, whole);
  t.equal(memory.usedBytes, 1_800 * kib, 'a reply that is alone has it all');
  t.throws(() => memory.hold(next, 'bob', 100 * kib), { code: 'body_memory_full' });
  memory.hold(other, 'ann', 0, whole);
  t.throws(() => memory.hold(next, 'ann', 100 * kib), { code: 'body_memory_full' });
  memory.hold(part, 'ann', 100 * kib, whole);
  memory.hold(next, 'bob', 800 * kib);
  t.throws(() => memory.hold(other, 'ann', 200 * kib, whole), { code: 'body_memory_full' }, 'else all parts count');
  t.end();
});

t.test('what a client has taken does not count, and nothing is closed in vain', (t) => {
  const memory = new ReplyMemory(1_000 * kib, 0);
  const [read, fresh, next] = [response(), response(), response()];
  memory.hold(read, 'ann', 400 * kib);
  memory.recount(read, 0);
  memory.hold(read, 'ann', kib);
  t.equal(memory.usedBytes, 0);
  const large = response();
  memory.hold(large, 'ann', 3_000 * kib);
  t.notOk(read.destroyed, 'closing it would free nothing');
  const patient = new ReplyMemory(1_000 * kib, 1e9);
  patient.hold(fresh, 'bob', 450 * kib);
  t.throws(() => patient.hold(next, 'cat', 600 * kib), { code: 'body_memory_full' });
  const mixed = new ReplyMemory(1_000 * kib, 40);
  const old = response();
  mixed.hold(old, 'ann', 100 * kib);
  const now = performance.now.bind(performance);
  t.intercept(performance, 'now', { value: () => now() + 50 });
  const [one, other] = [response(), response()];
  mixed.hold(one, 'bob', 450 * kib);
  mixed.hold(other, 'cat', 440 * kib);
  t.throws(() => mixed.hold(next, 'dan', 200 * kib), { code: 'body_memory_full' });
  t.notOk(old.destroyed, 'it would not have been enough');
  t.end();
});

t.test('replies that have been held for long give way, the largest of the client first', (t) => {
  const memory = new ReplyMemory(1_000 * kib, 0);
  const [small, large, others, next] = [response(), response(), response(), response()];
  memory.hold(others, 'bob', 400 * kib);
  memory.hold(small, 'ann', 200 * kib);
  memory.hold(large, 'ann', 300 * kib);
  memory.hold(next, 'ann', 300 * kib);
  t.strictSame([others, small, large].map(({ destroyed }) => destroyed), [false, false, true]);
  t.equal(memory.usedBytes, 900 * kib);
  t.end();
});

t.test('a client that asks for large replies and reads none gets 503 in the end, until they are read', async (t) => {
  slowClock(t);
  const keepIn = ownFolder(t);
  const size = 8 * kib * kib;
  const { port, url } = await startApp(t, { bodyMemoryBytes: 5 * size }, new FakeEngine(), { keepIn });
  const reply = await post(`${url}/v1/responses`, { input: 'x'.repeat(size) });
  const { id } = await reply.json() as { id: string };
  const head = `GET /v1/responses/${id}/input_items HTTP/1.1\r\nHost: x\r\n\r\n`;
  const ask = (): Socket => {
    const socket = connect(port, '127.0.0.1').on('error', () => undefined);
    t.teardown(() => socket.destroy());
    socket.write(head);
    return socket;
  };
  const sockets = Array.from({ length: 5 }, ask);
  const heads = await Promise.all(sockets.map(async (socket) => {
    const [first] = await once(socket, 'data') as [Buffer];
    socket.pause();
    return first.toString('latin1', 0, 12);
  }));
  t.strictSame(heads.sort(), ['HTTP/1.1 200', 'HTTP/1.1 200', 'HTTP/1.1 503', 'HTTP/1.1 503', 'HTTP/1.1 503']);
  t.equal((await fetch(`${url}/v1/models`)).status, 200, 'small replies');
  for (const socket of sockets) socket.destroy();
  let status = 503;
  while (status === 503) {
    const next = await fetch(`${url}/v1/responses/${id}/input_items`);
    await next.arrayBuffer();
    ({ status } = next);
  }
  t.equal(status, 200);
});

t.test('log probabilities of which the client reads nothing count, whole', async (t) => {
  slowClock(t);
  const engine = new FakeEngine();
  const token = { id: 1, bytes: [0x78], value: -1, top: Array.from({ length: 100 }, (_, id) => ({ id, bytes: [0x78], value: -1 })) };
  const tokens = pack(Array.from({ length: 64 }, () => token));
  engine.script = async function* many() {
    for (let at = 0; at < 30; at++) {
      await new Promise(setImmediate);
      yield { content: 'x', tokens };
    }
  };
  const body = JSON.stringify({ prompt: 'x', n_probs: 100, n_predict: 900 });
  const { url: first } = await startApp(t, {}, engine);
  const { length: replyBytes } = await (await post(`${first}/completion`, body)).text();
  const { port, url } = await startApp(t, { bodyMemoryBytes: 5 * replyBytes }, engine);
  const ask = async (): Promise<string> => {
    const socket = connect(port, '127.0.0.1').on('error', () => undefined);
    t.teardown(() => socket.destroy());
    socket.write(`POST /completion HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
    const [first] = await once(socket, 'data') as [Buffer];
    socket.pause();
    return first.toString('latin1', 0, 12);
  };
  const heads: string[] = [];
  for (let at = 0; at < 4; at++) heads.push(await ask());
  t.strictSame(heads, ['HTTP/1.1 200', 'HTTP/1.1 200', 'HTTP/1.1 503', 'HTTP/1.1 503']);
  t.equal((await fetch(`${url}/v1/models`)).status, 200, 'small replies');
});

t.test('a body whose reply is read slowly keeps no other body out', async (t) => {
  const engine = new FakeEngine();
  engine.script = async function* many() {
    yield { content: 'x', tokens: pack(Array.from({ length: 64 * 100 }, () => ({ id: 1, bytes: [0x78], value: -1, top: [] }))) };
  };
  const size = 4 * kib * kib;
  const { port, url } = await startApp(t, { bodyMemoryBytes: 4.5 * size }, engine);
  const content = 'x'.repeat(size - 64);
  for (const [path, body] of [['/tokenize', { content }], ['/completion', { prompt: content, n_probs: 1 }]] as const) {
    const text = JSON.stringify(body);
    const socket = connect(port, '127.0.0.1').on('error', () => undefined);
    t.teardown(() => socket.destroy());
    socket.write(`POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`);
    const [first] = await once(socket, 'data') as [Buffer];
    socket.pause();
    t.equal(first.toString('latin1', 0, 12), 'HTTP/1.1 200', path);
    const next = await post(`${url}/tokenize`, JSON.stringify({ content: 'y' }) + ' '.repeat(size));
    t.strictSame([next.status, await next.text()], [200, '{"tokens":[1]}'], path);
    const closed = once(socket, 'close');
    socket.destroy();
    await closed;
  }
});

t.test('streams of log probabilities that nobody reads end for want of memory', async (t) => {
  slowClock(t);
  const engine = new FakeEngine();
  const token = { id: 1, bytes: [0x78], value: -1, top: Array.from({ length: 100 }, (_, id) => ({ id, bytes: [0x78], value: -1 })) };
  const tokens = pack(Array.from({ length: 64 }, () => token));
  const pieces = 150;
  engine.script = async function* many() {
    for (let at = 0; at < pieces; at++) {
      await new Promise(setImmediate);
      yield { content: 'x', tokens };
    }
  };
  const { port } = await startApp(t, { bodyMemoryBytes: 5 * pieces * tokens.bytes.length }, engine);
  const body = JSON.stringify({ prompt: 'x', n_probs: 100, n_predict: 900, stream: true });
  const sockets = Array.from({ length: 4 }, () => {
    const socket = connect(port, '127.0.0.1').on('error', () => undefined);
    t.teardown(() => socket.destroy());
    socket.pause().write(`POST /completion HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
    return socket;
  });
  while (engine.cancelled < 2) await new Promise((resolve) => setTimeout(resolve, 10));
  const ends = await Promise.all(sockets.map(async (socket) => {
    let last = '';
    for await (const chunk of socket as AsyncIterable<Buffer>) {
      last = (last + chunk.toString('latin1')).slice(-100);
      if (last.endsWith('0\r\n\r\n')) break;
    }
    return last.endsWith('0\r\n\r\n');
  }));
  // How much the system takes of each without a reader decides whether a third has to end.
  const whole = ends.filter(Boolean).length;
  t.ok(whole === 1 || whole === 2, `${whole} of 4 are whole`);
});
