// Requests of several clients, taken in turn by the engine's loop.
import t from 'tap';
import { WaitingQueue } from '#recua/engine/loop/waiting-queue.js';
import { Sequence } from '#recua/engine/planning/sequence.js';
import type { BegunAnswer } from '#recua/engine/protocol.js';
import { completion, openEngine, sampling, say, turn } from '../requests.js';

const asker = (client: string, priority = 0) => ({ asker: { client, priority } });

t.test('many requests of one client do not delay those of another', async (t) => {
  const open = await openEngine({}, { parallel: 1 });
  const order: string[] = [];
  const ask = (client: string, priority?: number) => open.complete(completion(`${client} asks`, { constraint: say('well'), ...asker(client, priority) })).done.then(() => order.push(client));
  const all = [...Array.from({ length: 6 }, () => ask('one')), ask('late', -1), ask('two'), ask('two'), ask('urgent', 1)];
  await Promise.all(all);
  t.equal(order.length, 10);
  t.ok(order.indexOf('two') <= 4 && order.lastIndexOf('two') <= 6, order.join(' '));
  t.ok(order.indexOf('urgent') <= 3, order.join(' '));
  t.equal(order.at(-1), 'late');
  await open.engine.close();
  t.strictSame(open.addon.violations, []);
});

t.test('each request learns its place', async (t) => {
  const open = await openEngine({ decodeMs: 1 }, { parallel: 2 });
  const asked = Array.from({ length: 5 }, (_, i) => open.complete(completion(`number ${i}`, { constraint: say('a long answer to that'), ...asker('one') })));
  await Promise.all(asked.map(({ done }) => done));
  const places = open.messages.flat().flatMap((event) => (event.kind === 'accepted' ? [event.position] : []));
  t.strictSame(places.sort(), [0, 0, 1, 2, 3]);
  await open.engine.close();
});

t.test('if the queue is full, the client with the most requests in it gives way to one with few', async (t) => {
  const open = await openEngine({}, { parallel: 1, queueSize: 4 });
  const ask = (client: string) => open.complete(completion(`${client} asks`, { constraint: say('x'.repeat(500)), maxTokens: 500, ...asker(client) })).done;
  const accepted = async (count: number) => {
    while (open.messages.flat().filter(({ kind }) => kind === 'accepted').length < count) await turn();
  };
  const many = Array.from({ length: 5 }, () => ask('many'));
  await accepted(5);
  const few = ask('few');
  await accepted(6);
  const again = ask('few');
  await accepted(7);
  const third = ask('few');
  const ends = await Promise.all([...many, few, again, third].map(async (one) => {
    const { end } = await one;
    return end.kind === 'error' ? end.error.code : end.kind;
  }));
  t.equal(ends.filter((end) => end === 'done').length, 5, 'as many as have room');
  t.strictSame(ends.slice(5), ['done', 'done', 'queue_full'], 'each has half of it');
  t.strictSame(ends.slice(0, 5).filter((end) => end === 'queue_full').length, 2);
  await open.engine.close();
  t.match(open.addon.stats, { openSamplers: 0, openParsers: 0, openContexts: 0 });
});

t.test('if the queue is full, idle work takes no place from other requests, nor they from idle work', async (t) => {
  const open = await openEngine({}, { parallel: 1, queueSize: 4 });
  const ask = async (client: string, priority: number, maxTokens = 50) => {
    const { end } = await open.complete(completion(`${client} asks`, { constraint: say('x'.repeat(maxTokens)), maxTokens, ...asker(client, priority) })).done;
    return `${client} ${priority} ${end.kind === 'error' ? end.error.code : end.kind}`;
  };
  const count = (what: string) => open.messages.flat().filter(({ kind }) => kind === what).length;
  const first = ask('zero', 0, 1_900);
  while (count('started') < 1) await turn();
  const idle = Array.from({ length: 4 }, () => ask('many', -1));
  const others = ['many', 'many', 'one', 'one'].map((client) => ask(client, 0));
  while (count('accepted') < 9) await turn();
  t.strictSame(await Promise.all([first, ...idle, ...others, ask('two', -1), ask('one', 0), ask('three', 0)]), [
    'zero 0 done',
    'many -1 done', 'many -1 done', 'many -1 done', 'many -1 queue_full',
    'many 0 done', 'many 0 queue_full', 'one 0 done', 'one 0 done',
    'two -1 done', 'one 0 queue_full', 'three 0 done',
  ]);
  await open.engine.close();
  t.match(open.addon.stats, { openSamplers: 0, openParsers: 0, openContexts: 0 });
});

t.test('the last request of a client gives way, not one that takes long to prepare, nor an urgent one', async (t) => {
  const open = await openEngine({}, { parallel: 1, queueSize: 4 });
  const { model } = open.loaded;
  const { tokenize } = model;
  let begin!: () => void;
  const begun = new Promise<void>((resolve) => (begin = resolve));
  model.tokenize = async (text, ...given) => {
    if (text === 'slow') await begun;
    return await tokenize.call(model, text, ...given);
  };
  const ask = (name: string, client: string, priority = 0) =>
    open.complete(completion(name, { constraint: say('x'.repeat(500)), maxTokens: 500, ...asker(client, priority) })).done;
  const many = [ask('slow', 'many'), ask('first', 'many'), ask('second', 'many'), ask('third', 'many'), ask('urgent', 'many', 1)];
  while (open.messages.flat().filter(({ kind }) => kind === 'accepted').length < 4) await turn();
  const few = ask('few', 'few');
  begin();
  const ends = await Promise.all([...many, few].map(async (one) => (await one).end.kind));
  t.strictSame(ends, ['done', 'done', 'done', 'error', 'done', 'done']);
  await open.engine.close();
});

