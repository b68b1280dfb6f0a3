import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { spawnSync } from 'node:child_process';
import type { Request, Response } from 'express';
import { RecuaError } from '#recua/errors.js';
import { Traffic } from '#recua/server/http/traffic.js';
import { listen } from '#recua/server/listen.js';
import { Metrics } from '#recua/server/metrics/metrics.js';
import { makeConfig } from '#recua/settings/config.js';
import { hello, ownFolder, post, startApp, until } from '../app-under-test.js';
import { FakeEngine, hang } from '../fake-engine.js';
import { FakePool } from '../fake-pool.js';
import { chatPath, startReal, user } from '../real-app.js';
import { parse, scrape, type Scrape } from './scrape.js';

/**
 * A request is counted when its connection has taken the last byte, which the client may receive
 * earlier.
 */
async function scrapeOnce(url: string, holds: (now: Scrape) => boolean, headers: Record<string, string> = {}): Promise<Scrape> {
  for (let tries = 0; ; tries++) {
    const now = await scrape(url, headers);
    if (holds(now) || tries > 400) return now;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

t.test('real requests are counted: whole, streamed, embedded, refused and abandoned', async (t) => {
  const { url, ask, stream, refused } = await startReal(t);
  const model = 'owner/model';
  const whole = await ask(chatPath, { messages: user('Tell me of llamas in the mountains, please.'), max_tokens: 12, ignore_eos: true });
  t.equal(whole.usage.completion_tokens, 12);
  const again = await ask(chatPath, { messages: user('Tell me of llamas in the mountains, please.'), max_tokens: 12, ignore_eos: true });
  const streamed = await stream(chatPath, { messages: user('And of the sea?'), max_tokens: 30, ignore_eos: true, stream_options: { include_usage: true } });
  const { usage } = streamed.at(-1);
  const embedded = await ask('/v1/embeddings', { input: 'a text' });
  t.equal((await refused(chatPath, { messages: 7 })).status, 400);
  t.equal((await refused(chatPath, { messages: user('word '.repeat(3_000)) })).error.code, 'context_length_exceeded');
  const leaving = new AbortController();
  const long = await post(url + chatPath, { messages: user('Count.'), max_tokens: 2_000, ignore_eos: true, stream: true }, {}, leaving.signal);
  const reader = long.body!.getReader();
  while (!/"content":"[^"]/.test(new TextDecoder().decode((await reader.read()).value))) { /* The answer has begun. */ }
  leaving.abort();

  const now = await scrapeOnce(url, ({ sum }) => sum('recua_cancellations_total') === 1 && sum('recua_requests_running') === 0 && sum('recua_requests_total', { route: chatPath }) === 6);
  const { sum } = now;
  const chat = { model, route: chatPath };
  t.equal(sum('recua_requests_total', { ...chat, status: '200' }), 3);
  t.equal(sum('recua_requests_total', { ...chat, status: '400' }), 2, 'a model was asked for these, too');
  t.equal(sum('recua_requests_total', { ...chat, status: '499' }), 1);
  t.equal(sum('recua_requests_total', { model, route: '/v1/embeddings', status: '200' }), 1);
  t.equal(sum('recua_errors_total', { route: chatPath, code: 'invalid_type' }), 1);
  t.equal(sum('recua_errors_total', { route: chatPath, code: 'context_length_exceeded' }), 1);
  t.equal(sum('recua_rejections_total'), 0);
  t.equal(sum('recua_cancellations_total', { ...chat, phase: 'answering' }), 1);
  t.equal(sum('recua_answers_total', { ...chat, finish_reason: 'length' }), 3);
  t.equal(sum('recua_answers_total', { ...chat, finish_reason: 'cancelled' }), 1);
  t.equal(sum('recua_answers_total', { ...chat, finish_reason: 'error' }), 1);

  const prompts = whole.usage.prompt_tokens + again.usage.prompt_tokens + usage.prompt_tokens;
  const cached = [whole.usage, again.usage, usage].reduce((all, { prompt_tokens_details: details }) => all + details.cached_tokens, 0);
  t.ok(cached > 0, 'the second prompt was there');
  t.equal(sum('recua_prompt_tokens_total', chat), prompts);
  t.equal(sum('recua_prompt_tokens_total', { route: '/v1/embeddings' }), embedded.usage.prompt_tokens);
  t.equal(sum('recua_cached_prompt_tokens_total', chat), cached);
  t.equal(sum('recua_generated_tokens_total', chat), 12 + 12 + 30);
  for (const [name, count] of [['queue', 3], ['prompt', 3], ['generation', 3], ['time_to_first_token', 4]] as const) {
    t.equal(sum(`recua_${name}_seconds_count`, chat), count, name);
  }
  t.equal(sum('recua_request_duration_seconds_count', chat), 6);
  t.ok(sum('recua_time_to_first_token_seconds_sum') > 0);
  t.ok(sum('recua_inter_token_seconds_count', chat) > 0);

  t.equal(sum('recua_requests_waiting', { model }), 0);
  t.equal(sum('recua_kv_used_tokens', { model }), 0, 'nothing runs');
  t.ok(sum('recua_kv_kept_tokens', { model }) > 12);
  t.equal(sum('recua_kv_size_tokens', { model }), 2 * 2_048);
  t.ok(sum('recua_model_memory_bytes', { model }) > 1e6);
  t.equal(sum('recua_model_loads_total', { model }), 1);
  t.equal(sum('recua_models', { state: 'loaded' }), 1);

  // Metrics that boards and routers of other servers query.
  t.equal(sum('llamacpp:prompt_tokens_total') + sum('llamacpp:prompt_tokens_cached_total'), prompts + embedded.usage.prompt_tokens);
  t.equal(sum('llamacpp:tokens_predicted_total'), 54);
  t.equal(sum('vllm:generation_tokens_total', { model_name: model, engine: '0' }), 54);
  t.equal(sum('vllm:prefix_cache_queries_total', { model_name: model }), prompts);
  t.equal(sum('vllm:prefix_cache_hits_total', { model_name: model }), cached);
  t.equal(sum('vllm:time_to_first_token_seconds_bucket', { model_name: model, le: '+Inf' }), 4);
  t.equal(sum('vllm:request_success_total', { finished_reason: 'abort' }), 1);
  for (const name of ['vllm:num_requests_running', 'vllm:num_requests_waiting', 'vllm:kv_cache_usage_perc']) t.equal(now.samples.filter((one) => one.name === name).length, 1, name);
  for (const name of ['llamacpp:requests_processing', 'llamacpp:requests_deferred', 'llamacpp:kv_cache_usage_ratio']) t.equal(now.samples.filter((one) => one.name === name).length, 1, name);
});

t.test('running and waiting requests are counted while they last', async (t) => {
  const { url, engine } = await startReal(t, '', { parallel: 1 });
  const leaving = new AbortController();
  const ask = (): Promise<unknown> => post(url + chatPath, { messages: user('Go on.'), max_tokens: 2_000, ignore_eos: true, stream: true }, {}, leaving.signal).then((res) => res.text()).catch(() => undefined);
  const both = [ask(), ask()];
  const { sum } = await scrapeOnce(url, ({ sum }) => sum('recua_requests_running') === 1 && sum('recua_requests_waiting') === 1 && sum('recua_kv_used_tokens') > 0);
  t.equal(sum('vllm:num_requests_running'), 1);
  t.equal(sum('vllm:num_requests_waiting'), 1);
  t.equal(sum('llamacpp:requests_deferred'), 1);
  t.equal(sum('recua_requests_open'), 2);
  t.ok(sum('vllm:kv_cache_usage_perc') > 0 && sum('vllm:kv_cache_usage_perc') <= 1);
  leaving.abort();
  await Promise.all(both);
  process.kill(engine.pid!, 'SIGKILL');
  const after = await scrapeOnce(url, ({ sum }) => sum('recua_model_loads_total') === 2);
  t.equal(after.sum('recua_engine_crashes_total'), 1);
  t.equal(after.sum('recua_model_reloads_total'), 1);
});

t.test('no name and no path from a client makes a series', async (t) => {
  const { url } = await startApp(t);
  await (await post(url + chatPath, hello)).text();
  await (await post(url + chatPath, { ...hello, model: 'nobody' })).text();
  await fetch(`${url}/nowhere`);
  await fetch(`${url}/v1/models/nobody`);
  const requests = ({ sum }: Scrape, count: number): boolean => sum('recua_requests_total', { status: '404' }) === count;
  const before = await scrapeOnce(url, (now) => requests(now, 3));
  const strange = ['x"} 1\nevil 2', 'a\\', '__proto__', 'constructor', '\u2028', 'x'.repeat(3_000)];
  for (let i = 0; i < 100; i++) {
    const name = `${strange[i % strange.length]}${i}`;
    await (await post(url + chatPath, { ...hello, model: name })).text();
    await fetch(`${url}/${encodeURIComponent(name)}`);
    await fetch(`${url}/v1/models/${encodeURIComponent(name)}`);
  }
  const after = await scrapeOnce(url, (now) => requests(now, 303));
  t.ok(requests(after, 303), 'all were counted');
  // The scrapes themselves add one series.
  const known = ({ samples }: Scrape): string[] => samples.filter(({ labels }) => labels['route'] !== '/metrics').map(({ name, labels }) => JSON.stringify([name, labels])).sort();
  t.strictSame(known(after), known(before));
  t.notMatch(await (await fetch(`${url}/metrics`)).text(), /evil|nobody|xxx/);
});

t.test('promtool accepts the text', async (t) => {
  const { url } = await startApp(t);
  await (await post(url + chatPath, { ...hello, stream: true })).text();
  const res = await fetch(`${url}/metrics`);
  t.equal(res.headers.get('content-type'), 'text/plain; version=0.0.4; charset=utf-8');
  const text = await res.text();
  t.ok(parse(text).samples.length > 100);
  const found = spawnSync('promtool', ['check', 'metrics'], { input: text, encoding: 'utf8' });
  if (found.error) return void t.comment('promtool is not installed');
  t.not(found.status, 1, `it parses: ${found.stderr}`);
  // Compatible names have a colon, which Prometheus reserves for rules; promtool objects to it.
  t.strictSame(found.stderr.split('\n').filter((line) => line !== '' && !/^(llamacpp|vllm):/.test(line)), []);
});

t.test('a key is needed, and counted by its name', async (t) => {
  const { url } = await startApp(t, { apiKey: '', apiKeyFile: JSON.stringify([{ name: 'ann', key: 'secret-of-ann' }, { name: 'prometheus', key: 'secret-of-prometheus' }]) });
  const bearer = (key: string): Record<string, string> => ({ authorization: `Bearer ${key}` });
  t.equal((await fetch(`${url}/metrics`)).status, 401);
  await (await post(url + chatPath, hello, bearer('secret-of-ann'))).text();
  await (await post(url + chatPath, hello, bearer('guess'))).text();
  const { sum, samples } = await scrapeOnce(url, ({ sum }) => sum('recua_requests_total', { route: chatPath }) === 2, bearer('secret-of-prometheus'));
  t.equal(sum('recua_requests_total', { key: 'ann', status: '200' }), 1);
  t.equal(sum('recua_generated_tokens_total', { key: 'ann' }), 3);
  t.equal(sum('recua_rejections_total', { route: chatPath, code: 'invalid_api_key' }), 1);
  t.notOk(samples.some(({ labels }) => Object.values(labels).some((value) => value.includes('secret'))));
});

t.test('an answer that fails in its stream, a full queue and a client that leaves early are counted', async (t) => {
  const { url, engine } = await startApp(t);
  engine.early = new RecuaError('queue_full', 'Too many wait.');
  t.equal((await post(url + chatPath, { ...hello, stream: true })).status, 429);
  engine.early = undefined;
  engine.script = async function* () {
    yield { content: 'x' };
    throw new RecuaError('model_crashed', 'It died.');
  };
  t.match(await (await post(url + chatPath, { ...hello, stream: true })).text(), /model_crashed/);
  engine.script = hang;
  const leaving = new AbortController();
  const gone = post(url + chatPath, hello, {}, leaving.signal).catch(() => undefined);
  await until(() => engine.running.size === 1);
  leaving.abort();
  await gone;
  const { sum } = await scrapeOnce(url, ({ sum }) => sum('recua_cancellations_total') === 1);
  t.equal(sum('recua_cancellations_total', { phase: 'waiting' }), 1);
  t.equal(sum('recua_rejections_total', { code: 'queue_full' }), 1);
  t.equal(sum('recua_errors_total', { code: 'queue_full' }), 1);
  t.equal(sum('recua_errors_total', { code: 'model_crashed' }), 1);
  t.equal(sum('recua_requests_total', { route: chatPath, status: '200' }), 1, 'an error in a stream that began');
  t.equal(sum('recua_answers_total', { finish_reason: 'error' }), 2);
});

t.test('two servers of one process count separately', async (t) => {
  const [one, other] = [await startApp(t), await startApp(t)];
  await (await post(one.url + chatPath, hello)).text();
  t.equal((await scrapeOnce(one.url, ({ sum }) => sum('recua_answers_total') === 1)).sum('recua_answers_total'), 1);
  t.equal((await scrape(other.url)).sum('recua_answers_total'), 0);
});

t.test('of several models, those that were used are reported', async (t) => {
  const pool = new FakePool('owner/a', 'owner/b');
  const { url, close } = await listen({ pool, config: makeConfig({ port: 0 }) });
  t.teardown(() => close(0));
  await (await post(url + chatPath, { ...hello, model: 'owner/b-alias' })).text();
  const { sum, samples } = await scrapeOnce(url, ({ sum }) => sum('recua_answers_total') === 1);
  t.equal(sum('recua_answers_total', { model: 'owner/b' }), 1);
  t.strictSame(samples.filter(({ name }) => name === 'vllm:num_requests_running').map(({ labels }) => labels['model_name']), ['owner/b']);
  t.equal(sum('recua_models', { state: 'unloaded' }), 1);
});

t.test('others get a turn after each metric, since thousands of keys make it long', async (t) => {
  const metrics = new Metrics({ pool: new FakePool('owner/a'), traffic: new Traffic(), bodyBytes: () => 0, askedBy: () => undefined });
  let turns = 0;
  let isSent = false;
  const turn = (): void => {
    turns++;
    if (!isSent) setImmediate(turn);
  };
  setImmediate(turn);
  const text = await new Promise<string>((resolve) => {
    const res = {
      set: () => res,
      send(body: string) {
        isSent = true;
        resolve(body);
      },
    };
    void metrics.route({} as Request, res as unknown as Response, () => undefined);
  });
  const { types } = parse(text);
  t.ok(turns >= types.size - 1, `${turns} turns for ${types.size} metrics`);
});

t.test('the series of an API key go with it; sums over all keys stay', async (t) => {
  const file = join(ownFolder(t), 'keys.json');
  const put = (...names: string[]): string => {
    const text = JSON.stringify(names.map((name) => ({ name, key: name })));
    writeFileSync(`${file}.new`, text);
    renameSync(`${file}.new`, file);
    return text;
  };
  const apiKeyFile = put('ann', 'bob');
  const { url, logged } = await startApp(t, { apiKeyFile }, new FakeEngine(), { keyFile: file });
  const bob = { 'x-api-key': 'bob' };
  for (const name of ['ann', 'ann', 'bob']) await (await post(url + chatPath, hello, { 'x-api-key': name })).text();
  const sums = ['llamacpp:tokens_predicted_total', 'vllm:generation_tokens_total', 'vllm:request_success_total'];
  const before = await scrapeOnce(url, ({ sum }) => sum('recua_answers_total') === 3, bob);
  t.equal(before.sum('recua_answers_total', { key: 'ann' }), 2);
  put('bob', 'eve');
  await until(() => logged.some((line) => line.includes('were read again')));
  const now = await scrape(url, bob);
  t.strictSame([...new Set(now.samples.map(({ labels: { key } }) => key))].filter((key) => key !== undefined && key !== ''), ['bob']);
  t.equal(now.sum('recua_answers_total'), 1);
  for (const name of sums) t.equal(now.sum(name), before.sum(name), name);
});
