// The embedder's context has as much room as the inputs need, and keeps what it has.
import t from 'tap';
import type { EmbedderOptions } from '#recua/addon/addon.js';
import { RecuaError } from '#recua/errors.js';
import { openEngine, turn } from '../requests.js';

async function openEmbedding(contextSize: number, metadata: Record<string, string> = {}) {
  const open = await openEngine({ pooling: 'mean', contextTrain: 1_000_000 }, { contextSize });
  const { model } = open.loaded;
  const sizes: number[] = [];
  const create = model.createEmbedder.bind(model);
  model.createEmbedder = async (options: EmbedderOptions) => {
    sizes.push(options.contextSize);
    return await create(options);
  };
  model.metadata = () => metadata;
  const embeds = async (...lengths: number[]): Promise<void> => {
    const { end, accepted } = await open.embed(lengths.map((length) => new Int32Array(length).fill(97))).done;
    t.equal(accepted, true, 'known to be innocent of a crash while it waits');
    t.match(end, { kind: 'embedded', tokenCounts: Int32Array.from(lengths) });
  };
  return { ...open, sizes, embeds };
}

t.test('a large context is opened only for a long input', async (t) => {
  const { addon, engine, sizes, embeds } = await openEmbedding(100_000);
  await embeds(1, 500);
  await embeds(4096);
  t.strictSame(sizes, [4096]);
  await embeds(3, 20_000);
  await embeds(30_000);
  await embeds(5);
  t.strictSame(sizes, [4096, 32_768]);
  await embeds(100_000);
  t.strictSame(sizes.slice(2), [100_000], 'no larger than the settings say');
  t.equal(addon.stats.openContexts, 2, 'the smaller ones are closed');
  await engine.close();
  t.equal(addon.stats.openContexts, 0);
  t.strictSame(addon.violations, []);
});

t.test('a small context, and one on which the vectors depend, are opened at once', async (t) => {
  const small = await openEmbedding(300);
  await small.embeds(10, 300);
  t.strictSame(small.sizes, [300]);
  await small.engine.close();
  const long = await openEmbedding(100_000, { 'phi3.rope.scaling.original_context_length': '4096' });
  await long.embeds(10);
  t.strictSame(long.sizes, [100_000]);
  await long.engine.close();
});

t.test('if there is no memory for a long input, short ones are still embedded', async (t) => {
  const { engine, loaded: { model }, embed, embeds } = await openEmbedding(100_000);
  const create = model.createEmbedder.bind(model);
  model.createEmbedder = async (options: EmbedderOptions) => {
    if (options.contextSize > 4096) throw new Error('no memory');
    return await create(options);
  };
  await embeds(10);
  t.match((await embed([new Int32Array(50_000).fill(97)]).done).end, { kind: 'error' });
  await embeds(10);
  await engine.close();
});

t.test('a context that has no room in memory is not opened, and the smaller one stays open', async (t) => {
  const { engine, loaded, sizes, embed, embeds } = await openEmbedding(100_000);
  const asked: number[] = [];
  let isFull = true;
  loaded.ensureVectorRoom = async (contextSize) => {
    asked.push(contextSize);
    if (isFull) throw new RecuaError('model_too_large', 'there is no room');
  };
  await embeds(10);
  for (let i = 0; i < 2; i++) {
    t.match((await embed([new Int32Array(50_000).fill(97)]).done).end, { kind: 'error', error: { code: 'model_too_large' } });
  }
  await embeds(10);
  t.strictSame([sizes, asked], [[4096], [65_536, 65_536]]);
  isFull = false;
  await embeds(50_000);
  t.strictSame(sizes, [4096, 65_536], 'it is asked for again');
  await engine.close();
});

t.test('of many requests of one client few have begun at a time, and small ones pass a big one', async (t) => {
  const { engine, embed, messages } = await openEmbedding(1_000);
  // One input of 600 tokens fills a call.
  const inputs = (count: number): Int32Array[] => Array.from({ length: count }, () => new Int32Array(600).fill(97));
  const all = [embed(inputs(40), 'one client')];
  while (messages.flat().length === 0) await turn();
  all.push(...[6, 6, 6, 1, 1].map((count) => embed(inputs(count), 'one client')));
  await Promise.all(all.map(({ done }) => done));
  const events = messages.flat().filter(({ kind }) => kind === 'started' || kind === 'embedded');
  let running = 0;
  let most = 0;
  for (const { kind } of events) most = Math.max(most, running += kind === 'started' ? 1 : -1);
  t.equal(most, 2, 'the oldest and the smallest');
  const ends = events.filter(({ kind }) => kind === 'embedded').map(({ id }) => all.findIndex((one) => one.id === id));
  t.strictSame(ends, [4, 5, 1, 2, 3, 0]);
  await engine.close();
});

t.test('idle work takes no place from other requests, nor they from idle work', async (t) => {
  const { engine, embed } = await openEngine({ pooling: 'mean' }, { queueSize: 3 });
  const ask = async (client: string, priority: number) => {
    const { end } = await embed([`${client} asks`], client, priority).done;
    return `${client} ${priority} ${end.kind === 'error' ? end.error.code : end.kind}`;
  };
  const all = [
    ...Array.from({ length: 4 }, () => ask('many', -1)), ...Array.from({ length: 4 }, () => ask('many', 0)),
    ask('many', -1), ask('two', -1), ask('three', 0),
  ];
  t.strictSame(await Promise.all(all), [
    'many -1 embedded', 'many -1 embedded', 'many -1 embedded', 'many -1 queue_full',
    'many 0 embedded', 'many 0 embedded', 'many 0 embedded', 'many 0 queue_full',
    'many -1 queue_full', 'two -1 embedded', 'three 0 embedded',
  ]);
  await engine.close();
});
