import { connect, type Socket } from 'node:net';
import OpenAI from 'openai';
import t from 'tap';
import { RecuaError } from '#recua/errors.js';
import type { Delta } from '#recua/engine/protocol.js';
import { events, hello, post, startApp, until } from '../app-under-test.js';
import { description, echo, hang } from '../fake-engine.js';
import { deferred } from '../../deferred.js';

const path = '/v1/chat/completions';
const ask = { ...hello, stream: true };

async function stream(url: string, body: object = {}): Promise<{ chunks: any[]; last: string; headers: Headers }> {
  const res = await post(url + path, { ...ask, ...body });
  const all = events(await res.text());
  const last = String(all.at(-1));
  return { chunks: (last === '[DONE]' ? all.slice(0, -1) : all).map((data) => JSON.parse(data)), last, headers: res.headers };
}

async function* say(deltas: Delta[]): AsyncGenerator<Delta> {
  for (const delta of deltas) {
    await new Promise(setImmediate);
    yield delta;
  }
}

t.test('an answer is a chat.completion with every field of OpenAI', async (t) => {
  const { url } = await startApp(t);
  const res = await post(url + path, hello);
  t.equal(res.status, 200);
  t.equal(res.headers.get('content-type'), 'application/json; charset=utf-8');
  const body = await res.json();
  t.match(body.id, /^chatcmpl-[0-9a-f]{24}$/);
  t.ok(Math.abs(body.created - Date.now() / 1000) < 60);
  t.same({ ...body, id: '', created: 0 }, {
    id: '', object: 'chat.completion', created: 0, model: 'owner/model', system_fingerprint: 'llama.cpp-fake',
    choices: [{
      index: 0, message: { role: 'assistant', content: 'hello wide world', refusal: null, annotations: [] }, logprobs: null, finish_reason: 'stop',
    }],
    usage: { prompt_tokens: 1, completion_tokens: 3, total_tokens: 4, prompt_tokens_details: { cached_tokens: 0 } },
    timings: {
      cache_n: 0, prompt_n: 1, prompt_ms: 2, prompt_per_token_ms: 2, prompt_per_second: 500,
      predicted_n: 3, predicted_ms: 4, predicted_per_token_ms: 1.333, predicted_per_second: 750,
    },
  });
});

t.test('timings are finite numbers if nothing was done', async (t) => {
  const { url, engine } = await startApp(t);
  engine.finish = { usage: { promptTokens: 5, cachedTokens: 5, completionTokens: 0 }, timings: { queueMs: 0, promptMs: 0, generateMs: 0 } };
  const { timings, usage } = await (await post(url + path, hello)).json();
  t.ok(Object.values(timings).every(Number.isFinite));
  t.match(timings, { cache_n: 5, prompt_n: 0 });
  t.equal(usage.prompt_tokens_details.cached_tokens, 5);
});

t.test('a stream is role, deltas, finish, [DONE]', async (t) => {
  const { url } = await startApp(t);
  const { chunks, last, headers } = await stream(url);
  t.match(headers.get('content-type'), /^text\/event-stream/);
  t.equal(headers.get('cache-control'), 'no-cache, no-transform', 'compression would hold the pieces back');
  t.equal(headers.get('x-accel-buffering'), 'no');
  t.equal(last, '[DONE]');
  t.same(chunks[0].choices, [{ index: 0, delta: { role: 'assistant', content: '' }, logprobs: null, finish_reason: null }]);
  t.equal(chunks.map(({ choices }) => choices[0].delta.content ?? '').join(''), 'hello wide world');
  t.same(chunks.at(-1).choices, [{ index: 0, delta: {}, logprobs: null, finish_reason: 'stop' }]);
  t.equal(chunks.at(-1).timings.predicted_n, 3);
  for (const chunk of chunks) {
    t.match(chunk, { object: 'chat.completion.chunk', id: chunks[0].id, created: chunks[0].created, model: 'owner/model', system_fingerprint: 'llama.cpp-fake' });
    t.notOk('usage' in chunk, 'no usage unless asked');
  }
  t.ok(chunks.slice(0, -1).every(({ choices }) => choices[0].finish_reason === null));
});

