// Long work leaves a part of the pool to those whose work is short.
import t from 'tap';
import { isLong, PoolShare, takesLong } from '#recua/engine/prompts/pool-share.js';
import { chat, completion, openEngine, say, turn } from '../requests.js';

t.test('two at once, the others in the order in which they came', async (t) => {
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

t.test('long are many characters, grammars, schemas and tools', async (t) => {
  t.notOk(takesLong(chat('hello')));
  t.notOk(takesLong(completion('hello')));
  t.notOk(takesLong({ ...chat('hello'), templateKwargs: { reasoning_effort: 'low' } }));
  t.ok(takesLong(completion('x'.repeat(70_000))));
  t.ok(takesLong(chat('x'.repeat(70_000))));
  t.ok(takesLong({ ...chat('hello'), templateKwargs: { text: 'x'.repeat(70_000) } }));
  t.ok(takesLong(completion('hello', { constraint: say('hello') })));
  t.ok(isLong(Array.from({ length: 700 }, () => 'x'.repeat(100))));
});

t.test('a short request passes those with long texts, and a cancelled one leaves the line', async (t) => {
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
