// Responses that outlive their request: on the disk, in the background, and streamed again. Over
// the fake engine.
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import OpenAI from 'openai';
import t, { type Test } from 'tap';
import type { Gateway } from '#recua/server/http/gateway.js';
import { KeptFolder } from '#recua/server/kept/kept-folder.js';
import { BackgroundRun, BackgroundRuns } from '#recua/server/responses/background.js';
import { ResponseStore, type WireResponse } from '#recua/server/responses/store.js';
import type { Config } from '#recua/settings/config.js';
import { ownFolder, post, startApp, until, type AppUnderTest } from '../app-under-test.js';
import { pack } from '#recua/engine/packed-tokens.js';
import { echo, FakeEngine, hang, messagesOf } from '../fake-engine.js';
import { deferred } from '../../deferred.js';

type Stored = OpenAI.Responses.Response;

async function start(
  t: Test,
  keepIn = ownFolder(t),
  config: Partial<Config> = {},
): Promise<{ client: OpenAI; app: AppUnderTest; folder: string }> {
  const app = await startApp(t, config, new FakeEngine(), { keepIn });
  const kept = process.getuid ? `kept-${process.getuid()}` : 'kept';
  return { app, client: new OpenAI({ baseURL: `${app.url}/v1`, apiKey: 'none', maxRetries: 0 }), folder: join(keepIn, kept, 'responses') };
}

const ask = { model: 'default', input: 'one two three' };