t.test('include_usage adds one chunk without choices, and null on all others', async (t) => {
  const { url } = await startApp(t);
  const { chunks, last } = await stream(url, { stream_options: { include_usage: true } });
  t.equal(last, '[DONE]');
  const final = chunks.pop();
  t.same(final.choices, []);
  t.same(final.usage, { prompt_tokens: 1, completion_tokens: 3, total_tokens: 4, prompt_tokens_details: { cached_tokens: 0 } });
  t.ok(chunks.every(({ usage }) => usage === null));
});

t.test('interval_ms merges what comes too soon, and does not delay the end', async (t) => {
  const { url, engine } = await startApp(t);
  const words = Array.from({ length: 30 }, (_, i) => `${i} `);
  engine.script = () => say(words.map((content) => ({ content })));
  const texts = async (body: object): Promise<string[]> =>
    (await stream(url, body)).chunks.map(({ choices }) => choices[0].delta.content).filter(Boolean);
  t.strictSame(await texts({ stream_options: { interval_ms: 0 } }), words);
  const startMs = performance.now();
  const merged = await texts({ stream_options: { interval_ms: 1000 } });
  t.strictSame(merged, ['0 ', words.slice(1).join('')], `after ${Math.round(performance.now() - startMs)} ms`);
  t.equal((await texts({ n: 2, stream_options: { interval_ms: 1000 } })).join('').length, 2 * words.join('').length, 'two answers');
  for (const wrong of [-1, 1001, 0.5, '50']) {
    const res = await post(url + path, { ...ask, stream_options: { interval_ms: wrong } });
    t.equal(res.status, 400);
    t.match(await res.json(), { error: { param: 'stream_options.interval_ms', message: /0 to 1000|an integer/ } });
  }
});

t.test('tool calls: id and name once, arguments in pieces, null content in the whole answer', async (t) => {
  const { url, engine } = await startApp(t);
  engine.finish = { finishReason: 'tool_calls' };
  engine.script = () => say([
    { toolCalls: [{ index: 0, id: 'call_a', name: 'f' }] }, { toolCalls: [{ index: 0, arguments: '{"x"' }] }, { toolCalls: [{ index: 0, arguments: ':1}' }] },
    { toolCalls: [{ index: 1, name: 'g', arguments: '{}' }] },
  ]);
  const { chunks } = await stream(url);
  const calls = chunks.flatMap(({ choices }) => choices[0].delta.tool_calls ?? []);
  t.same(calls.slice(0, 3), [
    { index: 0, id: 'call_a', type: 'function', function: { name: 'f', arguments: '' } },
    { index: 0, function: { arguments: '{"x"' } }, { index: 0, function: { arguments: ':1}' } },
  ]);
  t.match(calls[3], { index: 1, id: /^call_/, type: 'function', function: { name: 'g', arguments: '{}' } });
  t.equal(chunks.at(-1).choices[0].finish_reason, 'tool_calls');
  const [choice] = (await (await post(url + path, hello)).json()).choices;
  t.match(choice, { finish_reason: 'tool_calls', message: { content: null, tool_calls: [
    { id: 'call_a', type: 'function', function: { name: 'f', arguments: '{"x":1}' } }, { id: /^call_/, type: 'function', function: { name: 'g', arguments: '{}' } },
  ] } });
});

t.test('reasoning has its own field, before the content', async (t) => {
  const { url, engine } = await startApp(t);
  engine.script = () => say([{ reasoning: 'let me ' }, { reasoning: 'see', content: 'yes' }]);
  const { message } = (await (await post(url + path, hello)).json()).choices[0];
  t.match(message, { reasoning_content: 'let me see', content: 'yes' });
  const deltas = (await stream(url)).chunks.map(({ choices }) => choices[0].delta).slice(1, -1);
  t.equal(deltas.map((delta) => delta.reasoning_content ?? '').join(''), 'let me see');
  t.same(deltas.at(-1), { content: 'yes' });
});

