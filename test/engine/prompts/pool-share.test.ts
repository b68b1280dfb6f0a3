// Long work leaves a part of the pool to short work.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import t from 'tap';
import { isLong, PoolShare, takesLong } from '#recua/engine/prompts/pool-share.js';
import { chat, completion, openEngine, sampling, say, turn } from '../requests.js';
import { deferred } from '../../deferred.js';

t.test('two tasks run at once, the others in order of arrival', async (t) => {
  const share = new PoolShare();
  const [first, second] = await Promise.all([share.enter(), share.enter()]);
  const order: number[] = [];
  const later = [3, 4].map((n) => share.enter().then((leave) => { order.push(n); return leave; }));
  await turn();
  t.strictSame(order, []);
  first();
  (await later[0]!)();
  (await later[1]!)();
  t.strictSame(order, [3, 4]);
  second();
  await Promise.all([share.enter(), share.enter()]);
});

t.test('clients take turns, however many requests one has', async (t) => {
  const share = new PoolShare(2, 0);
  const inside: [name: string, leave: () => void][] = [];
  for (const name of ['ann 1', 'ann 2', 'ann 3', 'ann 4', 'bob 1', 'cat 1', 'bob 2']) {
    void share.enter(name.split(' ')[0]).then((leave) => inside.push([name, leave]));
  }
  for (let left = 0; left < 7; left++) {
    await turn();
    t.equal(inside.length, Math.min(7, left + 2));
    inside[left]![1]();
  }
  t.strictSame(inside.map(([name]) => name), ['ann 1', 'ann 2', 'bob 1', 'cat 1', 'ann 3', 'bob 2', 'ann 4']);
});

t.test('of many clients only the last are remembered, even if the share is never empty', async (t) => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const share = new PoolShare();
  await share.enter('always');
  const heldBytes = () => {
    collect();
    return process.memoryUsage().heapUsed;
  };
  const before = heldBytes();
  for (let client = 0; client < 20_000; client++) (await share.enter(String(client).padEnd(1_000)))();
  const grown = heldBytes() - before;
  t.ok(grown < 8_000_000, `${grown} bytes`);
  t.ok(share);
});

t.test('slow work keeps only its own client waiting', async (t) => {
  const share = new PoolShare(2, 2);
  const inside: string[] = [];
  const enter = (client: string) => share.enter(client).then((leave) => (inside.push(client), leave));
  const held = [await enter('ann'), await enter('ann')];
  void enter('ann');
  const others = [enter('bob'), enter('cat'), enter('dan')];
  await turn();
  t.strictSame(inside, ['ann', 'ann']);
  // The engine's timers keep no process alive.
  const alive = setInterval(() => undefined, 100);
  t.teardown(() => clearInterval(alive));
  const leaves = await Promise.all(others.slice(0, 2));
  t.strictSame(inside, ['ann', 'ann', 'bob', 'cat'], 'after a second');
  await turn();
  t.equal(inside.length, 4, 'so many at most');
  held[0]!();
  await turn();
  t.equal(inside.length, 4, 'two are quick already');
  leaves[0]!();
  await others[2];
  t.strictSame(inside.slice(4), ['dan']);
});

t.test('who leaves the queue needs no turn', async (t) => {
  const share = new PoolShare(1, 0);
  const leave = await share.enter('ann');
  let stop = (): void => undefined;
  const gone = share.enter('bob', (stopWaiting) => { stop = stopWaiting; });
  const next = share.enter('cat');
  stop();
  (await gone)();
  let entered = false;
  void next.then(() => { entered = true; });
  await turn();
  t.equal(entered, false, 'and takes no place');
  leave();
  (await next)();
  (await share.enter('bob'))();
});

t.test('a client whose requests are all being prepared leaves room in the queue for others', async (t) => {
  const open = await openEngine({}, { parallel: 1, queueSize: 5 });
  const { model } = open.loaded;
  const createSampler = model.createSampler.bind(model);
  const { promise: released, resolve: release } = deferred();
  model.createSampler = async (options, prompt) => {
    if (options.grammar?.startsWith('say:')) await released;
    return await createSampler(options, prompt);
  };
  const asked = (client: string, number: number) => open.complete(completion(`${client} ${number}`, { constraint: say('yes'), maxTokens: 1, asker: { client, priority: 0 } }));
  const all = Array.from({ length: 6 }, (_, number) => asked('ann', number));
  const more = asked('ann', 7);
  t.match((await more.done).end, { kind: 'error', error: { code: 'queue_full' } });
  const bob = open.complete(completion('bob', { maxTokens: 1, asker: { client: 'bob', priority: 0 } }));
  t.match((await bob.done).end, { kind: 'done' });
  t.match((await all[5]!.done).end, { kind: 'error', error: { code: 'queue_full', message: /gave its place/ } });
  release();
  for (const { done } of all.slice(0, 5)) t.match((await done).end, { kind: 'done' });
  await open.engine.close();
  t.strictSame(open.addon.violations, []);
});

