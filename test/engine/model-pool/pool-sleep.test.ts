// Models that make room for each other and keep their conversations: the built-in model under two
// names, in real processes.
import t, { type Test } from 'tap';
import { copyFileSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { startPool, type PoolSettings } from '#recua/engine/model-pool/pool.js';
import type { Catalogue } from '#recua/engine/model-pool/catalogue.js';
import type { ModelPool } from '#recua/engine/pool-api.js';
import { RecuaError } from '#recua/errors.js';
import { builtinPath } from '#recua/models/store.js';
import { until } from '../../cli/home.js';
import { chat, options } from '../requests.js';

type Said = { role: 'user' | 'assistant'; content: string }[];
const ids = ['a', 'b'];
const mib = 2 ** 20;

/** Room for one model, in more memory than it takes. */
function open(t: Test, settings: Partial<PoolSettings> = {}) {
  const parent = t.testdirName;
  mkdirSync(parent, { recursive: true });
  const fingerprints: Record<string, string> = { a: '1', b: '1' };
  const paths: Record<string, string> = { a: builtinPath, b: builtinPath };
  const listed = (id: string) => ({ id, key: id, aliases: [], createdSeconds: 7 });
  const catalogue: Catalogue = {
    list: async () => ids.map(listed),
    find: async (name = 'a') => {
      if (!ids.includes(name)) throw new RecuaError('model_not_found', `There is no ${name}.`);
      return listed(name);
    },
    plan: async ({ id }) => ({
      options: { ...options, modelPath: paths[id]!, contextSize: 0, parallel: 2 },
      needBytes: 100 * mib,
      fingerprint: fingerprints[id]!,
      keepAliveMs: 600_000,
      pinned: false,
    }),
    changeOf: async () => undefined,
  };
  const log: string[] = [];
  const pool = startPool(catalogue, {
    maxMemoryBytes: 4000 * mib, maxModels: 1, sleep: { limitBytes: 1000 * mib, parent, mostMs: 60_000 }, log: (level, text) => log.push(`${level} ${text}`), ...settings,
  });
  t.teardown(() => pool.close(0));
  let loads = 0;
  pool.onChange(({ state }) => {
    if (state.state === 'loaded') loads++;
  });
  return { pool, parent, fingerprints, paths, log, loads: () => loads };
}

/** The next turn; its answer is added to the conversation. */
async function turn(pool: ModelPool, id: string, said: Said, question: string, maxTokens = 16) {
  const lease = await pool.lease(id);
  try {
    said.push({ role: 'user', content: question });
    const answer = lease.engine.chat({ ...chat(''), messages: JSON.stringify(said), maxTokens });
    let content = '';
    for await (const delta of answer) content += delta.content ?? '';
    said.push({ role: 'assistant', content });
    return { content, usage: (await answer.finished).usage };
  } finally {
    lease.release();
  }
}

const questions = ['Tell me about the mountains.', 'How many llamas has a pack train?', 'Hello! Who are you?'];

t.test('turns after swaps give the same answers as without, and read nothing again', async (t) => {
  const { pool, log } = open(t);
  const together = open(t, { maxModels: 2 });
  const said: Record<string, Said> = { a: [], b: [] };
  const resident: Record<string, Said> = { a: [], b: [] };
  for (const question of questions) {
    for (const id of ids) {
      const swapped = await turn(pool, id, said[id]!, question);
      t.strictSame(swapped, await turn(together.pool, id, resident[id]!, question), `${id}: ${question}`);
    }
    t.match((await pool.list()).map(({ state }) => state.state), ['sleeping', 'loaded']);
  }
  t.strictSame(log.filter((line) => line.startsWith('warn')), []);
  t.match((await pool.unload('b')).state, { state: 'sleeping' });
});

t.test('a model without conversations does not sleep, nor does one when nothing is kept', async (t) => {
  const { pool } = open(t);
  await pool.load('a');
  t.match((await pool.unload('a')).state, { state: 'unloaded' });
  const none = open(t, { sleep: { limitBytes: 0 } });
  await turn(none.pool, 'a', [], questions[0]!);
  t.match((await none.pool.unload('a')).state, { state: 'unloaded' });
});

t.test('the limit applies across all models, and takes from the one that slept longest', async (t) => {
  const { pool, parent } = open(t);
  await turn(pool, 'a', [], questions[0]!);
  await pool.unload('a');
  const [file] = readdirSync(parent, { recursive: true }).map(String).filter((name) => name.endsWith('.kv'));
  const { size } = statSync(join(parent, file!));
  const small = open(t, { sleep: { limitBytes: size * 1.5, parent, mostMs: 60_000 } });
  const states = async () => (await small.pool.list()).map(({ state }) => state.state);
  await turn(small.pool, 'a', [], questions[0]!);
  await small.pool.unload('a');
  t.strictSame(await states(), ['sleeping', 'unloaded']);
  await turn(small.pool, 'b', [], questions[0]!);
  await small.pool.unload('b');
  t.strictSame(await states(), ['unloaded', 'sleeping']);
});

t.test('kept conversations are dropped when the file of their model changed', async (t) => {
  const { pool, parent, fingerprints, paths, log } = open(t);
  const said: Said = [];
  await turn(pool, 'a', said, questions[0]!);
  await pool.unload('a');
  const copy = join(parent, 'copy.gguf');
  copyFileSync(builtinPath, copy);
  Object.assign(fingerprints, { a: '2' });
  Object.assign(paths, { a: copy });
  t.equal((await turn(pool, 'a', said, questions[1]!)).usage.cachedTokens, 0);
  t.match(log.join('\n'), /warn a: its file or its settings changed/);
});

t.test('a changed model is loaded although its conversations cannot be dropped now', async (t) => {
  const { pool, parent, fingerprints } = open(t);
  await turn(pool, 'a', [], questions[0]!);
  await pool.unload('a');
  const [root] = readdirSync(parent);
  const [folder] = readdirSync(join(parent, root!)).filter((name) => name !== 'owner');
  rmSync(join(parent, root!, folder!), { recursive: true });
  // Not EMFILE, which would hit the test as well.
  writeFileSync(join(parent, root!, folder!), '');
  fingerprints['a'] = '2';
  t.ok((await turn(pool, 'a', [], questions[0]!)).content);
});

t.test('a load that cannot begin fails, and requests do not wait for it', async (t) => {
  const { pool } = open(t, { engines: { entry: new URL('http://no.file') } });
  for (let i = 0; i < 2; i++) await t.rejects(pool.lease('a'), { code: 'internal_error' });
  t.match(await pool.list(), [{ id: 'a', state: { state: 'failed' } }, { id: 'b', state: { state: 'unloaded' } }]);
});

t.test('close() removes everything', async (t) => {
  const { pool, parent } = open(t);
  await turn(pool, 'a', [], questions[0]!);
  await pool.unload('a');
  t.equal(readdirSync(parent).length, 1);
  await pool.close(0);
  t.strictSame(readdirSync(parent), []);
});

t.test('200 alternating requests of two clients with room for one: none fails, waits are bounded, turns after swaps read nothing again', async (t) => {
  const { pool, loads } = open(t);
  const loadsOf: Record<string, number> = { a: 0, b: 0 };
  pool.onChange(({ id, state }) => {
    if (state.state === 'loaded') loadsOf[id]!++;
  });
  const done = new Set<string>();
  let afterSwaps = 0;
  let longestWait = 0;
  const client = async (id: string, other: string): Promise<void> => {
    let said: Said = [];
    let evaluated = 0;
    let ownLoads = 0;
    for (let i = 0; i < 100; i++) {
      if (i % 5 === 0) said = [];
      // In the middle of a conversation it lets the other model have its turn.
      const seen = loadsOf[other]!;
      if (i % 20 === 12) await until(() => loadsOf[other]! > seen || done.has(other));
      const loadsAsked = loads();
      const { usage } = await turn(pool, id, said, questions[i % 3]!, 4);
      longestWait = Math.max(longestWait, loads() - loadsAsked);
      if (said.length > 2) {
        if (usage.cachedTokens < evaluated) throw new Error(`${id} ${i}: ${usage.cachedTokens} of ${evaluated} tokens were there`);
        if (loadsOf[id]! > ownLoads) afterSwaps++;
      }
      // The last token of an answer is never evaluated.
      evaluated = usage.promptTokens + usage.completionTokens - 1;
      ownLoads = loadsOf[id]!;
    }
    done.add(id);
  };
  await Promise.all([client('a', 'b'), client('b', 'a')]);
  t.ok(loads() >= 6 && loads() <= 40, `${loads()} loads`);
  t.ok(longestWait <= 2, `a request waited for ${longestWait} loads at most`);
  t.ok(afterSwaps >= 4, `${afterSwaps} turns went on after a swap`);
});