t.test('max_tokens ends an answer with length; warnings are reported', async (t) => {
  const { url, engine } = await startApp(t);
  engine.finish = { warnings: ['cache not shared'] };
  const body = await (await post(url + path, { ...hello, max_tokens: 2 })).json();
  t.equal(body.choices[0].finish_reason, 'length');
  t.equal(body.choices[0].message.content, 'hello wide');
  t.same(body.warnings, ['cache not shared']);
  t.same((await stream(url)).chunks.at(-1).warnings, ['cache not shared']);
});

t.test('an error before the first byte has its real status, stream or not', async (t) => {
  const { url, engine } = await startApp(t);
  engine.early = new RecuaError('context_length_exceeded', 'Expected at most 8 tokens, got 9.', { param: 'messages', details: { n_prompt_tokens: 9, n_ctx: 8 } });
  for (const body of [hello, ask]) {
    const res = await post(url + path, body);
    t.equal(res.status, 400);
    t.same(await res.json(), { error: {
      n_prompt_tokens: 9, n_ctx: 8, message: 'Expected at most 8 tokens, got 9.', type: 'invalid_request_error', param: 'messages', code: 'context_length_exceeded',
    } });
  }
  engine.early = new RecuaError('queue_full', 'Full.');
  const full = await post(url + path, ask);
  t.equal(full.status, 429);
  t.ok(Number(full.headers.get('retry-after')) > 0);
});

t.test('an error after the first byte is an event, without [DONE]', async (t) => {
  const { url, engine } = await startApp(t);
  engine.script = async function* () {
    yield { content: 'one' };
    throw new RecuaError('generation_failed', 'The step failed.');
  };
  const { chunks, last } = await stream(url);
  t.not(last, '[DONE]');
  t.same(chunks.pop(), { error: { message: 'The step failed.', type: 'server_error', param: null, code: 'generation_failed' } });
  t.equal(chunks.at(-1).choices[0].delta.content, 'one');
  const res = await post(url + path, hello);
  t.equal(res.status, 500);
});

t.test('a crash of the engine ends all answers with model_crashed', async (t) => {
  const { url, engine } = await startApp(t);
  engine.script = hang;
  const answers = [post(url + path, hello), post(url + path, ask), stream(url)] as const;
  await until(() => engine.running.size === 3);
  await new Promise((resolve) => setTimeout(resolve, 20));
  engine.crash();
  t.equal((await answers[0]).status, 500);
  t.match(JSON.parse(String(events(await (await answers[1]).text()).at(-1))), { error: { code: 'model_crashed' } });
  t.not((await answers[2]).last, '[DONE]');
  t.equal((await fetch(`${url}/health`)).status, 503, 'and the server is still there');
});

t.test('a silent stream carries empty deltas, so that idle timers stay quiet', async (t) => {
  const { url, engine } = await startApp(t, { pingIntervalMs: 10 });
  const { promise: mayAnswer, resolve: speak } = deferred();
  engine.script = async function* () {
    await mayAnswer;
    yield { content: 'at last' };
  };
  const res = await post(url + path, ask);
  const reader = res.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  while (events(text).length < 4) text += (await reader.read()).value;
  const pings = events(text).slice(1).map((data) => JSON.parse(data));
  t.ok(pings.every(({ choices, object }) => object === 'chat.completion.chunk' && Object.keys(choices[0].delta).length === 0 && choices[0].finish_reason === null));
  speak();
  for (let read = await reader.read(); !read.done; read = await reader.read()) text += read.value;
  t.equal(events(text).at(-1), '[DONE]');
});