t.test('embeddings: clients take turns, and one leaves room in the queue for others', async (t) => {
  const open = await openEngine({ pooling: 'mean' }, { queueSize: 5 });
  const ended: string[] = [];
  const follow = (name: string, { done }: { done: Promise<{ end: { kind: string } }> }) => done.then(({ end }) => { ended.push(`${name} ${end.kind}`); });
  // One text fills a call.
  const text = 'x'.repeat(1_000);
  const all = Array.from({ length: 6 }, (_, number) => follow(`ann ${number}`, open.embed([text, text], 'ann')));
  const bob = follow('bob', open.embed([text], 'bob'));
  await Promise.all([...all, bob]);
  t.equal(ended[0], 'ann 5 error', 'gave its place');
  t.ok(ended.indexOf('bob embedded') < 3, ended.join(', '));
  await open.engine.close();
});

t.test('embeddings: short texts of a client fill a call beside a text that needs its own', async (t) => {
  const open = await openEngine({ pooling: 'mean' }, { contextSize: 5_000 });
  const calls: Record<string, number> = {};
  const follow = (client: string, texts: string[]) =>
    open.embed(texts, client).done.then(() => {
      calls[client] = open.addon.stats.embedCalls;
    });
  const texts = (text: string) => Array.from({ length: 8 }, () => text);
  await Promise.all([follow('ann', texts('x'.repeat(1_500))), follow('bob', texts('y')), follow('cat', texts('z'.repeat(1_500)))]);
  // The next call may have begun by then.
  t.ok(calls['bob']! <= 3, JSON.stringify(calls));
  t.ok(calls['ann']! >= 16 && calls['cat']! >= 16, 'the long ones take turns');
  await open.engine.close();
});

t.test('embeddings: a client that holds millions of tokens has no further long text tokenized', async (t) => {
  const open = await openEngine({ pooling: 'mean', contextTrain: 10_000_000 }, { contextSize: 10_000_000 });
  const atLoad = open.addon.tokenized.length;
  const many = open.embed([new Int32Array(9_000_000).fill(100)], 'ann');
  while (open.addon.stats.embedCalls === 0) await Promise.resolve().then(turn);
  const long = 'x'.repeat(70_000);
  const [next, gone, other, short] = [open.embed([long], 'ann'), open.embed([long], 'ann'), open.embed([long], 'bob'), open.embed(['x'], 'ann')];
  for (let i = 0; i < 20; i++) await Promise.resolve();
  t.equal(open.addon.tokenized.length - atLoad, 2, 'those of others are, and short ones');
  open.engine.cancel(gone.id);
  t.match((await gone.done).end, { error: { code: 'cancelled' } });
  for (const { done } of [many, next, other, short]) t.match((await done).end, { kind: 'embedded' });
  t.equal(open.addon.tokenized.length - atLoad, 3, 'not of who left');
  await open.engine.close();
});

t.test('many characters, grammars, schemas and tools count as long', async (t) => {
  t.notOk(takesLong(chat('hello')));
  t.notOk(takesLong(completion('hello')));
  t.notOk(takesLong({ ...chat('hello'), templateKwargs: { reasoning_effort: 'low' } }));
  t.ok(takesLong(completion('x'.repeat(70_000))));
  t.ok(takesLong(chat('x'.repeat(70_000))));
  t.ok(takesLong({ ...chat('hello'), templateKwargs: { text: 'x'.repeat(70_000) } }));
  t.ok(takesLong(completion('hello', { constraint: say('hello') })));
  t.ok(takesLong({ ...chat('hello'), prediction: 'x'.repeat(70_000) }));
  for (const infill of [{ prefix: 'x'.repeat(70_000), suffix: '', extra: [] }, { prefix: '', suffix: '', extra: [{ filename: 'a', text: 'x'.repeat(70_000) }] }]) t.ok(takesLong(completion('', { infill })));
  t.ok(takesLong(completion('hello', { sampling: { ...sampling, dryMultiplier: 1 } })));
  const turns = (count: number) => JSON.stringify(Array.from({ length: count }, () => ({ role: 'user', content: 'x' })));
  t.notOk(takesLong({ ...chat('hello'), messages: turns(50) }));
  t.ok(takesLong({ ...chat('hello'), messages: turns(70) }));
  t.ok(isLong(Array.from({ length: 700 }, () => 'x'.repeat(100))));
});

t.test('a short request passes those with long texts, and a cancelled one leaves the queue', async (t) => {
  const open = await openEngine({ pooling: 'mean' }, { contextSize: 100_000 });
  const atLoad = open.addon.tokenized.length;
  const long = 'x'.repeat(70_000);
  const texts = [
    open.complete(completion(long, { maxTokens: 1 })),
    open.embed([long]),
    open.complete(completion(long, { maxTokens: 1 })),
    open.embed([long]),
  ];
  const short = open.complete(completion('hello', { maxTokens: 1 }));
  for (let i = 0; i < 20; i++) await Promise.resolve();
  t.equal(open.addon.tokenized.length - atLoad, 3, 'two long texts and the short one');
  open.engine.cancel(texts[2]!.id);
  t.match((await short.done).end, { kind: 'done' });
  const ends = await Promise.all(texts.map(async ({ done }) => (await done).end));
  t.match(ends[0], { kind: 'done' });
  t.match(ends[2], { kind: 'error', error: { code: 'cancelled' } });
  await open.engine.close();
  t.equal(open.addon.tokenized.length - atLoad, 4, 'nothing is done for who left');
});

