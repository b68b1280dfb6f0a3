// KV states on disk, over the real addon and the built-in model, each in a real engine process.
import t from 'tap';
import { execFileSync } from 'node:child_process';
import { mkdir, readdir, readFile, stat, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { builtinPath } from '#recua/models/store.js';
import { readState, readTokens, writeState } from '#recua/engine/loop/saved-state.js';
import { StateKeeper } from '#recua/engine/loop/state-keeper.js';
import { startEngine } from '#recua/engine/gateway/client.js';
import type { Engine } from '#recua/engine/api.js';
import { RecuaError } from '#recua/errors.js';
import { chat, options, sampling } from '../requests.js';

const question = 'Tell me about the mountains, and say how many llamas a pack train has on its way.';

/** An engine that may save states in this folder. */
async function withEngine<T>(stateFolder: string, work: (engine: Engine) => Promise<T>, more: Partial<typeof options> = {}): Promise<T> {
  const engine = startEngine({ ...options, modelPath: builtinPath, contextSize: 0, parallel: 1, ...more }, { stateFolder });
  try {
    await engine.ready();
    return await work(engine);
  } finally {
    await engine.close();
  }
}

async function answer(engine: Engine, messages: { role: 'user' | 'assistant'; content: string }[]) {
  const running = engine.chat({ ...chat(''), messages: JSON.stringify(messages), maxTokens: 24 });
  let content = '';
  for await (const delta of running) content += delta.content ?? '';
  return { content, usage: (await running.finished).usage };
}

t.test('a later process continues from a saved state without evaluating it again', async (t) => {
  const path = join(t.testdir(), 'chat.kv');
  const first = await withEngine(t.testdirName, async (engine) => {
    t.match(await engine.saveState(path), { tokens: 0 }, 'there is nothing to save before the first answer');
    await t.rejects(stat(path), 'and nothing is written');
    const given = await answer(engine, [{ role: 'user', content: question }]);
    return { ...given, saved: await engine.saveState(path) };
  });
  t.equal(first.usage.cachedTokens, 0);
  t.ok(first.saved.tokens >= first.usage.promptTokens, 'it covers the prompt and what was generated');
  t.equal((await stat(path)).mode & 0o777, 0o600);
  t.equal((await stat(path)).size, first.saved.sizeBytes);

  const next = [
    { role: 'user' as const, content: question }, { role: 'assistant' as const, content: first.content }, { role: 'user' as const, content: 'Hello! Who are you?' },
  ];
  const restored = await withEngine(t.testdirName, async (engine) => {
    t.match(await engine.restoreState(path), { tokens: first.saved.tokens, sizeBytes: first.saved.sizeBytes });
    return await answer(engine, next);
  });
  const fresh = await withEngine(t.testdirName, (engine) => answer(engine, next));
  t.ok(restored.usage.cachedTokens >= first.usage.promptTokens, 'the second turn reuses at least the first prompt');
  t.equal(fresh.usage.cachedTokens, 0);
  t.equal(restored.content, fresh.content, 'and says what it would have said');
});

t.test('while every sequence runs, no state is restored', async (t) => {
  const path = join(t.testdir(), 'chat.kv');
  await withEngine(t.testdirName, async (engine) => {
    await answer(engine, [{ role: 'user', content: question }]);
    await engine.saveState(path);
    const stop = new AbortController();
    const busy = engine.chat({ ...chat('Tell me about the mountains.'), maxTokens: 2_000, sampling: { ...sampling, ignoreEos: true } }, stop.signal);
    await busy[Symbol.asyncIterator]().next();
    t.match(await engine.restoreState(path), { tokens: 0, reason: /busy/, isBusy: true });
    stop.abort();
    await t.rejects(busy.finished);
    t.ok((await engine.restoreState(path)).tokens > 0);
  });
});

t.test('restoring a state leaves other conversations in memory', async (t) => {
  const path = join(t.testdir(), 'chat.kv');
  const other = [{ role: 'user' as const, content: 'Hello! Who are you? '.repeat(100) }];
  await withEngine(t.testdirName, async (engine) => {
    await answer(engine, [{ role: 'user', content: question.repeat(20) }]);
    const { tokens } = await engine.saveState(path);
    const { content } = await answer(engine, other);
    for (let i = 0; i < 3; i++) t.equal((await engine.restoreState(path)).tokens, tokens);
    const { usage } = await answer(engine, [...other, { role: 'assistant', content }, { role: 'user', content: 'And?' }]);
    t.ok(usage.cachedTokens > usage.promptTokens / 2, `${usage.cachedTokens} of ${usage.promptTokens}`);
  }, { parallel: 2, cacheRamMib: 100 });
  await withEngine(t.testdirName, async (engine) => {
    const { content } = await answer(engine, other);
    t.ok((await engine.restoreState(path)).tokens > 0, 'into the only sequence');
    const { usage } = await answer(engine, [...other, { role: 'assistant', content }, { role: 'user', content: 'And?' }]);
    t.ok(usage.cachedTokens > usage.promptTokens / 2, `${usage.cachedTokens} of ${usage.promptTokens}`);
  }, { cacheRamMib: 100 });
});

t.test('states are saved and restored one after the other, until the engine closes', async (t) => {
  const path = join(t.testdir(), 'chat.kv');
  await withEngine(t.testdirName, async (engine) => {
    await answer(engine, [{ role: 'user', content: question }]);
    const { tokens } = await engine.saveState(path);
    const ended: number[] = [];
    const all = await Promise.all(Array.from({ length: 40 }, async (_, at) => {
      const state = at % 4 === 0 ? await engine.saveState(`${path}.${at}`) : await engine.restoreState(path);
      ended.push(at);
      return state;
    }));
    t.strictSame(ended, Array.from({ length: 40 }, (_, at) => at), 'in order');
    t.match(all, Array.from({ length: 40 }, () => ({ tokens, reason: undefined })));
    t.equal((await engine.restoreState(path)).tokens, tokens);
  });
  let isClosing = false;
  const keeper = new StateKeeper({} as never, { freeSlots: 0 } as never, () => {
    if (isClosing) throw new RecuaError('shutting_down', 'The engine is stopping.');
  });
  const restore = async () => await keeper.restore({} as never, async (job) => await job(), path);
  t.match(await restore(), { tokens: 0, isBusy: true });
  const waiting = [restore(), restore()];
  isClosing = true;
  t.match(await Promise.allSettled(waiting), [{ reason: { code: 'shutting_down' } }, { reason: { code: 'shutting_down' } }]);
});

t.test('an unusable state is refused with its reason and changes nothing', async (t) => {
  const path = join(t.testdir(), 'chat.kv');
  await withEngine(t.testdirName, async (engine) => {
    await answer(engine, [{ role: 'user', content: question }]);
    await engine.saveState(path);
    await t.rejects(engine.saveState(join(path, 'chat.kv')), { code: 'store_unwritable', message: /^The saved state .*chat\.kv cannot be written: ENOTDIR/ });
  });
  const bytes = await readFile(path);
  await withEngine(t.testdirName, async (engine) => {
    t.match(await engine.restoreState(path), { tokens: 0, reason: /other settings/ });
  }, { cacheTypeK: 'q8_0', flashAttention: 'on' });
  await withEngine(t.testdirName, async (engine) => {
    await t.rejects(engine.restoreState(`${path}.not-there`), { code: 'file_unreadable' });
    await writeFile(path, bytes.subarray(0, bytes.length - 100));
    t.match(await engine.restoreState(path), { tokens: 0, reason: /damaged/ });
    const flipped = Buffer.from(bytes);
    flipped[bytes.length - 1000] = flipped[bytes.length - 1000]! ^ 0xff;
    await writeFile(path, flipped);
    t.match(await engine.restoreState(path), { tokens: 0, reason: /damaged/ });
    await writeFile(path, 'a poem');
    t.match(await engine.restoreState(path), { tokens: 0, reason: /no saved state/ });
    t.equal((await answer(engine, [{ role: 'user', content: question }])).usage.cachedTokens, 0);
    await writeFile(path, bytes);
    t.ok((await engine.restoreState(path)).tokens > 0, 'the sound one still serves');
  });
});

t.test('a state is written and read in pieces, whatever their size', async (t) => {
  const path = join(t.testdir(), 'pieces.kv');
  const state = Uint8Array.from({ length: 1000 }, (_, i) => (i * 7) & 0xff);
  const tokens = Int32Array.of(5, 6, 7);
  const pieces: number[] = [];
  const read = (offset: number, into: Uint8Array) => {
    pieces.push(into.length);
    into.set(state.subarray(offset, offset + into.length));
  };
  for (const pieceBytes of [1, 333, 500, 1000, 1 << 20]) {
    pieces.length = 0;
    const written = await writeState(path, 'mine', tokens, { sizeBytes: state.length, read }, pieceBytes);
    t.equal((await stat(path)).size, written);
    t.equal(Math.max(...pieces), Math.min(pieceBytes, state.length));
    const back = new Uint8Array(state.length);
    t.match(await readState(path, 'mine', (header) => {
      t.same(header, { tokens: 3, stateBytes: 1000 });
      return (offset, from) => back.set(from, offset);
    }, 97), { tokens, sizeBytes: written });
    t.same(back, state);
    t.equal(await readState(path, 'mine', () => 'it is too large'), 'it is too large');
    t.match(await readState(path, 'another', () => 'never asked'), /other settings/);
  }
  const bytes = await readFile(path);
  for (let at = 0; at < bytes.length; at += 13) {
    const changed = Buffer.from(bytes);
    changed[at] = changed[at]! ^ 0x10;
    await writeFile(path, changed);
    t.type(await readState(path, 'mine', () => () => {}), 'string', `byte ${at} changed`);
    await writeFile(path, bytes.subarray(0, at));
    t.type(await readState(path, 'mine', () => () => {}), 'string', `${at} bytes of it`);
  }
});

t.test('a file that claims billions of tokens, a pipe and a folder are refused at once', async (t) => {
  const folder = t.testdir();
  const path = join(folder, 'chat.kv');
  const tokens = 2 ** 31;
  const header = JSON.stringify({ fingerprint: 'mine', tokens, stateBytes: 1 });
  await writeFile(path, Buffer.concat([Buffer.from('RECUAKV2'), Buffer.from(Uint32Array.of(header.length).buffer), Buffer.from(header)]));
  await truncate(path, 12 + header.length + tokens * 4 + 1 + 32);
  t.match(await readTokens(path, 'mine', 4096), { why: /longer than the context/, foreign: true });
  t.match(await readTokens(path, 'another', 2 ** 20), { why: /other settings/, foreign: true });
  t.equal(await readState(path, 'mine', ({ tokens }) => `it has ${tokens} tokens`), `it has ${tokens} tokens`);
  await mkdir(join(folder, 'folder'));
  await t.rejects(readState(join(folder, 'folder'), 'mine', () => 'never asked'), { code: 'file_unreadable', message: /regular file/ });
  if (process.platform === 'win32') return;
  execFileSync('mkfifo', [join(folder, 'pipe')]);
  await t.rejects(readState(join(folder, 'pipe'), 'mine', () => 'never asked'), { code: 'file_unreadable', message: /regular file/ });
});

t.test('a state replaces no pipe or device', { skip: process.platform === 'win32' && 'Windows has no such files' }, async (t) => {
  const folder = t.testdir();
  const path = join(folder, 'pipe');
  execFileSync('mkfifo', [path]);
  await t.rejects(writeState(path, 'mine', new Int32Array(1), { sizeBytes: 10, read: () => {} }), { message: /regular file/ });
  t.ok((await stat(path)).isFIFO());
  t.strictSame(await readdir(folder), ['pipe']);
});

t.test('a state that cannot be written leaves the old one, and no draft', async (t) => {
  const folder = t.testdir();
  const path = join(folder, 'chat.kv');
  await writeState(path, 'mine', new Int32Array(1), { sizeBytes: 10, read: () => {} });
  const before = await readFile(path);
  const breaks = (offset: number) => { if (offset > 0) throw new Error('the context is closed'); };
  await t.rejects(writeState(path, 'mine', new Int32Array(1), { sizeBytes: 10, read: breaks }, 5), /closed/);
  await mkdir(join(folder, 'taken'));
  await t.rejects(writeState(join(folder, 'taken'), 'mine', new Int32Array(1), { sizeBytes: 10, read: () => {} }));
  t.same(await readFile(path), before);
  t.same((await readdir(folder)).sort(), ['chat.kv', 'taken']);
});

t.test('forget() drops evaluated tokens', async (t) => {
  await withEngine(t.testdirName, async (engine) => {
    const messages = [{ role: 'user' as const, content: question }];
    await answer(engine, messages);
    t.ok((await answer(engine, messages)).usage.cachedTokens > 0);
    await engine.forget();
    t.equal((await answer(engine, messages)).usage.cachedTokens, 0);
  });
});
