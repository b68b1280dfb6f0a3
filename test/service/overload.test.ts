// Far more clients than a server can serve at once, some of which leave or hardly read; and
// requests with secrets while models are swapped and engines die. On real servers.
import t, { type Test } from 'tap';
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { builtinPath } from '#recua/models/store.js';
import { enginesOf, lookAt, metric, residentMib, socketsOf, unlessEnded } from './observing.js';
import { post, startService, type Reply } from './service.js';

const path = '/v1/chat/completions';
const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Sends on its own connection, and closes it. */
function postOnce(url: string, body: object, signal?: AbortSignal): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const sent = request(url + path, { method: 'POST', agent: false, headers: { 'content-type': 'application/json' }, ...(signal ? { signal } : {}) }, (response) => {
      const parts: string[] = [];
      response.setEncoding('utf8').on('data', (part: string) => parts.push(part)).on('end', () => resolve({ status: response.statusCode!, text: parts.join('') })).on('error', reject);
    });
    sent.on('error', reject).end(JSON.stringify(body));
  });
}

/** A stream that is read at a byte a second, like over a bad line. */
async function slowReader(url: string, body: string): Promise<Socket> {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port) });
  socket.on('error', () => {});
  socket.write(`POST ${path} HTTP/1.1\r\nhost: ${hostname}\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
  const timer = setInterval(() => socket.read(1), 1_000);
  socket.on('close', () => clearInterval(timer));
  return socket;
}

t.test('500 clients, of which 50 leave and 25 hardly read: the others get what they get alone', { skip: process.platform !== 'linux' && 'it looks into /proc' }, async (t) => {
  const service = await startService(t, ['--parallel', '16', '--queue-size', '600', '--context-size', '512']);
  const { url, child } = service;
  const body = (i: number, more: object = {}) => ({ messages: [{ role: 'user', content: `Repeat: number ${i % 40} and ${(i % 40) * 7919}` }], temperature: 0, max_tokens: 24, ...more });
  const ask = async (i: number, signal?: AbortSignal): Promise<string> => {
    const { status, text } = await postOnce(url, body(i), signal);
    if (status !== 200) throw new Error(`${status} ${text}`);
    return (JSON.parse(text) as Reply).choices[0]!.message.content!;
  };
  const solo: string[] = [];
  for (let i = 0; i < 40; i++) solo.push(await ask(i));
  t.ok(new Set(solo).size > 30, 'the answers differ');

  const over = lookAt(url);
  const round = async (): Promise<void> => {
    const slow = await Promise.all(
      Array.from({ length: 25 }, (_, i) => slowReader(url, JSON.stringify(body(i, { stream: true, max_tokens: 400, ignore_eos: true })))),
    );
    const leaving = Array.from({ length: 50 }, async (_, i) => {
      const controller = new AbortController();
      const request = ask(i, controller.signal).then(() => 'answered', () => 'gone');
      await wait((i * 37) % 1_500);
      controller.abort();
      return await request;
    });
    const staying = Array.from({ length: 425 }, (_, i) => ask(i));
    const answers = await Promise.all(staying);
    t.strictSame(answers.filter((answer, i) => answer !== solo[i % 40]), [], 'each is what it is alone');
    await Promise.all(leaving);
    for (const socket of slow) socket.destroy();
  };
  const idle = async (name: string): Promise<void> => {
    for (let tries = 0; await metric(url, name) > 0; tries++) {
      if (tries > 600) throw new Error(`${name} stays above 0`);
      await wait(50);
    }
  };
  const settled = async (): Promise<{ sockets: number; mib: number }> => {
    for (const name of ['recua_requests_running', 'recua_requests_waiting', 'recua_kv_used_tokens']) await idle(name);
    await wait(1_000);
    return { sockets: socketsOf(child.pid!), mib: residentMib(child.pid!) };
  };
  await round();
  const first = await settled();
  await round();
  const looked = await over();
  const last = await settled();
  t.ok(last.sockets <= first.sockets + 4, `sockets: ${first.sockets}, then ${last.sockets}`);
  t.ok(last.mib < first.mib * 1.25 + 16, `memory: ${first.mib.toFixed(0)} MiB, then ${last.mib.toFixed(0)}`);
  t.comment(`/health and /metrics, ${looked.length} times: median ${looked[looked.length >> 1]!.toFixed(0)} ms, 99 % within ${looked[Math.floor(looked.length * 0.99)]!.toFixed(0)}, longest ${looked.at(-1)!.toFixed(0)}`);
});

t.test('1,000 secrets, with cancels, shared beginnings, two models for one place, and engines that are killed', { skip: process.platform !== 'linux' && 'it looks into /proc' }, async (t: Test) => {
  const folder = mkdtempSync(join(tmpdir(), 'recua-overload-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const models = ['one.gguf', 'two.gguf'].map((name) => join(folder, name));
  for (const model of models) copyFileSync(builtinPath, model);
  const { url, child } = await startService(t, [models[1]!, '--max-models', '1', '--parallel', '8', '--queue-size', '2000', '--context-size', '512'], models[0]!);
  const secret = (i: number): string => String(1_000_003 + i * 7919);
  const all = Array.from({ length: 1_000 }, (_, i) => secret(i));
  const body = (i: number, more: object = {}) => ({ model: models[Math.floor(i / 50) % 2], messages: [{ role: 'user', content: `Repeat: ${secret(i)}` }], temperature: 0, max_tokens: 24, ...more });
  let over = false;
  let kills = 0;
  const killing = (async () => {
    // Seldom enough that no engine is held off for crashing too often.
    for (let i = 0; i < 4 && !over; i++) {
      await wait(1_500 + 400 * i);
      for (const pid of enginesOf(child.pid!).slice(0, 1)) {
        if (unlessEnded(() => process.kill(pid, 'SIGKILL'), false)) kills++;
      }
    }
  })();
  const answers = await Promise.all(all.map(async (_, i) => {
    if (i % 10 === 0) {
      const left = await post(url, path, body(i, { stream: true }));
      await left.body!.cancel();
      return undefined;
    }
    const response = await post(url, path, body(i, i % 3 === 0 ? { stream: true } : {}));
    return { status: response.status, text: await response.text() };
  }));
  over = true;
  await killing;
  t.ok(kills > 0, `${kills} engines were killed`);
  let own = 0;
  for (const [i, answer] of answers.entries()) {
    if (!answer) continue;
    if (answer.status !== 200) t.fail(`${i}: ${answer.status} ${answer.text}`);
    // The answers' texts alone, a stream's from its pieces: an id may hold any seven digits.
    const text = [...answer.text.matchAll(/"content":"([^"]*)"/g)].map(([, piece]) => piece).join('');
    if (text.includes(secret(i))) own++;
    const others = all.filter((one, j) => j !== i && text.includes(one));
    if (others.length > 0) t.fail(`answer ${i} holds the secrets ${others.join(', ')}: ${text}`);
  }
  t.ok(own > 800, `${own} of 900 hold their own`);
});
