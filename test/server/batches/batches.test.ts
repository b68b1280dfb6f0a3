// OpenAI's batches with the official client, over the fake engine.
import { spawn } from 'node:child_process';
import { appendFileSync, existsSync, promises, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { dirname, join } from 'node:path';
import OpenAI, { toFile } from 'openai';
import t, { type Test } from 'tap';
import type { ModelState, PoolModel } from '#recua/engine/pool-api.js';
import { RecuaError } from '#recua/errors.js';
import { Fields } from '#recua/request/fields.js';
import { readBatch } from '#recua/server/batches/batch-request.js';
import { BatchStore, type BatchRecord } from '#recua/server/batches/batch-store.js';
import { Idle } from '#recua/server/batches/idle.js';
import { BatchQueue } from '#recua/server/batches/queue.js';
import { LineFile, linesOf } from '#recua/server/batches/lines.js';
import { BatchWork, partsOf } from '#recua/server/batches/work.js';
import { checkRequests } from '#recua/server/batches/requests.js';
import { FileStore } from '#recua/server/files/file-store.js';
import { GrowingRoom } from '#recua/server/files/growing-room.js';
import type { Gateway } from '#recua/server/http/gateway.js';
import type { InnerReply } from '#recua/server/http/inner.js';
import { Traffic } from '#recua/server/http/traffic.js';
import { KeptFolder } from '#recua/server/kept/kept-folder.js';
import { everyone, ownerWith } from '#recua/server/kept/owner.js';
import { makeConfig } from '#recua/settings/config.js';
import { tryLock } from '#recua/system/lock-file.js';
import { identityOf } from '#recua/system/process-identity.js';
import { ownFolder, post, startApp, until, type AppUnderTest } from '../app-under-test.js';
import { description, echo, FakeEngine, hang, messagesOf } from '../fake-engine.js';
import { FakePool } from '../fake-pool.js';
import { deferred } from '../../deferred.js';

interface Started {
  client: OpenAI;
  app: AppUnderTest;
  folder: string;
}

async function start(t: Test, keepIn = ownFolder(t), engine = new FakeEngine()): Promise<Started> {
  const app = await startApp(t, {}, engine, { keepIn });
  const kept = process.getuid ? `kept-${process.getuid()}` : 'kept';
  return { app, client: new OpenAI({ baseURL: `${app.url}/v1`, apiKey: 'none', maxRetries: 0 }), folder: join(keepIn, kept) };
}

const chat = '/v1/chat/completions';
const line = (id: string, more: object = {}, url = chat): object => ({ custom_id: id, method: 'POST', url, body: { model: 'default', messages: [{ role: 'user', content: `say ${id}` }], ...more } });
const jsonl = (lines: readonly (object | string)[]): string => lines.map((one) => (typeof one === 'string' ? one : JSON.stringify(one))).join('\n');

async function create({ client }: Started, lines: readonly (object | string)[], endpoint: OpenAI.BatchCreateParams['endpoint'] = chat): Promise<OpenAI.Batch> {
  const file = await client.files.create({ file: await toFile(Buffer.from(jsonl(lines)), 'in.jsonl'), purpose: 'batch' });
  return await client.batches.create({ input_file_id: file.id, endpoint, completion_window: '24h', metadata: { job: 'a' } });
}

async function ended(client: OpenAI, id: string): Promise<OpenAI.Batch> {
  for (;;) {
    const batch = await client.batches.retrieve(id);
    if (['completed', 'failed', 'expired', 'cancelled'].includes(batch.status)) return batch;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

interface Answer {
  custom_id: string;
  response: { status_code: number; body: Record<string, unknown> } | null;
  error: { code: string } | null;
}

async function answers(client: OpenAI, id: string | null | undefined): Promise<Answer[]> {
  if (!id) return [];
  return (await (await client.files.content(id)).text()).trimEnd().split('\n').map((text) => JSON.parse(text) as Answer);
}

t.test('a batch is answered line by line, with errors apart', async (t) => {
  const started = await start(t);
  const { client } = started;
  const batch = await create(started, [line('a'), line('b', { top_p: 9 }), line('c'), '']);
  t.match(batch, { id: /^batch_/, object: 'batch', status: 'validating', endpoint: chat, metadata: { job: 'a' }, request_counts: { total: 0 } });
  const done = await ended(client, batch.id);
  t.match(done, { status: 'completed', request_counts: { total: 3, completed: 2, failed: 1 }, errors: null, input_file_id: batch.input_file_id });
  t.ok(done.in_progress_at && done.finalizing_at && done.completed_at);
  const good = await answers(client, done.output_file_id);
  t.strictSame(good.map(({ custom_id: id }) => id).sort(), ['a', 'c']);
  for (const { custom_id: id, response } of good) t.match(response, { status_code: 200, request_id: /^req_/, body: { object: 'chat.completion', choices: [{ message: { content: `say ${id}` } }] } });
  t.match(await answers(client, done.error_file_id), [{ custom_id: 'b', response: { status_code: 400, body: { error: { param: 'top_p' } } } }]);
  t.match(await client.files.retrieve(done.output_file_id!), { purpose: 'batch_output', filename: `${batch.id}_output.jsonl` });
  t.strictSame((await client.batches.list()).data, [done]);
});

t.test('a result is one line, also if Express writes JSON over several', async (t) => {
  const error = { error: { code: 'x', message: 'a\nb' } };
  for (const body of [JSON.stringify(error), JSON.stringify(error, null, 2)]) {
    const text = Buffer.concat(partsOf({ customId: 'a "b"', response: { status: 400, requestId: 'req_1', body: Buffer.from(body) } }).map((part) => Buffer.from(part))).toString();
    t.notMatch(text, /\n/);
    t.match(JSON.parse(text), { custom_id: 'a "b"', response: { status_code: 400, request_id: 'req_1', body: error }, error: null });
  }
});

t.test('a batch takes all four endpoints', async (t) => {
  const started = await start(t);
  const bodies = [[chat, {}], ['/v1/completions', { prompt: 'x' }], ['/v1/embeddings', { input: ['x', 'y'] }], ['/v1/responses', { input: 'x' }]] as const;
  for (const [endpoint, body] of bodies) {
    const { id } = await create(started, [{ ...line('a', {}, endpoint), body: { model: 'default', messages: [{ role: 'user', content: 'x' }], ...body } }], endpoint);
    const { output_file_id: output, status, error_file_id: errors } = await ended(started.client, id);
    t.equal(status, 'completed', endpoint);
    t.strictSame(await answers(started.client, errors), [], endpoint);
    t.equal((await answers(started.client, output)).length, 1, endpoint);
  }
});

const unfit: [what: string, lines: (object | string)[], code: string, param: string | null][] = [
  ['no requests', [''], 'invalid_value', 'input_file_id'],
  ['no JSON', [line('a'), '{'], 'invalid_json', null],
  ['no id', [{ ...line('a'), custom_id: undefined }], 'invalid_type', 'custom_id'],
  ['an id twice', [line('a'), line('a')], 'invalid_value', 'custom_id'],
  ['another endpoint', [line('a', {}, '/v1/embeddings')], 'invalid_value', 'url'],
  ['a route of its own', [line('a', {}, '/models/unload')], 'invalid_value', 'url'],
  ['no body', [{ ...line('a'), body: 'x' }], 'invalid_type', 'body'],
  ['a stream', [line('a', { stream: true })], 'invalid_value', 'body.stream'],
  ['a line that is no object', ['5'], 'invalid_type', 'line'],
  ['another method', [{ ...line('a'), method: 'GET' }], 'invalid_value', 'method'],
];

t.test('a file that is not a list of requests fails as a whole', async (t) => {
  const started = await start(t);
  for (const [what, lines, code, param] of unfit) {
    const batch = await ended(started.client, (await create(started, lines)).id);
    t.match(batch, { status: 'failed', errors: { data: [{ code, param }] } }, what);
  }
  t.equal(started.app.engine.requests.length, 0);
});

t.test('blank lines count, and the process does other work between them', async (t) => {
  const path = join(ownFolder(t), 'blank');
  writeFileSync(path, Buffer.alloc(2 ** 20, '\n'));
  let turns = 0;
  const count = (): void => {
    turns++;
    turn = setImmediate(count);
  };
  let turn = setImmediate(count);
  t.teardown(() => clearImmediate(turn));
  const { requests, problems } = await checkRequests(path, chat, 1_000, new AbortController().signal);
  t.strictSame(requests, []);
  t.match(problems, [{ code: 'invalid_value', message: /at most 100000 lines/, param: 'input_file_id', line: 100_001 }]);
  const seen = { turn: -1, lines: 0, most: 0 };
  for await (const _line of linesOf(path, 1_000)) {
    seen.lines = turns === seen.turn ? seen.lines + 1 : 1;
    seen.turn = turns;
    seen.most = Math.max(seen.most, seen.lines);
  }
  t.ok(seen.most <= 1_000, `${seen.most} lines in one turn`);
  const stop = new AbortController();
  const checking = checkRequests(path, chat, 1_000, stop.signal);
  setImmediate(() => stop.abort(new Error('stopped')));
  await t.rejects(checking, { message: 'stopped' });
});

t.test('a batch that waits is cancelled without reading its file', async (t) => {
  const { store, queue } = ownQueue(t, BatchStore, {});
  const record = readBatch(Fields.of({ input_file_id: 'x', endpoint: chat, completion_window: '24h' }));
  const { id } = record.batch;
  await store.put(record);
  await queue.cancel(record);
  while ((await store.get(id)).batch.status === 'cancelling') await new Promise((resolve) => setTimeout(resolve, 5));
  t.match((await store.get(id)).batch, { status: 'cancelled', errors: null, request_counts: { total: 0 }, output_file_id: null });
});

t.test('a file may begin with a byte order mark', async (t) => {
  const started = await start(t);
  const done = await ended(started.client, (await create(started, [`\ufeff${JSON.stringify(line('a'))}`, line('b')])).id);
  t.match(done, { status: 'completed', request_counts: { total: 2, completed: 2 } });
});

t.test('an impossible batch is refused at once', async (t) => {
  const { app, client } = await start(t);
  const file = await client.files.create({ file: await toFile(Buffer.from('x'), 'x'), purpose: 'batch' });
  const ask = { input_file_id: file.id, endpoint: chat, completion_window: '24h' };
  for (const [more, status, param] of [
    [{ endpoint: '/v1/models' }, 400, 'endpoint'], [{ endpoint: undefined }, 400, 'endpoint'], [{ input_file_id: 'file-x' }, 404, 'input_file_id'],
    [{ input_file_id: '../x' }, 404, 'input_file_id'], [{ completion_window: '24 hours' }, 400, 'completion_window'], [{ completion_window: '31d' }, 400, 'completion_window'],
  ] as const) {
    const response = await post(`${app.url}/v1/batches`, { ...ask, ...more });
    t.equal(response.status, status, param);
    t.match(await response.json(), { error: { param } });
  }
  for (const id of ['x', `batch_${'a'.repeat(48)}`, '..%2f..%2fx']) {
    t.equal((await fetch(`${app.url}/v1/batches/${id}`)).status, 404);
    t.equal((await fetch(`${app.url}/v1/batches/${id}/cancel`, { method: 'POST' })).status, 404);
  }
});

t.test('lines of a batch give way to interactive requests, and are done later', async (t) => {
  const started = await start(t);
  const { app, client } = started;
  app.engine.script = hang;
  const { promise: gate, resolve: open } = deferred();
  const { id } = await create(started, Array.from({ length: 6 }, (_, index) => line(`${index}`)));
  await until(() => app.engine.running.size === 4);
  t.equal(app.engine.requests.length, 4, 'no more than run at once');
  app.engine.script = async function* (request) {
    await gate;
    yield* echo(request);
  };
  const person = (): Promise<Response> => post(`${app.url}${chat}`, { messages: [{ role: 'user', content: 'person' }] });
  const people = [person()];
  await until(() => app.engine.requests.length === 5 && app.engine.running.size === 4);
  t.equal(messagesOf(app.engine.requests[4]!)[0]!.content, 'person');
  t.equal(app.engine.cancelled, 1, 'one line gave way');
  people.push(person(), person(), person());
  await until(() => app.engine.requests.length === 8 && app.engine.running.size === 4);
  t.equal(app.engine.cancelled, 4, 'all lines did');
  open();
  for (const response of await Promise.all(people)) t.equal(response.status, 200);
  const done = await ended(client, id);
  t.match(done.request_counts, { total: 6, completed: 6, failed: 0 });
  t.strictSame((await answers(client, done.output_file_id)).map(({ custom_id: custom }) => custom).sort(), ['0', '1', '2', '3', '4', '5']);
});

t.test('lines take no more sequences than their model has, and all make way for a model that has to be loaded', async (t) => {
  let look = (): void => undefined;
  let told = (_model: PoolModel): void => undefined;
  let [drain, listens] = [(): void => undefined, true];
  const traffic = {
    people: 0, draining: false,
    watchPeople: (watch: () => void) => (look = watch),
    onDrain: (listener: () => void) => (drain = listener),
  };
  const models = ['a', 'b'].map((id) => ({ id, leases: 0, state: { state: 'unloaded' } as ModelState }));
  const onChange = (listener: typeof told) => {
    told = listener;
    return () => void (listens = false);
  };
  const pool = { list: async () => models as unknown as PoolModel[], onChange };
  const idle = new Idle(traffic as unknown as Traffic, 4, 0, pool);
  const stop = new AbortController();
  const signals: AbortSignal[] = [];
  const begin = () => void idle.line(stop.signal, async (signal) => {
    signals.push(signal);
    await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
  }).catch(() => undefined);
  const loaded = (parallel: number): void => {
    models[0]!.state = { state: 'loaded', model: { ...description, parallel } };
    told(models[0] as unknown as PoolModel);
  };
  const running = () => signals.filter(({ aborted }) => !aborted).length;
  for (let at = 0; at < 4; at++) begin();
  await until(() => running() === 4);
  loaded(1);
  t.strictSame(signals.map(({ aborted }) => aborted), [false, true, true, true], 'the newest leave');
  begin();
  loaded(4);
  await until(() => running() === 2);
  traffic.people = 1;
  look();
  t.equal(running(), 2, 'there is room for all');
  models[1]!.leases = 1;
  await until(() => running() === 0);
  stop.abort();
  t.equal(signals.length, 5);
  drain();
  t.notOk(listens, 'a pool that goes on does not keep it');
});

t.test('transient failures are retried, and a crash three times', async (t) => {
  const started = await start(t);
  const { app, client } = started;
  let tries = 0;
  app.engine.script = async function* (request) {
    const { content } = messagesOf(request)[0]!;
    if (content === 'say crash') throw new RecuaError('model_crashed', 'The engine process died.');
    if (++tries === 1) throw new RecuaError('queue_full', 'Full.');
    yield { content: 'well' };
  };
  const { id } = await create(started, [line('a'), line('crash')]);
  const done = await ended(client, id);
  t.match(done.request_counts, { total: 2, completed: 1, failed: 1 });
  t.match(await answers(client, done.error_file_id), [{ custom_id: 'crash', response: { status_code: 500, body: { error: { code: 'model_crashed' } } } }]);
  t.equal(app.engine.requests.length, 5);
});

t.test('a cancelled batch keeps its finished lines', async (t) => {
  const started = await start(t);
  const { app, client } = started;
  app.engine.script = async function* (request, signal) {
    if (messagesOf(request)[0]!.content === 'say a') yield { content: 'first' };
    else yield* hang(request, signal);
  };
  const { id } = await create(started, [line('a'), line('b')]);
  await until(() => app.engine.requests.length === 2 && app.engine.running.size === 1);
  const waiting = await create(started, [line('c')]);
  t.equal((await client.batches.cancel(id)).status, 'cancelling');
  const both = await Promise.all([1, 2].map(() => client.batches.cancel(waiting.id)));
  t.strictSame(both.map(({ status }) => status), ['cancelling', 'cancelling'], 'also if it is asked for twice at once');
  const done = await ended(client, id);
  t.match(done, { status: 'cancelled', request_counts: { total: 2, completed: 1 } });
  t.match(await answers(client, done.output_file_id), [{ custom_id: 'a' }]);
  t.equal((await ended(client, waiting.id)).status, 'cancelled');
  await t.rejects(client.batches.cancel(id), { status: 400, code: 'invalid_value', message: /has ended/ });
  t.equal(app.engine.running.size, 0);
});

t.test('a restarted server continues, even if the uploaded file is gone', async (t) => {
  const keepIn = ownFolder(t);
  const before = await start(t, keepIn);
  before.app.engine.script = async function* (request, signal) {
    if (messagesOf(request)[0]!.content === 'say a') yield { content: 'first' };
    else yield* hang(request, signal);
  };
  const { id, input_file_id: input } = await create(before, [line('a'), line('b')]);
  await until(() => before.app.engine.requests.length === 2 && before.app.engine.running.size === 1);
  await before.client.files.delete(input);
  await before.app.close(0);
  // As left by a process that was killed while writing.
  const record = JSON.parse(readFileSync(join(before.folder, 'batches', `${id}.json`), 'utf8')) as BatchRecord;
  appendFileSync(join(before.folder, 'files', record.outputId), '{"id":"batch_req_1","custom_id":"b","resp');
  const { client, app, folder } = await start(t, keepIn);
  const done = await ended(client, id);
  t.match(done, { status: 'completed', request_counts: { total: 2, completed: 2, failed: 0 } });
  t.strictSame((await answers(client, done.output_file_id)).map(({ custom_id: custom }) => custom), ['a', 'b']);
  t.strictSame(app.engine.requests.map((request) => messagesOf(request)[0]!.content), ['say b'], 'what was done is not done again');
  await until(() => readdirSync(join(folder, 'batches')).join() === `${id}.json`);
});

t.test('an expired batch returns its finished lines', async (t) => {
  const keepIn = ownFolder(t);
  const before = await start(t, keepIn);
  before.app.engine.script = hang;
  const { id } = await create(before, [line('a')]);
  await until(() => before.app.engine.running.size === 1);
  await before.app.close(0);
  const path = join(before.folder, 'batches', `${id}.json`);
  const record = JSON.parse(readFileSync(path, 'utf8')) as BatchRecord;
  writeFileSync(path, JSON.stringify({ ...record, batch: { ...record.batch, expires_at: record.batch.created_at - 1 } }));
  const { client } = await start(t, keepIn);
  const done = await ended(client, id);
  t.match(done, { status: 'expired', request_counts: { total: 1, completed: 0, failed: 1 } });
  t.match(await answers(client, done.error_file_id), [{ custom_id: 'a', response: null, error: { code: 'batch_expired' } }]);
});

t.test('finished lines count when another server continues, as after a restart', async (t) => {
  const keepIn = ownFolder(t);
  const one = await start(t, keepIn);
  one.app.engine.script = async function* (request, signal) {
    if (messagesOf(request)[0]!.content === 'say a') yield { content: 'first' };
    else yield* hang(request, signal);
  };
  const { id } = await create(one, [line('a'), line('b', { top_p: 9 }), line('c')]);
  await until(() => one.app.engine.requests.length === 2 && one.app.engine.running.size === 1);
  while ((await one.client.batches.retrieve(id)).request_counts?.completed !== 1);
  const counts = { total: 3, completed: 1, failed: 1 };
  const two = await start(t, keepIn);
  t.match(await two.client.batches.retrieve(id), { status: 'in_progress', request_counts: counts });
  t.match((await two.client.batches.list()).data, [{ id, request_counts: counts }]);
});

t.test('of two servers over one folder one works on a batch', async (t) => {
  const keepIn = ownFolder(t);
  const one = await start(t, keepIn);
  one.app.engine.script = hang;
  const { id } = await create(one, [line('a')]);
  await until(() => one.app.engine.running.size === 1);
  const two = await start(t, keepIn);
  t.equal((await two.client.batches.retrieve(id)).status, 'in_progress');
  await one.app.close(0);
  t.match(await ended(two.client, id), { status: 'completed', request_counts: { completed: 1 } });
  t.equal(two.app.engine.requests.length, 1);
});

t.test('a batch that runs at one server is cancelled at another', async (t) => {
  const { one, two, id, folder } = await startedBefore(t);
  t.match(await two.client.batches.cancel(id), { status: 'cancelling', cancelling_at: Number });
  t.match(await ended(two.client, id), { status: 'cancelled', request_counts: { completed: 0 } });
  t.match(await one.client.batches.retrieve(id), { status: 'cancelled' });
  t.equal(one.app.engine.running.size, 0);
  await until(() => !readdirSync(join(folder, 'batches')).some((name) => !name.endsWith('.json')));
});

t.test('a batch that leaves its turn before it sees that another server cancels it is cancelled at once', async (t) => {
  const { kept, store, add } = ownQueue(t, BatchStore, { turnMs: 25 });
  const { close } = LineFile.prototype;
  const { leave } = BatchWork.prototype;
  t.teardown(() => (LineFile.prototype.close = close));
  t.teardown(() => (BatchWork.prototype.leave = leave));
  // As until midnight, if its key has no tokens left.
  BatchWork.prototype.leave = function () {
    leave.call(this, Date.now() + 3_600_000);
  };
  let marked: Promise<void> | undefined;
  LineFile.prototype.close = async function () {
    await (marked ??= store.cancelMarkOf(id).then((mark) => mark.set()));
    await close.call(this);
  };
  const id = await add('ann', 30);
  await add('bob', 1);
  while ((await store.get(id)).batch.status !== 'cancelled') await new Promise((resolve) => setTimeout(resolve, 5));
  t.match((await store.get(id)).batch, { request_counts: { total: 30 } });
  const folder = await kept.of('batches');
  await until(() => !readdirSync(folder).some((name) => name.endsWith('.cancel')));
});

t.test('a batch that is done when it sees that another server cancelled it is cancelled, with all answers', async (t) => {
  const { store, add } = ownQueue(t, BatchStore, {});
  const { add: addLine } = LineFile.prototype;
  t.teardown(() => (LineFile.prototype.add = addLine));
  LineFile.prototype.add = async function (...line) {
    await (await store.cancelMarkOf(id)).set();
    await addLine.apply(this, line);
  };
  const id = await add('ann', 1);
  while (!['completed', 'cancelled'].includes((await store.get(id)).batch.status)) await new Promise((resolve) => setTimeout(resolve, 5));
  t.match((await store.get(id)).batch, { status: 'cancelled', request_counts: { completed: 1 } });
});

t.test('a batch that ends before its server sees that another cancels it is cancelled', async (t) => {
  const keepIn = ownFolder(t);
  const [one, two] = [await start(t, keepIn), await start(t, keepIn)];
  const { promise: ends, resolve: end } = deferred();
  one.app.engine.script = async function* (request) {
    await ends;
    yield* echo(request);
  };
  const { id } = await create(one, [line('a')]);
  await until(() => one.app.engine.running.size === 1);
  t.match(await two.client.batches.cancel(id), { status: 'cancelling' });
  end();
  const done = await ended(two.client, id);
  t.match(done, { status: 'cancelled', cancelling_at: Number, finalizing_at: null, completed_at: null });
  t.equal(done.request_counts?.completed, (await answers(two.client, done.output_file_id)).length);
});

t.test('a batch whose server stopped before it saw that another cancels it is cancelled by the next', async (t) => {
  const started = await start(t);
  const { folder } = started;
  started.app.engine.script = hang;
  const { id } = await create(started, [line('a')]);
  await until(() => started.app.engine.running.size === 1);
  writeFileSync(join(folder, 'batches', `${id}.cancel`), '');
  await started.app.close(0);
  const again = await start(t, dirname(folder));
  t.match(await again.client.batches.retrieve(id), { status: /^cancell/ });
  t.match(await ended(again.client, id), { status: 'cancelled' });
  t.equal(again.app.engine.requests.length, 0);
});

/** A batch that runs at `one`, while `two`, of the same folder, began before it was made. */
async function startedBefore(t: Test): Promise<{ one: Started; two: Started; id: string; folder: string }> {
  const keepIn = ownFolder(t);
  const two = await start(t, keepIn);
  await two.client.batches.list();
  const one = await start(t, keepIn);
  one.app.engine.script = hang;
  const { id } = await create(one, [line('a')]);
  await until(() => one.app.engine.running.size === 1);
  return { one, two, id, folder: one.folder };
}

t.test('a batch of a server that ended is cancelled at another one that began before it was made', async (t) => {
  const { one, two, id } = await startedBefore(t);
  await one.app.close(0);
  t.match(await two.client.batches.cancel(id), { status: /^cancell/ });
  t.match(await ended(two.client, id), { status: 'cancelled' });
  t.equal(two.app.engine.requests.length, 0);
});

t.test('a batch of a server that ended goes on at another one that began before it was made', async (t) => {
  const { one, two, id } = await startedBefore(t);
  t.equal((await two.client.batches.retrieve(id)).status, 'in_progress');
  await one.app.close(0);
  t.match(await ended(two.client, id), { status: 'completed', request_counts: { completed: 1 } });
  t.equal(two.app.engine.requests.length, 1);
});

t.test('a batch with a line that is nested without end fails at once, leaves nothing, and holds up no other', async (t) => {
  const started = await start(t);
  const deep = `{"custom_id":"a","method":"POST","url":"${chat}","body":{"x":${'['.repeat(20_000)}${']'.repeat(20_000)}}}`;
  const many = `{"custom_id":"b","method":"POST","url":"${chat}","body":{"x":[${'{},'.repeat(300_000)}0]}}`;
  const batch = await create(started, [deep, many]);
  const next = await create(started, [line('c')]);
  const failed = await ended(started.client, batch.id);
  t.equal(failed.status, 'failed');
  t.match(failed.errors?.data, [{ code: 'invalid_json', line: 1, message: /nested over 100 levels/ }, { code: 'invalid_json', line: 2, message: /over 200000 objects/ }]);
  t.equal((await ended(started.client, next.id)).status, 'completed');
  // A batch ends before the copy of its requests is deleted.
  await until(() => !readdirSync(join(started.folder, 'batches')).some((name) => name.endsWith('.input')));
});

t.test('a file that is deleted while its batch is created is not found', async (t) => {
  const { client, folder } = await start(t);
  const { id } = await client.files.create({ file: await toFile(Buffer.from(jsonl([line('a')])), 'in.jsonl'), purpose: 'batch' });
  // The description goes first, but the batch may have read it before.
  rmSync(join(folder, 'files', id));
  await t.rejects(client.batches.create({ input_file_id: id, endpoint: chat, completion_window: '24h' }), { status: 404, code: 'file_not_found', param: 'input_file_id' });
  await t.rejects(client.files.content(id), { status: 404, code: 'file_not_found' });
});

t.test('errors of the disk name paths in the log, not to clients', async (t) => {
  const { client, folder, app } = await start(t);
  const { id } = await client.files.create({ file: await toFile(Buffer.from(jsonl([line('a')])), 'in.jsonl'), purpose: 'batch' });
  rmSync(join(folder, 'batches'), { recursive: true });
  writeFileSync(join(folder, 'batches'), '');
  const error = await client.batches.create({ input_file_id: id, endpoint: chat, completion_window: '24h' }).then(() => undefined, (thrown: unknown) => thrown as Error);
  t.match(error, { status: 500, code: 'store_unwritable' });
  t.notMatch(error!.message, folder);
  t.ok(app.logged.some((text) => text.includes(join(folder, 'batches'))), app.logged.join('\n'));
});

t.test('batches that are created at the same time do not exceed the limits', async (t) => {
  const app = await startApp(t, { apiKeyFile: JSON.stringify({ keys: [{ name: 'ann', key: 'a' }, { name: 'bob', key: 'b' }] }) }, new FakeEngine(), { keepIn: ownFolder(t) });
  // No batch starts meanwhile.
  app.engine.script = hang;
  const busy = new AbortController();
  t.teardown(() => busy.abort());
  post(`${app.url}${chat}`, { messages: [{ role: 'user', content: 'x' }] }, { authorization: 'Bearer b' }, busy.signal).catch(() => undefined);
  await until(() => app.engine.running.size === 1);
  const createdBy = async (apiKey: string): Promise<number> => {
    const client = new OpenAI({ baseURL: `${app.url}/v1`, apiKey, maxRetries: 0 });
    const { id } = await client.files.create({ file: await toFile(Buffer.from(jsonl([line('a')])), 'in.jsonl'), purpose: 'batch' });
    const all = await Promise.allSettled(Array.from({ length: 60 }, () => client.batches.create({ input_file_id: id, endpoint: chat, completion_window: '24h' })));
    for (const one of all) if (one.status === 'rejected') t.match(one.reason, { status: 429, code: 'queue_full' });
    return all.filter(({ status }) => status === 'fulfilled').length;
  };
  // One of them runs and so does not wait; it may run before the last is created.
  for (const key of ['a', 'b']) t.match(await createdBy(key), /^5[01]$/, key);
});

t.test("metadata keeps to OpenAI's limits", async (t) => {
  const { url } = await startApp(t, {}, new FakeEngine(), { keepIn: ownFolder(t) });
  const wrong = [[{ a: {} }, 'metadata.a'], [{ a: 1 }, 'metadata.a'], [{ a: 'x'.repeat(513) }, 'metadata.a'], [{ ['x'.repeat(65)]: '' }, 'metadata'], [Object.fromEntries(Array.from({ length: 17 }, (_, at) => [at, ''])), 'metadata']] as const;
  for (const [metadata, param] of wrong) {
    for (const [path, body] of [['/v1/responses', { model: 'default', input: 'a' }], ['/v1/batches', { input_file_id: 'file-x', endpoint: chat, completion_window: '24h' }]] as const) {
      const response = await post(`${url}${path}`, { ...body, metadata });
      t.equal(response.status, 400, path);
      t.match(await response.json(), { error: { param } });
    }
  }
});

/** One admin and two other keys; `ann` has few tokens and few requests. */
const keys = { apiKeyFile: JSON.stringify({ keys: [{ name: 'owner', key: 'o', admin: true }, { name: 'ann', key: 'a', tokens_per_day: 20, requests_per_minute: 4 }, { name: 'bob', key: 'b' }] }) };

t.test("a key without tokens left today does not hold up another key's batch", async (t) => {
  const app = await startApp(t, keys, new FakeEngine(), { keepIn: ownFolder(t) });
  const [ann, bob] = ['a', 'b'].map((apiKey) => ({ app, folder: '', client: new OpenAI({ baseURL: `${app.url}/v1`, apiKey, maxRetries: 0 }) })) as [Started, Started];
  const many = await create(ann, Array.from({ length: 40 }, (_, index) => line(String(index))));
  const few = await create(bob, [line('x')]);
  t.match(await ended(bob.client, few.id), { status: 'completed', request_counts: { completed: 1 } });
  const left = await ann.client.batches.retrieve(many.id);
  t.equal(left.status, 'in_progress');
  t.ok(left.request_counts!.completed > 0 && left.request_counts!.completed < 40, `${left.request_counts!.completed} lines were answered`);
  t.equal(left.request_counts!.failed, 0, 'the others wait');
  const status = async () => (await post(`${app.url}${chat}`, { model: 'default', messages: [{ role: 'user', content: 'x' }] }, { authorization: 'Bearer a' })).status;
  t.equal(await status(), 429);
  t.match(await ann.client.batches.cancel(many.id), { status: /cancelling|cancelled/ }, 'cancelling costs nothing');
  t.match(await ended(ann.client, many.id), { status: 'cancelled', request_counts: left.request_counts! });
});

t.test("lines of a batch leave the requests of their key's minute alone", async (t) => {
  const app = await startApp(t, { apiKeyFile: keys.apiKeyFile.replace('"tokens_per_day":20,', '') }, new FakeEngine(), { keepIn: ownFolder(t) });
  const client = new OpenAI({ baseURL: `${app.url}/v1`, apiKey: 'a', maxRetries: 0 });
  const batch = await create({ app, client, folder: '' }, Array.from({ length: 12 }, (_, index) => line(String(index))));
  t.match(await ended(client, batch.id), { status: 'completed', request_counts: { completed: 12 } });
  const { headers, status } = await post(`${app.url}${chat}`, { model: 'default', messages: [{ role: 'user', content: 'x' }] }, { authorization: 'Bearer a' });
  t.equal(status, 200, 'the upload and the batch were two of four');
  t.equal(headers.get('x-ratelimit-remaining-requests'), '1');
});

/** A queue whose lines are answered at once, over a store of its own. */
function ownQueue(t: Test, Store: typeof BatchStore, times: ConstructorParameters<typeof BatchQueue>[1], { fileBounds, answer = '', gate }: { fileBounds?: ConstructorParameters<typeof FileStore>[1]; answer?: string; gate?: Promise<void> } = {}) {
  const kept = new KeptFolder(ownFolder(t));
  const [store, files] = [new Store(kept), new FileStore(kept, fileBounds)];
  const traffic = new Traffic();
  const order: string[] = [];
  const inner = {
    async ask({ by = '' }: { by?: string }): Promise<InnerReply> {
      order.push(by);
      await (gate ?? new Promise((resolve) => setTimeout(resolve, 10)));
      return { status: 200, requestId: '', body: Buffer.from(JSON.stringify({ answer })) };
    },
  };
  const gateway = { traffic, inner, hasKey: () => true, config: makeConfig({}), log: () => undefined } as unknown as Gateway;
  const queue = new BatchQueue({ gateway, store, files, idle: new Idle(traffic, 1, 0) }, times);
  const add = async (by: string, count: number): Promise<string> => {
    const record = { ...readBatch(Fields.of({ input_file_id: 'x', endpoint: chat, completion_window: '24h' })), by };
    await writeFile(await store.inputOf(record.batch.id), jsonl(Array.from({ length: count }, (_, index) => line(String(index)))));
    await store.put(record);
    queue.add(record.batch.id, by);
    return record.batch.id;
  };
  const completed = async (): Promise<void> => {
    while (!(await store.list()).every(({ batch }) => batch.status === 'completed')) await new Promise((resolve) => setTimeout(resolve, 5));
  };
  return { kept, store, files, order, queue, traffic, add, completed };
}

t.test('a stop while a batch is picked leaves it to the next start', async (t) => {
  let picked = (): void => {};
  class Picking extends BatchStore {
    override async get(...args: Parameters<BatchStore['get']>): Promise<BatchRecord> {
      const record = await super.get(...args);
      picked();
      return record;
    }
  }
  const { store, order, traffic, add } = ownQueue(t, Picking, {});
  picked = () => traffic.drain();
  const id = await add('ann', 1);
  await until(() => traffic.draining);
  await traffic.idle(10_000);
  const lock = await tryLock(await store.lockOf(id));
  t.ok(lock, 'the batch is free');
  await lock?.release();
  t.strictSame(order, []);
});

/** A batch in the store of `ownQueue` that its queue does not know. */
async function stored(store: BatchStore, more: Partial<BatchRecord> = {}): Promise<BatchRecord> {
  const record = { ...readBatch(Fields.of({ input_file_id: 'x', endpoint: chat, completion_window: '24h' })), ...more };
  await writeFile(await store.inputOf(record.batch.id), jsonl([line('a')]));
  await store.put(record);
  return record;
}

t.test('a batch in the queue of another server that lives stays there, and is taken over after that', async (t) => {
  const { store, order, queue, completed } = ownQueue(t, BatchStore, { lockedMs: 5, elsewhereMs: 10 });
  const other = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1e6)']);
  t.teardown(() => other.kill('SIGKILL'));
  queue.notice(await stored(store, { server: await identityOf(other.pid!) }));
  await new Promise((resolve) => setTimeout(resolve, 300));
  t.strictSame(order, []);
  other.kill('SIGKILL');
  await completed();
  t.equal(order.length, 1);
});

t.test('a batch that somebody asks for again and again waits in one place of the queue', async (t) => {
  let looks = 0;
  class Counting extends BatchStore {
    override async lockOf(id: string): Promise<string> {
      looks++;
      await new Promise((resolve) => setTimeout(resolve, 5));
      return await super.lockOf(id);
    }
  }
  const { store, queue, completed } = ownQueue(t, Counting, { lockedMs: 50 });
  const record = await stored(store);
  const lock = await tryLock(await store.lockOf(record.batch.id));
  for (let i = 0; i < 100; i++) {
    queue.notice(record);
    await new Promise((resolve) => setTimeout(resolve, 3));
  }
  looks = 0;
  const startMs = performance.now();
  await new Promise((resolve) => setTimeout(resolve, 500));
  const most = (performance.now() - startMs) / 50 + 1;
  t.ok(looks <= most, `${looks} looks, and one place has at most ${most.toFixed(1)}`);
  await lock!.release();
  await completed();
});

t.test('keys take turns', async (t) => {
  const { kept, store, order, add, completed } = ownQueue(t, BatchStore, { turnMs: 25 });
  const ids = [await add('ann', 30), await add('ann', 1), await add('bob', 3)];
  await completed();
  t.equal(order.length, 34, 'each line ran once');
  t.ok(order.indexOf('bob') < 20, `${order.indexOf('bob')} lines of ann came first`);
  t.ok(order.lastIndexOf('ann') > order.lastIndexOf('bob'));
  for (const id of ids) t.match((await store.get(id)).batch, { request_counts: { failed: 0 }, error_file_id: null });
  const left = readdirSync(await kept.of('files')).filter((name) => !name.endsWith('.json'));
  t.equal(left.length, 3, 'files without a line are gone');
});

t.test('a batch that is cancelled in the moment in which it leaves its turn is cancelled', async (t) => {
  const { store, queue, add } = ownQueue(t, BatchStore, { turnMs: 25 });
  const { close } = LineFile.prototype;
  t.teardown(() => (LineFile.prototype.close = close));
  let cancelled: Promise<BatchRecord> | undefined;
  LineFile.prototype.close = async function () {
    await (cancelled ??= queue.cancel(queue.find(id)!));
    await close.call(this);
  };
  const id = await add('ann', 30);
  await add('bob', 1);
  while ((await store.get(id)).batch.status !== 'cancelled') await new Promise((resolve) => setTimeout(resolve, 5));
  t.equal((await cancelled)?.batch.id, id);
});

t.test('a batch waits while the disk is full, and loses nothing', async (t) => {
  const full = new RecuaError('disk_full', 'The disk is full.');
  const refused: Record<string, number> = {};
  const isFull = (what: string): boolean => (refused[what] = (refused[what] ?? 0) + 1) <= 2;
  class FullStore extends BatchStore {
    override async put(record: BatchRecord): Promise<void> {
      if (record.batch.status !== 'validating' && isFull(record.batch.status)) throw full;
      await super.put(record);
    }

    override async lockOf(id: string): Promise<string> {
      if (isFull('lock')) throw full;
      return await super.lockOf(id);
    }
  }
  const { store, files, order, add, completed } = ownQueue(t, FullStore, { unwritableMs: 5 });
  const id = await add('ann', 3);
  await completed();
  t.match(refused, { lock: /^[3-9]/, in_progress: /^[3-9]/, finalizing: /^[3-9]/, completed: /^[3-9]/ });
  t.equal(order.length, 3, 'no line ran twice');
  const { batch } = await store.get(id);
  t.match(batch, { request_counts: { completed: 3 }, errors: null });
  const path = await files.pathOf(batch.output_file_id!);
  t.equal(readFileSync(path, 'utf8').trim().split('\n').length, 3);
});

t.test('a batch waits while too many files are open', async (t) => {
  let refused = 0;
  class ShortStore extends BatchStore {
    override async put(record: BatchRecord): Promise<void> {
      if (record.batch.status === 'finalizing' && refused++ < 2) throw Object.assign(new Error('EMFILE: too many open files, open'), { code: 'EMFILE', errno: -24 });
      await super.put(record);
    }
  }
  const { store, order, add, completed } = ownQueue(t, ShortStore, { unwritableMs: 5 });
  const id = await add('ann', 3);
  await completed();
  t.equal(refused, 3);
  t.equal(order.length, 3, 'no line ran twice');
  t.match((await store.get(id)).batch, { request_counts: { completed: 3 }, errors: null });
});

t.test('a batch whose results cannot be written while it is cancelled is tried again later, not at once', async (t) => {
  let refused = 0;
  class BrokenStore extends BatchStore {
    override async put(record: BatchRecord): Promise<void> {
      if (record.batch.status === 'cancelled' && ++refused <= 2) throw new RecuaError('store_unwritable', 'The folder is broken.');
      await super.put(record);
    }
  }
  const { store, queue, add } = ownQueue(t, BrokenStore, { unwritableMs: 2_000 });
  const id = await add('ann', 300);
  await until(() => queue.find(id)?.batch.status === 'in_progress');
  await queue.cancel(queue.find(id)!);
  await until(() => refused === 1);
  await new Promise((resolve) => setTimeout(resolve, 100));
  t.equal(refused, 1);
  while ((await store.get(id)).batch.status !== 'cancelled') await new Promise((resolve) => setTimeout(resolve, 20));
  t.equal(refused, 3);
});

t.test('a batch whose files cannot be read for a moment waits, and loses nothing', async (t) => {
  let refused = 0;
  const kept = new KeptFolder(ownFolder(t));
  const noFolder = join(ownFolder(t), 'file');
  writeFileSync(noFolder, '');
  // Not EMFILE, which would hit the test as well, but another error that says nothing about the
  // file.
  class BusyStore extends BatchStore {
    override async inputOf(id: string): Promise<string> {
      return (await super.get(id).catch(() => undefined)) && refused++ < 2 ? join(noFolder, 'x') : await super.inputOf(id);
    }
  }
  const { store, add, completed } = ownQueue(t, BusyStore, { unwritableMs: 5 });
  const id = await add('ann', 3);
  await completed();
  t.ok(refused > 2);
  t.match((await store.get(id)).batch, { request_counts: { completed: 3 }, errors: null });

  const of = kept.of.bind(kept);
  const [records, files] = [new BatchStore(kept), new FileStore(kept)];
  const draft = await files.draft();
  writeFileSync(draft.path, 'x');
  const file = await files.publish(draft, { filename: 'x', purpose: 'batch', by: undefined });
  await records.put(await store.get(id));
  kept.of = () => Promise.resolve(noFolder);
  const unread = { code: 'store_unwritable', message: /ENOTDIR/ };
  await t.rejects(records.get(id), unread);
  await t.rejects(files.get(file.id, everyone), unread);
  kept.of = of;
  t.match(await records.get(id), { batch: { id } });
  t.match(await files.get(file.id, everyone), { id: file.id });
});

t.test('a batch that cannot be read when the server starts runs as soon as it can be', async (t) => {
  const { kept, store, order, queue, completed } = ownQueue(t, BatchStore, { unwritableMs: 5 });
  const record = { ...readBatch(Fields.of({ input_file_id: 'x', endpoint: chat, completion_window: '24h' })), by: 'ann' };
  await writeFile(await store.inputOf(record.batch.id), jsonl([line('0')]));
  await store.put(record);
  const noFolder = join(ownFolder(t), 'file');
  writeFileSync(noFolder, '');
  const of = kept.of.bind(kept);
  // The folder is listed, and no file in it can be read.
  let calls = 0;
  kept.of = async (name) => (++calls <= 2 ? await of(name) : noFolder);
  const resuming = queue.resume();
  await until(() => calls > 4);
  kept.of = of;
  await resuming;
  await completed();
  t.strictSame(order, ['ann']);
});

/** A store whose disk is full for the first `times` records of that status. */
function fullFor(status: string, times: number): typeof BatchStore {
  let refused = 0;
  return class extends BatchStore {
    override async put(record: BatchRecord): Promise<void> {
      if (record.batch.status === status && refused++ < times) throw new RecuaError('disk_full', 'The disk is full.');
      await super.put(record);
    }
  };
}

t.test('a cancellation that cannot be stored changes nothing', async (t) => {
  const { promise: gate, resolve: open } = deferred();
  const { store, queue, add, completed } = ownQueue(t, fullFor('cancelling', 2), {}, { gate });
  const id = await add('ann', 20);
  await until(() => queue.find(id)?.batch.status === 'in_progress');
  const cancelled = [1, 2].map(() => queue.cancel(queue.find(id)!));
  for (const one of cancelled) await t.rejects(one, { code: 'disk_full' });
  t.match(queue.find(id)?.batch, { status: 'in_progress', cancelling_at: null }, 'the client was told that it goes on');
  await t.rejects(queue.cancel(queue.find(id)!), { code: 'disk_full' });
  open();
  await completed();
  t.match((await store.get(id)).batch, { request_counts: { completed: 20 }, cancelling_at: null, cancelled_at: null });
});

t.test('a batch whose failure cannot be stored fails once there is room', async (t) => {
  const bounds = { files: 10, bytes: 60_000, fileBytes: 60_000 };
  const { store, files, add } = ownQueue(t, fullFor('failed', 2), { unwritableMs: 5 }, { fileBounds: bounds, answer: 'x'.repeat(4_000) });
  const id = await add('ann', 40);
  while ((await store.get(id)).batch.status !== 'failed') await new Promise((resolve) => setTimeout(resolve, 5));
  const { batch } = await store.get(id);
  t.match(batch, { errors: { data: [{ code: 'disk_full', line: null }] }, request_counts: { total: 40, failed: 0 } });
  t.equal(readFileSync(await files.pathOf(batch.output_file_id!), 'utf8').trim().split('\n').length, batch.request_counts.completed);
});

t.test('a batch that cannot be stored leaves no copy of its requests', async (t) => {
  const { client, folder } = await start(t);
  const { id } = await client.files.create({ file: await toFile(Buffer.from(jsonl([line('a')])), 'in.jsonl'), purpose: 'batch' });
  const { put } = BatchStore.prototype;
  t.teardown(() => void (BatchStore.prototype.put = put));
  BatchStore.prototype.put = () => Promise.reject(new RecuaError('disk_full', 'The disk is full.'));
  await t.rejects(client.batches.create({ input_file_id: id, endpoint: chat, completion_window: '24h' }), { status: 507, code: 'disk_full' });
  t.strictSame(readdirSync(join(folder, 'batches')), []);
});

t.test("a batch whose results pass its key's half of the files fails, keeps them, and others find room", async (t) => {
  const bounds = { files: 10, bytes: 60_000, fileBytes: 60_000 };
  const { store, files, order, add } = ownQueue(t, BatchStore, {}, { fileBounds: bounds, answer: 'x'.repeat(4_000) });
  const id = await add('ann', 40);
  while ((await store.get(id)).batch.status !== 'failed') await new Promise((resolve) => setTimeout(resolve, 5));
  const { batch } = await store.get(id);
  t.match(batch, { errors: { data: [{ code: 'disk_full', line: null }] }, request_counts: { total: 40, failed: 0 } });
  const { completed } = batch.request_counts;
  const { bytes } = await files.get(batch.output_file_id!, { name: 'ann', has: (by) => by === 'ann' });
  t.ok(bytes <= 30_000 && completed > 0 && order.length <= completed + 1, `${completed} lines, ${bytes} bytes`);
  t.equal(readFileSync(await files.pathOf(batch.output_file_id!), 'utf8').trim().split('\n').length, completed);
  t.ok((await files.room('bob')).bytes >= 30_000);
});

t.test('results reserve room in pieces, which count while they are written', async (t) => {
  const files = new FileStore(new KeptFolder(ownFolder(t)), { files: 10, bytes: 25_600, fileBytes: 25_600 });
  t.equal(files.pieceBytes, 100);
  const room = new GrowingRoom(files, 'ann');
  const left = async (): Promise<number> => {
    const one = await files.room('ann', 0);
    one.release();
    return one.bytes;
  };
  await Promise.all([room.take(40), room.take(40)]);
  t.equal(await left(), 12_700);
  await room.take(500);
  t.equal(await left(), 12_300, 'a line longer than a piece');
  await t.rejects(room.take(13_000), { code: 'disk_full' });
  t.equal(await left(), 12_800, 'what does not fit takes nothing');
});

t.test('a damaged record is no batch, hides no other, and is reported once', async (t) => {
  const started = await start(t);
  const { client, app, folder } = started;
  const [good, bad] = [await create(started, [line('a')]), await create(started, [line('b')])];
  for (const { id } of [good, bad]) await ended(client, id);
  const path = join(folder, 'batches', `${bad.id}.json`);
  // The server may still write the record of a batch that has ended, until it gives back the lock.
  while (existsSync(path.replace('.json', '.lock'))) await new Promise((resolve) => setTimeout(resolve, 10));
  const record = JSON.parse(readFileSync(path, 'utf8')) as BatchRecord;
  const { batch } = record;
  for (const wrong of [{}, null, [], { ...record, batch: null }, { ...record, outputId: 5 }, { ...record, batch: { ...batch, created_at: 'x' } }, { ...record, batch: { ...batch, id: good.id } },
    { ...record, batch: { ...batch, status: 'x' } }, { ...record, batch: { ...batch, request_counts: null } }, { ...record, batch: { ...batch, errors: {} } },
    { ...record, outputId: '../x', batch: { ...batch, status: 'in_progress' } }, { ...record, errorId: 5 }]) {
    writeFileSync(path, JSON.stringify(wrong));
    t.strictSame((await client.batches.list()).data.map(({ id }) => id), [good.id], JSON.stringify(wrong));
    await t.rejects(client.batches.retrieve(bad.id), { status: 404, code: 'batch_not_found' });
  }
  t.equal(app.logged.filter((text) => /^warn A batch is left out, because its record .* is damaged: it does not have the fields of a batch$/.test(text)).length, 1);
  writeFileSync(path, JSON.stringify(record));
  t.equal((await client.batches.list()).data.length, 2, 'a mended one is back');
});

t.test('what killed servers left of batches is removed, and what batches need stays', async (t) => {
  const kept = new KeptFolder(ownFolder(t));
  const folder = await kept.of('batches');
  const store = new BatchStore(kept);
  const names: string[] = [];
  for (const [i, status] of (['in_progress', 'completed', 'damaged', 'unrecorded'] as const).entries()) {
    const record = readBatch(Fields.of({ input_file_id: 'x', endpoint: chat, completion_window: '24h' }));
    const id = record.batch.id = `batch_${String(i).padStart(48, '0')}`;
    if (status === 'in_progress' || status === 'completed') await store.put({ ...record, batch: { ...record.batch, status } });
    if (status === 'damaged') writeFileSync(join(folder, `${id}.json`), '{');
    for (const ending of ['input', 'cancel', 'json.12345', 'lock.5b1a']) writeFileSync(join(folder, `${id}.${ending}`), '');
    if (status !== 'unrecorded') names.push(`${id}.json`);
    if (status === 'in_progress' || status === 'damaged') names.push(`${id}.input`, `${id}.cancel`);
  }
  const before = readdirSync(folder);
  await store.removeLeftOvers();
  t.strictSame(readdirSync(folder), before, 'not what is new');
  await store.removeLeftOvers(Date.now() + 2 * 3_600_000);
  t.strictSame(readdirSync(folder).sort(), names.sort());
});

t.test('with too many batches, the key that has the most loses its oldest', async (t) => {
  const store = new BatchStore(new KeptFolder(ownFolder(t)), 4);
  const put = async (by: string, second: number): Promise<void> => {
    const record = readBatch(Fields.of({ input_file_id: 'x', endpoint: chat, completion_window: '24h' }));
    await store.forgetOldest();
    await store.put({ ...record, batch: { ...record.batch, status: 'failed', created_at: second }, by });
  };
  await put('ann', 1);
  for (let second = 2; second < 9; second++) await put('bob', second);
  t.strictSame((await store.list()).map(({ by, batch }) => [by, batch.created_at]), [['bob', 8], ['bob', 7], ['bob', 6], ['ann', 1]]);
});

t.test('a batch whose key cannot be read for a moment is not listed for an admin', async (t) => {
  const store = new BatchStore(new KeptFolder(ownFolder(t)));
  const record = readBatch(Fields.of({ input_file_id: 'x', endpoint: chat, completion_window: '24h' }));
  await store.put({ ...record, by: 'ann' });
  const { open } = promises;
  const restore = (): void => {
    promises.open = open;
    syncBuiltinESMExports();
  };
  t.teardown(restore);
  let failed = 0;
  promises.open = async (...args) => {
    if (failed++ === 0) throw Object.assign(new Error('too many open files'), { code: 'EMFILE', errno: -24 });
    return await open(...args);
  };
  syncBuiltinESMExports();
  const root = ownerWith({ name: 'root', admin: true });
  t.strictSame([await store.list(root), failed], [[], 1]);
  restore();
  t.strictSame(await store.list(root), []);
  t.equal((await store.list(ownerWith({ name: 'ann', admin: false }))).length, 1);
});

t.test('many requests for the list of batches share one reading', async (t) => {
  const kept = new KeptFolder(ownFolder(t));
  const store = new BatchStore(kept);
  for (let at = 0; at < 3; at++) await store.put(readBatch(Fields.of({ input_file_id: 'x', endpoint: chat, completion_window: '24h' })));
  let looks = 0;
  const { of } = kept;
  kept.of = async (name) => (looks++, await of.call(kept, name));
  const lists = await Promise.all(Array.from({ length: 20 }, () => store.list()));
  t.strictSame(lists.map(({ length }) => length), Array(20).fill(3));
  t.ok(looks <= 8, `${looks} looks`);
});

t.test('a line that is not valid UTF-8 is named', async (t) => {
  const { client } = await start(t);
  const bytes = Buffer.concat([Buffer.from(JSON.stringify(line('a')).slice(0, -4)), Buffer.from([0xff]), Buffer.from('"}]}}')]);
  const file = await client.files.create({ file: await toFile(bytes, 'in.jsonl'), purpose: 'batch' });
  const { id } = await client.batches.create({ input_file_id: file.id, endpoint: chat, completion_window: '24h' });
  t.match(await ended(client, id), { status: 'failed', errors: { data: [{ code: 'invalid_json', line: 1, message: 'The line is not valid UTF-8.' }] } });
});

t.test('a server leaves a batch alone whose models only another server has', async (t) => {
  const keepIn = ownFolder(t);
  const one = await start(t, keepIn);
  one.app.engine.script = hang;
  const asks = (model: string): object => line('x', { model });
  await create(one, [asks('owner/model')]);
  await until(() => one.app.engine.running.size === 1);
  const { id } = await create(one, [asks('nobody/has-it'), asks('owner/model')].map((each, i) => ({ ...each, custom_id: String(i) })));
  const two = await startApp(t, {}, new FakeEngine(), { keepIn, pool: new FakePool('other/model') });
  const client = new OpenAI({ baseURL: `${two.url}/v1`, apiKey: 'none', maxRetries: 0 });
  const own = await create({ ...one, client }, [asks('other/model')]);
  t.match((await ended(client, own.id)).request_counts, { completed: 1, failed: 0 });
  t.equal((await client.batches.retrieve(id)).status, 'validating');
  await one.app.close(0);
  await two.close(0);
  const again = await start(t, keepIn);
  t.match((await ended(again.client, id)).request_counts, { completed: 1, failed: 1 }, 'one of its models is here');
});

t.test('a batch of more different models than anybody looks for runs where it is', async (t) => {
  const keepIn = ownFolder(t);
  const one = await start(t, keepIn);
  one.app.engine.script = hang;
  await create(one, [line('x', { model: 'owner/model' })]);
  await until(() => one.app.engine.running.size === 1);
  const lines = (count: number): object[] => Array.from({ length: count }, (_, i) => ({ ...line('x', { model: `nobody/${i}` }), custom_id: String(i) }));
  const few = await create(one, lines(20));
  const many = await create(one, lines(21));
  await one.app.close(0);
  const again = await start(t, keepIn);
  t.match((await ended(again.client, many.id)).request_counts, { completed: 0, failed: 21 });
  t.equal((await again.client.batches.retrieve(few.id)).status, 'validating', 'another server may have one of its models');
});