t.test('a query counts once for each document that it is read beside', async (t) => {
  const open = await openEngine({ pooling: 'rank' }, { contextSize: 100_000 });
  const atLoad = open.addon.tokenized.length;
  const many = Array.from({ length: 4 }, () => open.rerank('x'.repeat(1_000), Array.from({ length: 70 }, () => 'y'), 'ann'));
  const short = open.rerank('hello', ['y'], 'bob');
  for (let i = 0; i < 5; i++) await Promise.resolve();
  t.equal(open.addon.tokenized.length - atLoad, 6, 'query and document of two of them and of the short one');
  t.match((await short.done).end, { kind: 'embedded' });
  for (const { done } of many) t.match((await done).end, { kind: 'embedded' });
  await open.engine.close();
});

t.test('grammars, schemas and tools that compile slowly delay no other request', async (t) => {
  const open = await openEngine({}, { parallel: 4 });
  const { model } = open.loaded;
  const createSampler = model.createSampler.bind(model);
  const held: (() => void)[] = [];
  model.createSampler = async (options, prompt) => {
    if (options.grammar?.startsWith('say:')) await new Promise<void>((release) => held.push(release));
    return await createSampler(options, prompt);
  };
  const ended: string[] = [];
  const follow = (name: string, { done }: { done: Promise<{ end: { kind: string } }> }) => done.then(({ end }) => { ended.push(`${name} ${end.kind}`); });
  const slow = [0, 1, 2, 3, 4, 5].map((n) => follow('slow', open.complete(completion(`prompt ${n}`, { constraint: say('yes') }))));
  // More than the pool has threads, one after another, and a chat.
  for (let n = 0; n < 5; n++) await follow('short', open.complete(completion(`hello ${n}`, { maxTokens: 2 })));
  await follow('short', open.chat(chat('hello', { maxTokens: 2 })));
  t.strictSame(ended, Array.from({ length: 6 }, () => 'short done'), 'while not one of the grammars is compiled');
  t.equal(held.length, 2, 'so many are compiled at once');
  while (ended.length < 12) {
    held.shift()?.();
    await turn();
  }
  await Promise.all(slow);
  t.strictSame(ended.slice(6), Array.from({ length: 6 }, () => 'slow done'));
  await open.engine.close();
  t.strictSame(open.addon.violations, []);
});

/** An engine with one sequence, and how many samplers were made, and lived at once. */
async function openCounting(grammarBytes = 0) {
  const open = await openEngine({}, { parallel: 1 });
  const { model } = open.loaded;
  const createSampler = model.createSampler.bind(model);
  const living = new Set<number>();
  const count = { most: 0, made: 0 };
  model.createSampler = async (options, prompt) => {
    const sampler = await createSampler(options, prompt);
    const id = count.made++;
    living.add(id);
    count.most = Math.max(count.most, living.size);
    Object.assign(sampler, { grammarBytes });
    const close = sampler.close.bind(sampler);
    sampler.close = () => {
      living.delete(id);
      close();
    };
    return sampler;
  };
  return { open, count };
}

t.test('large samplers are made only for requests that run or are next', async (t) => {
  const { open, count } = await openCounting();
  const dry = { sampling: { ...sampling, dryMultiplier: 1 }, maxTokens: 3 };
  const all = Array.from({ length: 10 }, (_, at) => open.complete(completion(`prompt ${at}`, dry)));
  const plain = open.complete(completion('another', { maxTokens: 3 }));
  open.engine.cancel(all[8]!.id);
  const ends = await Promise.all([...all, plain].map(async ({ done }) => (await done).end.kind));
  t.strictSame(ends, ['done', 'done', 'done', 'done', 'done', 'done', 'done', 'done', 'error', 'done', 'done']);
  t.equal(count.made, 10, 'none for the one that left');
  t.ok(count.most <= 4, `${count.most} of 10 at once: one runs, two wait, and one without DRY`);
  await open.engine.close();
});

t.test('a grammar that becomes large is kept only for requests that run or are next', async (t) => {
  const { open, count } = await openCounting(2 ** 21);
  const all = Array.from({ length: 10 }, (_, at) => open.complete(completion(`prompt ${at}`, { constraint: say('well') })));
  const ends = await Promise.all(all.map(async ({ done }) => (await done).end.kind));
  t.strictSame(ends, all.map(() => 'done'));
  t.equal(count.made, 20, 'each is made to learn its size, and again when it is needed');
  t.ok(count.most <= 5, `${count.most} of 10 at once: one runs, two wait, and two are made`);
  await open.engine.close();
  t.match(open.addon.stats, { openSamplers: 0, openParsers: 0 });
});
