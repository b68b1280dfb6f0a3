// Long work leaves a part of the pool to short work.
import t from 'tap';
import { isLong, PoolShare, takesLong } from '#recua/engine/prompts/pool-share.js';
import { chat, completion, openEngine, sampling, say, turn } from '../requests.js';

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
  t.ok(isLong(Array.from({ length: 700 }, () => 'x'.repeat(100))));
});

t.test('a short request passes those with long texts, and a cancelled one leaves the queue', async (t) => {
  const open = await openEngine({ pooling: 'mean' }, { contextSize: 100_000 });
  const atLoad = open.addon.tokenized.length;
  const long = 'x'.repeat(70_000);
  const texts = [open.complete(completion(long, { maxTokens: 1 })), open.embed([long]), open.complete(completion(long, { maxTokens: 1 })), open.embed([long])];
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

t.test('large samplers are made only for requests that run or are next', async (t) => {
  const open = await openEngine({}, { parallel: 1 });
  const { model } = open.loaded;
  const createSampler = model.createSampler.bind(model);
  const living = new Set<number>();
  let most = 0;
  let made = 0;
  model.createSampler = async (options, prompt) => {
    const sampler = await createSampler(options, prompt);
    const id = made++;
    living.add(id);
    most = Math.max(most, living.size);
    const close = sampler.close.bind(sampler);
    sampler.close = () => {
      living.delete(id);
      close();
    };
    return sampler;
  };
  const dry = { sampling: { ...sampling, dryMultiplier: 1 }, maxTokens: 3 };
  const all = Array.from({ length: 10 }, (_, at) => open.complete(completion(`prompt ${at}`, dry)));
  const plain = open.complete(completion('another', { maxTokens: 3 }));
  open.engine.cancel(all[8]!.id);
  const ends = await Promise.all([...all, plain].map(async ({ done }) => (await done).end.kind));
  t.strictSame(ends, ['done', 'done', 'done', 'done', 'done', 'done', 'done', 'done', 'error', 'done', 'done']);
  t.equal(made, 10, 'none for the one that left');
  t.ok(most <= 4, `${most} of 10 at once: one runs, two wait, and one without DRY`);
  await open.engine.close();
});