async function ended(client: OpenAI, id: string): Promise<Stored> {
  for (;;) {
    const response = await client.responses.retrieve(id);
    if (response.status !== 'queued' && response.status !== 'in_progress') return response;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

t.test('a response survives a restart, and the conversation continues', async (t) => {
  const keepIn = ownFolder(t);
  const before = await start(t, keepIn);
  const first = await before.client.responses.create(ask);
  await before.app.close(0);
  const { client, app } = await start(t, keepIn);
  t.strictSame(await client.responses.retrieve(first.id), { ...first });
  await client.responses.create({ model: 'default', input: 'four', previous_response_id: first.id });
  t.strictSame(messagesOf(app.engine.requests[0]!).map(({ role, content }) => [role, content]), [['user', 'one two three'], ['assistant', 'one two three'], ['user', 'four']]);
  await client.responses.delete(first.id);
  await t.rejects(client.responses.retrieve(first.id), { status: 404, code: 'response_not_found' });
});

t.test('stored responses are private to the user', { skip: process.platform === 'win32' }, async (t) => {
  const { client, folder } = await start(t);
  const { id } = await client.responses.create(ask);
  t.equal(statSync(join(folder, '..')).mode & 0o777, 0o700);
  t.equal(statSync(join(folder, `${id}.json`)).mode & 0o777, 0o600);
});

t.test('a server that is told to store nothing stores nothing, and says so', async (t) => {
  const keepIn = ownFolder(t);
  const earlier = await (await start(t, keepIn)).client.responses.create(ask);
  const { client, folder } = await start(t, keepIn, { responseDays: 0 });
  const files = readdirSync(folder);
  const quiet = await client.responses.create(ask);
  t.match(quiet, { store: false, status: 'completed' });
  t.notMatch(quiet, { warnings: [] });
  t.match(await client.responses.create({ ...ask, store: true }), { store: false, warnings: [/--response-days 0/] });
  t.strictSame(readdirSync(folder), files);
  for (const id of [quiet.id, earlier.id]) await t.rejects(client.responses.retrieve(id), { status: 404, code: 'response_not_found' });
  await t.rejects(client.responses.create({ ...ask, background: true }), { status: 400, code: 'invalid_value', param: 'background' });
});

t.test('ids cannot lead elsewhere', async (t) => {
  const { app, folder } = await start(t);
  await post(`${app.url}/v1/responses`, ask);
  const secret = join(folder, '..', '..', 'secret.json');
  writeFileSync(secret, '{"response":{"status":"completed"},"input":[]}');
  const linked = `resp_${'a'.repeat(48)}`;
  if (process.platform !== 'win32') symlinkSync(secret, join(folder, `${linked}.json`));
  for (const id of ['..%2f..%2fsecret', '%2e%2e%2fsecret', 'resp_..', `resp_${'b'.repeat(48)}`, `${'x'.repeat(5_000)}`, 'a%00b']) {
    for (const [method, rest] of [['GET', ''], ['DELETE', ''], ['GET', '/input_items'], ['POST', '/cancel']]) {
      t.equal((await fetch(`${app.url}/v1/responses/${id}${rest}`, { method: method! })).status, 404, `${method} ${id.slice(0, 40)}${rest}`);
    }
    t.equal((await post(`${app.url}/v1/responses`, { input: 'x', previous_response_id: decodeURIComponent(id) })).status, 404);
  }
  if (process.platform !== 'win32') t.not((await fetch(`${app.url}/v1/responses/${linked}`)).status, 200, 'a link is not followed');
  t.ok(readFileSync(secret));
});

t.test('a damaged file is not a response', async (t) => {
  const { client, folder } = await start(t);
  const { id } = await client.responses.create(ask);
  const path = join(folder, `${id}.json`);
  writeFileSync(path, '{"response":');
  await t.rejects(client.responses.retrieve(id), { status: 404, code: 'response_not_found' });
  rmSync(path);
  mkdirSync(path);
  await t.rejects(client.responses.retrieve(id), { status: 404, code: 'response_not_found' }, 'nor is a folder');
});

t.test('an answer that cannot be stored is returned, and says so', async (t) => {
  const keepIn = ownFolder(t);
  // A file is in the way.
  const kept = join(keepIn, process.getuid ? `kept-${process.getuid()}` : 'kept');
  writeFileSync(kept, '');
  const { client } = await start(t, keepIn);
  t.match(await client.responses.create(ask), { status: 'completed', store: false, output_text: 'one two three', warnings: [/is not stored/] });
  await t.rejects(client.responses.create({ ...ask, background: true }), { code: 'store_unwritable' }, 'which the background cannot do without');
});

t.test('input items come in pages', async (t) => {
  const { client } = await start(t);
  const input = Array.from({ length: 45 }, (_, index) => ({ role: 'user' as const, content: `item ${index}` }));
  const { id } = await client.responses.create({ model: 'default', input });
  const texts: unknown[] = [];
  for await (const item of client.responses.inputItems.list(id, { order: 'asc', limit: 10 })) texts.push((item as { content: { text: string }[] }).content[0]!.text);
  t.strictSame(texts, input.map(({ content }) => content));
  const newest = await client.responses.inputItems.list(id);
  t.equal(newest.data.length, 20);
  t.match(newest.data[0], { type: 'message', content: [{ type: 'input_text', text: 'item 44' }] });
  t.equal(newest.has_more, true);
  const untyped = await client.responses.create({ model: 'default', input: [{ type: null, role: 'user', content: 'x' } as object as OpenAI.Responses.ResponseInputItem] });
  t.match((await client.responses.inputItems.list(untyped.id)).data, [{ type: 'message', content: [{ type: 'input_text', text: 'x' }] }]);
  await t.rejects(client.responses.inputItems.list(id, { limit: 1_000 }), { status: 400, code: 'invalid_value', param: 'limit' });
  await t.rejects(client.responses.inputItems.list(id, { after: 'nothing' }), { status: 400, code: 'invalid_value', param: 'after' });
});

t.test('items may be given by their ids alone', async (t) => {
  const { client, app } = await start(t);
  const first = await client.responses.create(ask);
  await client.responses.create({ model: 'default', input: [{ role: 'user', content: 'x' }, { type: 'item_reference', id: first.output[0]!.id! }, { role: 'user', content: 'y' }] });
  t.strictSame(messagesOf(app.engine.requests.at(-1)!).map(({ role, content }) => [role, content]), [['user', 'x'], ['assistant', 'one two three'], ['user', 'y']]);
  await client.responses.create({ model: 'default', input: [{ type: null, role: null, id: first.output[0]!.id! } as object as OpenAI.Responses.ResponseInputItem] });
  t.strictSame(messagesOf(app.engine.requests.at(-1)!).map(({ content }) => content), ['one two three'], 'null counts as absent');
  await t.rejects(client.responses.create({ model: 'default', input: [{ type: 'item_reference', id: 'msg_1' }] }), { status: 404, code: 'response_not_found', param: 'input[0].id' });
});

t.test('sealed thoughts come back as thoughts', async (t) => {
  const { client, app } = await start(t);
  app.engine.script = async function* () {
    yield { reasoning: 'Höm.' };
    yield { content: 'Yes.' };
  };
  const first = await client.responses.create({ ...ask, store: false, include: ['reasoning.encrypted_content'] });
  const [thought] = first.output;
  t.match(thought, { type: 'reasoning', encrypted_content: /^recua:/ });
  const sealed = { type: 'reasoning' as const, id: 'rs_1', summary: [], encrypted_content: (thought as { encrypted_content: string }).encrypted_content };
  await client.responses.create({ model: 'default', store: false, input: [{ role: 'user', content: 'x' }, sealed, { ...sealed, encrypted_content: 'gAAAA' }, { role: 'user', content: 'y' }] });
  t.match(messagesOf(app.engine.requests.at(-1)!), [{ role: 'user' }, { role: 'assistant', reasoning_content: 'Höm.' }, { role: 'user' }]);
});

t.test('a background response is queued, made and can be retrieved', async (t) => {
  const { client, app } = await start(t);
  const { promise: accepted, resolve: accept } = deferred();
  app.engine.acceptAfter = accepted;
  const queued = await client.responses.create({ ...ask, background: true });
  t.match(queued, { status: 'queued', background: true, output: [] });
  await t.rejects(client.responses.create({ ...ask, previous_response_id: queued.id }), { status: 400, code: 'invalid_value', param: 'previous_response_id' });
  t.equal((await client.responses.retrieve(queued.id)).status, 'queued');
  accept();
  t.match(await ended(client, queued.id), { status: 'completed', background: true, output_text: 'one two three' });
  t.match(await client.responses.create({ model: 'default', input: 'and', previous_response_id: queued.id }), { status: 'completed' });
  t.match((await client.responses.inputItems.list(queued.id)).data, [{ content: [{ text: ask.input }] }]);
});

t.test('a background response that fails says why', async (t) => {
  const { client, app } = await start(t);
  await t.rejects(client.responses.create({ ...ask, input: [], background: true }), { status: 400, code: 'invalid_value', param: 'input' });
  await t.rejects(client.responses.create({ ...ask, model: 'gpt-x', background: true }), { status: 404, code: 'model_not_found' });
  app.engine.script = async function* () {
    yield { content: 'begun' };
    throw new Error('broken');
  };
  const { id } = await client.responses.create({ ...ask, background: true });
  t.match(await ended(client, id), { status: 'failed', error: { code: 'internal_error' }, output: [{ content: [{ text: 'begun' }] }] });
});

t.test('a cancelled response ends once in its stream, wherever it was', async (t) => {
  const { client, app } = await start(t);
  app.engine.script = hang;
  for (let round = 0; round < 8; round++) {
    const { id } = await client.responses.create({ ...ask, background: true });
    if (round % 2 === 0) await until(() => app.engine.running.size > 0);
    await client.responses.cancel(id);
    await until(() => app.engine.running.size === 0);
    const told: { type: string; sequence_number: number }[] = [];
    for await (const event of await client.responses.retrieve(id, { stream: true })) told.push(event);
    t.strictSame(told.map(({ sequence_number }) => sequence_number), told.map((_, index) => index));
    t.equal(told.filter(({ type }) => /incomplete|completed|failed/.test(type)).length, 1);
    t.equal(told.at(-1)!.type, 'response.incomplete');
  }
});

t.test('a background response can be cancelled, waiting or running', async (t) => {
  const { client, app, folder } = await start(t);
  app.engine.script = hang;
  const running = await client.responses.create({ ...ask, background: true });
  await until(() => app.engine.running.size === 1);
  t.match(await client.responses.cancel(running.id), { status: 'cancelled', error: null });
  await until(() => app.engine.running.size === 0);
  app.engine.acceptAfter = new Promise(() => undefined);
  const waiting = await client.responses.create({ ...ask, background: true });
  t.match(await client.responses.cancel(waiting.id), { status: 'cancelled' });
  t.match(await client.responses.cancel(waiting.id), { status: 'cancelled' }, 'again');
  t.equal(headIn(join(folder, `${running.id}.json`)).response.status, 'cancelled');
  app.engine.acceptAfter = Promise.resolve();
  app.engine.script = echo;
  const { id } = await client.responses.create(ask);
  await t.rejects(client.responses.cancel(id), { status: 400, code: 'invalid_value', message: /is not a background response/ });
});

t.test('a cancelled response keeps its text and counts until then', async (t) => {
  const { client, app, folder } = await start(t);
  const usage = { promptTokens: 7, cachedTokens: 2, completionTokens: 3 };
  app.engine.script = async function* (request, signal) {
    yield { content: 'one two', soFar: { usage, timings: { queueMs: 0, promptMs: 0, generateMs: 0 } } };
    yield* hang(request, signal);
  };
  const { id } = await client.responses.create({ ...ask, background: true });
  while ((await client.responses.retrieve(id)).output.length === 0);
  const cancelled = {
    status: 'cancelled', error: null, output: [{ type: 'message', status: 'incomplete', content: [{ text: 'one two' }] }],
    usage: { input_tokens: 7, input_tokens_details: { cached_tokens: 2 }, output_tokens: 3, total_tokens: 10 },
  };
  t.match(await client.responses.cancel(id), cancelled);
  t.match(await client.responses.retrieve(id), cancelled);
  t.match(headIn(join(folder, `${id}.json`)), { response: cancelled });
  const types: string[] = [];
  for await (const { type } of await client.responses.retrieve(id, { stream: true })) types.push(type);
  t.strictSame(types.slice(-2), ['response.output_item.done', 'response.incomplete']);
  t.equal(app.engine.requests[0]!.tells?.timings, true, 'the engine is asked to count on the way');
});

t.test('the number and size of waiting background responses are limited', async (t) => {
  const gateway = { inner: { ask: () => new Promise(() => undefined) } } as unknown as Gateway;
  const runs = new BackgroundRuns(gateway, new ResponseStore(new KeptFolder(ownFolder(t))));
  const begin = async (digit: string, inputBytes: number, itemBytes: number): Promise<unknown> => (
    await runs.start({ response: { id: `resp_${digit.repeat(48)}`, status: 'queued' } as WireResponse, input: [] }, { input: 'x'.repeat(inputBytes) }, 'someone', itemBytes)
  );
  t.ok(await begin('a', 2 ** 20, 0));
  await t.rejects(begin('b', 2 ** 26, 0), { code: 'queue_full' }, 'by size');
  await t.rejects(begin('b', 1, 2 ** 26), { code: 'queue_full' }, 'by the size of the items that they refer to');
});

t.test('no ping comes between the last events, however long they take to make', async (t) => {
  const { app } = await start(t, ownFolder(t), { pingIntervalMs: 1 });
  const token = { id: 1, bytes: [0x78], value: -1, top: Array.from({ length: 20 }, (_, id) => ({ id, bytes: [0x78], value: -1 })) };
  const tokens = pack(Array.from({ length: 64 }, () => token));
  app.engine.script = async function* many() {
    for (let at = 0; at < 60; at++) yield { content: 'x', tokens };
  };
  const reply = await post(`${app.url}/v1/responses`, { input: 'x', stream: true, include: ['message.output_text.logprobs'], top_logprobs: 20, max_output_tokens: 900 });
  const events = (await reply.text()).split('\n\n').filter(Boolean).map((event) => JSON.parse(event.slice(event.indexOf('data: ') + 6)) as { type: string; sequence_number: number });
  t.strictSame(events.map(({ sequence_number: number }) => number), events.map((_, index) => index));
  t.match(events.at(-1), { type: /^response\.(completed|incomplete)$/ });
});

t.test('log probabilities in events count as what they take', (t) => {
  const run = new BackgroundRun({ response: { id: 'resp_a' } as WireResponse, input: [] }, 0);
  const grownBy = (data: object): number => {
    const before = run.bytes;
    run.tell({ event: 'response.output_text.delta', data });
    return run.bytes - before;
  };
  const top = Array.from({ length: 20 }, (_, index) => ({ token: ' word', bytes: [32, 119], logprob: -index }));
  const plain = grownBy({ delta: ' word', logprobs: [] });
  t.ok(plain < 500, `${plain} bytes`);
  const told = grownBy({ delta: ' word', logprobs: [{ token: ' word', bytes: [32, 119], logprob: -1, top_logprobs: top }] });
  t.ok(told > 15_000, `${told} bytes`);
  t.end();
});

t.test('a response that is deleted while it is made is gone', async (t) => {
  const { client, app, folder } = await start(t);
  app.engine.script = hang;
  const { id } = await client.responses.create({ ...ask, background: true });
  await until(() => app.engine.running.size === 1);
  await client.responses.delete(id);
  await until(() => app.engine.running.size === 0);
  await t.rejects(client.responses.retrieve(id), { status: 404, code: 'response_not_found' });
  t.notOk(readdirSync(folder).includes(`${id}.json`));
});

t.test('the stream of a response resumes where it broke', async (t) => {
  const { client, app } = await start(t);
  const go: (() => void)[] = [];
  app.engine.script = async function* () {
    for (const word of ['a ', 'b ', 'c']) {
      yield { content: word };
      await new Promise<void>((resolve) => go.push(resolve));
    }
  };
  const seen: OpenAI.Responses.ResponseStreamEvent[] = [];
  for await (const event of await client.responses.create({ ...ask, background: true, stream: true })) {
    seen.push(event);
    if (event.type === 'response.output_text.delta') break;
  }
  t.strictSame(seen.slice(0, 3).map(({ type }) => type), ['response.created', 'response.queued', 'response.in_progress']);
  const id = (seen[0] as { response: Stored }).response.id;
  t.match(await client.responses.retrieve(id), { status: 'in_progress', output: [{ type: 'message', status: 'in_progress' }] });
  const rest = await client.responses.retrieve(id, { stream: true, starting_after: seen.at(-1)!.sequence_number });
  const letGo = setInterval(() => go.shift()?.(), 1);
  t.teardown(() => clearInterval(letGo));
  for await (const event of rest) seen.push(event);
  t.strictSame(seen.map(({ sequence_number: number }) => number), seen.map((_, index) => index));
  const last = seen.at(-1) as { type: string; response: Stored };
  t.match(last, { type: 'response.completed', response: { id, status: 'completed', background: true } });
  const text = seen.flatMap((event) => (event.type === 'response.output_text.delta' ? [event.delta] : [])).join('');
  t.equal(text, 'a b c');
  t.match(last.response.output, [{ content: [{ text }] }]);
  t.equal((await client.responses.stream({ response_id: id }).finalResponse()).output_text, text, 'as the official client comes back');
});

t.test('a stored response streams as if it were being made', async (t) => {
  const keepIn = ownFolder(t);
  const before = await start(t, keepIn);
  const { id } = await before.client.responses.create({ ...ask, background: true });
  const made = await ended(before.client, id);
  await before.app.close(0);
  const { client } = await start(t, keepIn);
  t.match((await client.responses.stream({ response_id: id }).finalResponse()).output, made.output);
  const events: OpenAI.Responses.ResponseStreamEvent[] = [];
  for await (const event of await client.responses.retrieve(id, { stream: true, starting_after: 4 })) events.push(event);
  t.match(events, [{ type: 'response.completed', response: { output: made.output } }], 'what was missed is in the last event');
  await t.rejects(client.responses.retrieve(id, { starting_after: 4 } as object), { status: 400, code: 'invalid_value', param: 'starting_after' });
});

t.test('a response is read without its input, which may be long', async (t) => {
  const { client, folder } = await start(t);
  const { id } = await client.responses.create(ask);
  t.equal((await client.responses.inputItems.list(id)).data.length, 1);
  const file = join(folder, `${id}.json`);
  const [head] = readFileSync(file, 'utf8').split('\n') as [string];
  writeFileSync(file, `${head}\n[{"type":"mess`);
  t.equal((await client.responses.retrieve(id)).status, 'completed');
  await t.rejects(client.responses.inputItems.list(id), { status: 404, code: 'response_not_found' }, 'but nothing is made up for an input that is damaged');
});

/** The first line of a stored response. */
function headIn(path: string): { response: WireResponse } {
  return JSON.parse(readFileSync(path, 'utf8').split('\n')[0]!) as { response: WireResponse };
}
