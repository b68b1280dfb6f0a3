// The engine process killed with a real signal: the gateway answers, and serves again.
import t from 'tap';
import { until } from '../cli/home.js';
import { ask, enginePid, post, startService } from './service.js';

/** Waits until the server reports these numbers of running and waiting requests. */
const counted = async (url: string, wanted: { running: number; waiting: number }): Promise<void> => await until(async () => {
  const { running, waiting } = (await (await fetch(`${url}/health`)).json()) as typeof wanted;
  return running === wanted.running && waiting === wanted.waiting;
});

t.test('kill -9 of the engine under load: every answer is complete, as if nothing had happened', async (t) => {
  const service = await startService(t, ['--parallel', '4', '--log-level', 'info']);
  const { url } = service;
  const before = await ask(url, 'What is the capital of France?');
  const engine = enginePid(service.child.pid!);
  const long = { messages: [{ role: 'user', content: 'Tell me a story' }], ignore_eos: true, max_tokens: 3000, temperature: 0 };
  const streams = await Promise.all(Array.from({ length: 2 }, () => post(url, '/v1/chat/completions', { ...long, stream: true, stream_options: { include_usage: true } })));
  const texts = streams.map((stream) => stream.text());
  const whole = Array.from({ length: 2 }, () => post(url, '/v1/chat/completions', long));
  await counted(url, { running: 4, waiting: 0 });
  const queued = Array.from({ length: 3 }, () => ask(url, 'What is the capital of France?'));
  await counted(url, { running: 4, waiting: 3 });
  process.kill(engine, 'SIGKILL');
  for (const text of await Promise.all(texts)) {
    t.notMatch(text, /"error"/);
    t.match(text, /"finish_reason":"length"[^]*"completion_tokens":3000[^]*\[DONE\]\n\n$/);
  }
  for (const response of await Promise.all(whole)) {
    t.equal(response.status, 200);
    t.match(await response.json(), { usage: { completion_tokens: 3000 }, choices: [{ finish_reason: 'length' }] });
  }
  t.same(await Promise.all(queued), [before, before, before]);
  t.match(await (await fetch(`${url}/health`)).json(), { status: 'ok', crashes: 1 });
  t.not(enginePid(service.child.pid!), engine);
  t.equal(await ask(url, 'What is the capital of France?'), before);
  t.match(service.stderr() + service.stdout(), /7 requests go on in the next engine process/);
});

for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
  t.test(`${signal} ends the engine: no request is refused until the next one runs`, async (t) => {
    const { url, child } = await startService(t, ['--parallel', '2']);
    const before = await ask(url, 'Who are you?');
    process.kill(enginePid(child.pid!), signal);
    const asked: Promise<string>[] = [];
    for (let health: unknown; ; health = await (await fetch(`${url}/health`)).json()) {
      asked.push(ask(url, 'Who are you?'));
      const { status, crashes } = (health ?? {}) as { status?: string; crashes?: number };
      if (status === 'ok' && crashes === 1) break;
      await new Promise((resolve) => setTimeout(resolve, 30));
    }
    t.ok(asked.length > 1);
    for (const answer of await Promise.all(asked)) t.equal(answer, before);
  });
}

t.test('after a crash, a stream goes on before requests that had only waited', async (t) => {
  const { url, child } = await startService(t, ['--parallel', '1']);
  const body = { messages: [{ role: 'user', content: 'Tell me a story' }], ignore_eos: true, temperature: 0 };
  const order: string[] = [];
  const running = await post(url, '/v1/chat/completions', { ...body, max_tokens: 3_500, stream: true });
  const waiting = Promise.all([1, 2].map(async () => {
    await (await post(url, '/v1/chat/completions', { ...body, max_tokens: 300 })).text();
    order.push('waited');
  }));
  await counted(url, { running: 1, waiting: 2 });
  process.kill(enginePid(child.pid!), 'SIGKILL');
  const told = await running.text();
  order.push('ran');
  await waiting;
  t.match(told, /"finish_reason":"length"/);
  t.strictSame(order, ['ran', 'waited', 'waited']);
});

t.test('the engine ends when the gateway is killed', async (t) => {
  const service = await startService(t, ['--parallel', '1']);
  const engine = enginePid(service.child.pid!);
  await post(service.url, '/v1/chat/completions', { messages: [{ role: 'user', content: 'Tell me a story' }], ignore_eos: true, stream: true });
  service.child.kill('SIGKILL');
  await service.ended;
  let alive = true;
  for (let i = 0; i < 400 && alive; i++) {
    await new Promise((resolve) => setTimeout(resolve, 25));
    try { process.kill(engine, 0); } catch { alive = false; }
  }
  t.notOk(alive);
});