t.test('a client that leaves stops its work: queued, in prefill, in decode, streaming or not', async (t) => {
  const { url, engine } = await startApp(t);
  const endless = async function* (): AsyncGenerator<Delta> {
    for (;;) {
      await new Promise((resolve) => setTimeout(resolve, 2));
      yield { content: 'x' };
    }
  };
  let expected = 0;
  for (const [name, set] of [
    ['queued', () => { engine.acceptAfter = new Promise(() => undefined); }],
    ['prefill', () => { engine.acceptAfter = Promise.resolve(); engine.script = hang; }],
    ['decode', () => { engine.script = endless; }],
  ] as const) {
    set();
    for (const body of [hello, ask]) {
      const leaving = new AbortController();
      const asked = post(url + path, body, {}, leaving.signal).then((res) => res.text());
      await until(() => engine.running.size === 1);
      await new Promise((resolve) => setTimeout(resolve, 20));
      leaving.abort();
      await t.rejects(asked);
      await until(() => engine.running.size === 0);
      t.equal(engine.cancelled, ++expected, `${name}, ${body === ask ? 'stream' : 'whole'}`);
    }
  }
});

t.test('an answer that was delivered is not cancelled afterwards', async (t) => {
  const { url, engine } = await startApp(t);
  await (await post(url + path, hello)).text();
  await stream(url);
  t.equal(engine.cancelled, 0);
});

t.test('a reader that pauses makes deltas merge, and gets all of them when it reads again', async (t) => {
  const { engine, port, server } = await startApp(t, { pingIntervalMs: 5 });
  const sockets: Socket[] = [];
  server.on('connection', (socket) => sockets.push(socket));
  const [count, piece] = [30_000, 'y'.repeat(1_000)];
  const { promise: made, resolve: all } = deferred();
  engine.script = async function* () {
    for (let at = 0; at < count; at++) {
      if (at % 100 === 0) await new Promise(setImmediate);
      yield { content: piece };
    }
    all();
  };
  const body = JSON.stringify({ ...ask, max_tokens: 1_000_000 });
  const client = connect(port, '127.0.0.1');
  t.teardown(() => client.destroy());
  client.pause();
  client.write(`POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  await made;
  await new Promise((resolve) => setTimeout(resolve, 50));
  t.equal(engine.produced, count, 'the engine was not held up');
  t.ok(engine.delivered < count / 2, `${engine.delivered} of ${count} deltas left the engine's answer`);
  t.ok(sockets[0].writableLength < 1_000_000, `${sockets[0].writableLength} bytes wait in the gateway`);
  // Others are served meanwhile.
  engine.script = echo;
  t.equal((await post(`http://127.0.0.1:${port}${path}`, hello)).status, 200);
  let letters = 0;
  let tail = '';
  client.on('data', (data) => {
    for (const byte of data) if (byte === 0x79) letters++;
    tail = (tail + data.toString('latin1')).slice(-100);
  });
  client.resume();
  await until(() => tail.includes('[DONE]'));
  t.ok(letters >= count * piece.length, 'nothing was lost');
});

t.test('a model that can only embed cannot chat', async (t) => {
  const { url, engine } = await startApp(t);
  engine.state = { state: 'ready', model: { ...description, canGenerate: false }, status: { running: 0, waiting: 0, tokens: 0 } };
  const res = await post(url + path, hello);
  t.equal(res.status, 400);
  t.match(await res.json(), { error: { code: 'chat_unsupported', param: 'model' } });
});

t.test('an error in the middle of a stream is thrown by the openai client', async (t) => {
  const { url, engine } = await startApp(t);
  engine.script = async function* () {
    yield { content: 'one' };
    engine.crash();
    await new Promise(() => undefined);
  };
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
  const stream = await client.chat.completions.create({ model: 'default', messages: [{ role: 'user', content: 'hi' }], stream: true });
  await t.rejects((async () => { for await (const _ of stream); })(), { code: 'model_crashed' });
});