t.test('a request that waits too long is refused with that reason; a running one is not', async (t) => {
  const open = await openEngine({}, { parallel: 1, queueTimeoutMs: 1 });
  const long = open.complete(completion('first', { constraint: say('x'.repeat(1_900)), maxTokens: 1_900 }));
  while (!open.messages.flat().some(({ kind }) => kind === 'started')) await turn();
  const late = open.complete(completion('second', { constraint: say('never') }));
  t.match((await late.done).end, { kind: 'error', error: { code: 'queue_timeout', message: /waited 0\.001 s/ } });
  t.match((await long.done).end, { kind: 'done' });
  t.match((await open.complete(completion('third', { constraint: say('well') })).done).end, { kind: 'done' }, 'the next is served');
  await open.engine.close();
  t.match(open.addon.stats, { openSamplers: 0, openParsers: 0, openContexts: 0 });
});

t.test('only requests that find every place taken wait too long', async (t) => {
  const late: Sequence[] = [];
  const queue = new WaitingQueue(1, (sequence) => late.push(sequence));
  const [first, second, third] = [0, 1, 2].map(() => new Sequence(Int32Array.of(1), 100, 1_000));
  const passes = async (): Promise<void> => await new Promise((resolve) => setTimeout(resolve, 20));
  queue.add(first!, undefined, performance.now());
  await passes();
  t.strictSame(late, [], 'the loop had no time to look for a place');
  queue.looked(false);
  await passes();
  t.strictSame(late, [], 'it waits for another one, whose prompt it shares');
  queue.looked(true);
  while (late.length < 1) await passes();
  queue.add(second!, undefined, performance.now() + 5);
  queue.add(third!, { client: 'one', priority: 0, follows: true }, performance.now());
  queue.looked(true);
  while (late.length < 2) await passes();
  t.strictSame(late, [first, second]);
  t.strictSame(queue.sequences, [third]);
  queue.close();
});

t.test('requests that are prepared late, as their samplers are large, have waited since they arrived', async (t) => {
  const timeoutMs = 300;
  const open = await openEngine({ stepMs: 1 }, { parallel: 1, queueTimeoutMs: timeoutMs });
  const long = open.complete(completion('first', { constraint: say('x'.repeat(1_900)), maxTokens: 1_900 }));
  while (!open.messages.flat().some(({ kind }) => kind === 'started')) await turn();
  const dry = { ...sampling, dryMultiplier: 0.8 };
  const endsMs = await Promise.all(Array.from({ length: 9 }, async () => {
    const { end } = await open.complete(completion('late', { constraint: say('never'), sampling: dry })).done;
    t.match(end, { kind: 'error', error: { code: 'queue_timeout' } });
    return performance.now();
  }));
  t.ok(Math.max(...endsMs) - Math.min(...endsMs) < timeoutMs, 'they do not wait for each other');
  open.engine.cancel(long.id);
  await open.engine.close();
  t.match(open.addon.stats, { openSamplers: 0, openParsers: 0, openContexts: 0 });
});

t.test('priority goes before requests that wait to be prepared', async (t) => {
  const open = await openEngine({ stepMs: 1 }, { parallel: 1 });
  const order: string[] = [];
  const ask = (name: string, priority: number) => {
    const request = completion(name, { constraint: say('well'), sampling: { ...sampling, dryMultiplier: 0.8 }, ...asker('one', priority) });
    return open.complete(request).done.then(() => order.push(name));
  };
  const long = open.complete(completion('first', { constraint: say('x'.repeat(300)), maxTokens: 300 })).done;
  while (!open.messages.flat().some(({ kind }) => kind === 'started')) await turn();
  await Promise.all([long, ...Array.from({ length: 6 }, () => ask('flex', -1)), ask('usual', 0), ask('urgent', 1)]);
  t.strictSame(order.slice(0, 3), ['urgent', 'usual', 'flex']);
  await open.engine.close();
});

t.test('answers that ran in a process that died go first, wait as long as they must, and give no place away', async (t) => {
  // Idle work, such as the first that ran, takes no place in the queue.
  const open = await openEngine({}, { parallel: 1, queueSize: 2, queueTimeoutMs: 20 });
  const order: string[] = [];
  const ask = async (name: string, client: string, begun?: BegunAnswer) => {
    const { end } = await open.complete(completion(name, { constraint: say('x'.repeat(1_500)), maxTokens: 1_500, ...asker(client, name === 'ran' ? -1 : 0) }), begun).done;
    order.push(`${name} ${end.kind === 'error' ? end.error.code : end.kind}`);
  };
  const begun: BegunAnswer = {
    prompt: Int32Array.of(120),
    tokens: new Int32Array(0),
    draws: 0,
    exactly: true,
    endsThinking: false,
    arrivedMs: 9,
    startedMs: 8,
    firstMs: 0,
  };
  const running = ask('running', 'one');
  while (!open.messages.flat().some(({ kind }) => kind === 'started')) await turn();
  await Promise.all([running, ask('new', 'two'), ask('ran', 'many', begun), ask('ran, too', 'many', begun), ask('late', 'three')]);
  t.strictSame(order, ['late queue_full', 'new queue_timeout', 'running done', 'ran, too done', 'ran done']);
  await open.engine.close();
  t.match(open.addon.stats, { openSamplers: 0, openParsers: 0, openContexts: 0 });
});
