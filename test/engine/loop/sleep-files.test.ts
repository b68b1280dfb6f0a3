// Conversations that outlive their engine process, over the real addon and the built-in model, each
// in a real process.
import t, { type Test } from 'tap';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { NativeContext } from '#recua/addon/addon.js';
import { startEngine } from '#recua/engine/gateway/client.js';
import { writeState } from '#recua/engine/loop/saved-state.js';
import { SleepFiles } from '#recua/engine/loop/sleep-files.js';
import { PrefixCache } from '#recua/engine/planning/prefix.js';
import type { Stashed } from '#recua/engine/planning/stash-pool.js';
import type { Engine } from '#recua/engine/api.js';
import type { SleepPlace } from '#recua/engine/protocol.js';
import { builtinPath } from '#recua/models/store.js';
import { until } from '../../cli/home.js';
import { chat, options, sampling } from '../requests.js';
import { counted } from '../counted-tokens.js';

const place = (root: string, more: Partial<SleepPlace> = {}): SleepPlace => {
  const folder = join(root, 'model');
  mkdirSync(folder, { recursive: true });
  return { folder, root, limitBytes: 2 ** 30, mostMs: 60_000, ...more };
};
const files = ({ folder }: SleepPlace) => readdirSync(folder).map((name) => join(folder, name));

/** An engine process that sleeps at the end. */
async function live<T>(sleep: SleepPlace, work: (engine: Engine) => Promise<T>, more: Partial<typeof options> = {}, settings: Pick<Settings, 'watch'> = {}) {
  const log: string[] = [];
  const engine = startEngine({ ...options, modelPath: builtinPath, contextSize: 0, parallel: 2, sleep, ...more }, {
    ...settings,
    log: (level, text) => {
      if (/conversation/i.test(text)) log.push(`${level} ${text}`);
    },
  });
  try {
    await engine.ready();
    return { ...await work(engine), log };
  } finally {
    await engine.close(0, true);
  }
}

type Settings = NonNullable<Parameters<typeof startEngine>[1]>;
type Said = { role: 'user' | 'assistant'; content: string }[];

/** The next turn; its answer is added to the conversation. */
async function turn(engine: Engine, said: Said, question: string, maxTokens = 16) {
  said.push({ role: 'user', content: question });
  const answer = engine.chat({ ...chat(''), messages: JSON.stringify(said), maxTokens });
  let content = '';
  for await (const delta of answer) content += delta.content ?? '';
  said.push({ role: 'assistant', content });
  return { content, usage: (await answer.finished).usage };
}

/** Long enough that reading a file surely pays: short ones are evaluated again as fast. */
const long = (question: string) => `${question} `.repeat(180);
const questions = ['Tell me about the mountains.', 'How many llamas has a pack train?', 'Hello! Who are you?', 'Say it again.'];

t.test('each process continues where the last one was: the same answers, the same tokens reused', async (t) => {
  const sleep = place(t.testdir());
  const resident = await live(place(join(t.testdirName, 'other')), async (engine) => {
    const said: Said = [];
    const turns = [];
    for (const question of questions) turns.push(await turn(engine, said, question));
    return { turns };
  });
  const said: Said = [];
  for (const [i, question] of questions.entries()) {
    const { content, usage } = await live(sleep, (engine) => turn(engine, said, question));
    t.strictSame({ content, usage }, resident.turns[i], `turn ${i}`);
    t.equal(files(sleep).length, 1, 'one file: it replaces that of the turn before');
    if (process.platform !== 'win32') t.equal(statSync(files(sleep)[0]!).mode & 0o777, 0o600);
    if (i === 0) continue;
    const { promptTokens, completionTokens } = resident.turns[i - 1]!.usage;
    // The last token of an answer is never evaluated.
    t.ok(usage.cachedTokens >= promptTokens + completionTokens - 1, `${usage.cachedTokens} of ${promptTokens} + ${completionTokens}`);
  }
});

t.test('several conversations wake at once, beside a new one; the others stay asleep', async (t) => {
  const sleep = place(t.testdir());
  const all: Said[] = questions.map(() => []);
  await live(sleep, async (engine) => {
    for (const [i, said] of all.entries()) await turn(engine, said, long(questions[i]!));
    return {};
  }, { cacheRamMib: 100 });
  t.equal(files(sleep).length, 4, 'two of them from stashes, for there are two slots');
  const before = new Map(files(sleep).map((file) => [file, readFileSync(file)]));
  const { usages } = await live(sleep, async (engine) => {
    const turns = await Promise.all([turn(engine, all[0]!, 'Go on.'), turn(engine, all[1]!, 'Go on.'), turn(engine, [], 'Something else.'), turn(engine, all[2]!, 'Go on.')]);
    return { usages: turns.map(({ usage }) => usage) };
  }, { cacheRamMib: 100 });
  for (const i of [0, 1, 3]) t.ok(usages[i]!.cachedTokens > usages[i]!.promptTokens / 2, `${usages[i]!.cachedTokens} of ${usages[i]!.promptTokens}`);
  const same = files(sleep).filter((file) => before.get(file)?.equals(readFileSync(file)));
  t.ok(same.length >= 1, 'what was not asked for is not written again');
  const { usage } = await live(sleep, async (engine) => {
    const controller = new AbortController();
    const given = engine.chat({ ...chat(''), messages: JSON.stringify([...all[3]!, { role: 'user', content: 'Go on.' }]) }, controller.signal);
    await given.accepted;
    controller.abort();
    await t.rejects(given.finished, { code: 'cancelled' });
    return await turn(engine, all[3]!, 'Go on.');
  });
  t.ok(usage.cachedTokens > usage.promptTokens / 2, 'and is found after another process, and after one who gave up');
});

t.test('files are read in the order of the queue, not in that of their use', async (t) => {
  const sleep = place(t.testdir());
  const all: Said[] = Array.from({ length: 4 }, () => []);
  await live(sleep, async (engine) => {
    for (const [i, said] of all.entries()) await turn(engine, said, long(`${i} ${questions[i]!}`));
    return {};
  }, { cacheRamMib: 100 });
  const order: string[] = [];
  await live(sleep, async (engine) => {
    const runs = new AbortController();
    const running = engine.chat(chat('Hello! Who are you?', { maxTokens: 2_000, sampling: { ...sampling, ignoreEos: true } }), runs.signal);
    await running[Symbol.asyncIterator]().next();
    const ask = (i: number, client: string, priority: number) => {
      const answer = engine.chat(chat('', { maxTokens: 2, messages: JSON.stringify([...all[i]!, { role: 'user', content: 'Go on.' }]), asker: { client, priority } }));
      void answer.finished.then(() => order.push(client));
      return answer;
    };
    const asked = [ask(0, 'flex', -1), ask(3, 'first', 0), ask(1, 'second', 0), ask(2, 'urgent', 1)];
    for (const { accepted } of asked) await accepted;
    runs.abort();
    await running.finished.catch(() => undefined);
    for (const { finished } of asked) await finished;
    return {};
  }, { parallel: 1 });
  t.strictSame(order, ['urgent', 'first', 'second', 'flex']);
});

t.test('files that nobody waits for any more are not read', async (t) => {
  const sleep = place(t.testdir());
  const all: Said[] = Array.from({ length: 8 }, () => []);
  await live(sleep, async (engine) => {
    for (const [i, said] of all.entries()) await turn(engine, said, long(`${i} ${questions[i % 4]!}`));
    return {};
  }, { cacheRamMib: 100 });
  t.equal(files(sleep).length, 8);
  for (const stays of [0, 7]) {
    const { log } = await live(sleep, async (engine) => {
      const left = new AbortController();
      const ask = (i: number, signal?: AbortSignal) => engine.chat({ ...chat('', { maxTokens: 2 }), messages: JSON.stringify([...all[i]!, { role: 'user', content: 'Go on.' }]) }, signal);
      const leaving = all.flatMap((_, i) => (i === stays ? [] : [ask(i, left.signal)]));
      const staying = ask(stays);
      await Promise.all([staying, ...leaving].map(({ accepted }) => accepted));
      left.abort();
      await Promise.all(leaving.map(({ finished }) => finished.catch(() => undefined)));
      await staying.finished;
      return {};
    }, { parallel: 1 });
    const read = log.filter((line) => /read back/.test(line)).length;
    t.ok(read >= 1 && read <= 3, `${read} files were read`);
  }
});

t.test('close() without sleep writes nothing, and forget() forgets files', async (t) => {
  const sleep = place(t.testdir());
  const said: Said = [];
  await live(sleep, async (engine) => {
    await turn(engine, said, questions[0]!);
    await engine.close();
    return {};
  });
  t.strictSame(files(sleep), []);
  await live(sleep, (engine) => turn(engine, [], questions[0]!));
  t.equal(files(sleep).length, 1);
  await live(sleep, async (engine) => {
    await engine.forget();
    return {};
  });
  t.strictSame(files(sleep), []);
});

t.test('the limit keeps the most recently used', async (t) => {
  const sleep = place(t.testdir());
  const old: Said = [];
  const recent: Said = [];
  await live(sleep, (engine) => turn(engine, old, questions[0]!));
  const { size } = statSync(files(sleep)[0]!);
  const small = { ...sleep, limitBytes: size * 2.5 };
  await live(small, async (engine) => {
    await turn(engine, recent, questions[1]!);
    return await turn(engine, recent, questions[2]!);
  });
  t.equal(files(sleep).length, 1);
  const { old: first, recent: second } = await live(small, async (engine) => ({ old: await turn(engine, old, 'Go on.'), recent: await turn(engine, recent, 'Go on.') }));
  t.ok(second.usage.cachedTokens > second.usage.promptTokens / 2);
  t.ok(first.usage.cachedTokens < first.usage.promptTokens / 2);
  await live({ ...sleep, limitBytes: 100 }, (engine) => turn(engine, [], questions[3]!));
  t.ok(files(sleep).length > 0, 'what cannot fit at all drives nothing away');
});

t.test('a damaged file, and one of other settings, is dropped, reported and evaluated again', async (t) => {
  const sleep = place(t.testdir());
  const said: Said = [];
  const { content } = await live(sleep, (engine) => turn(engine, said, questions[0]!));
  const [file] = files(sleep);
  const bytes = readFileSync(file!);
  const damaged = Buffer.from(bytes);
  damaged[bytes.length - 1000]! ^= 0xff;
  for (const [what, wrong] of [['damaged', damaged], ['damaged', bytes.subarray(0, 2000)], ['no saved state', Buffer.from('a poem')]] as const) {
    rmSync(sleep.folder, { recursive: true });
    mkdirSync(sleep.folder);
    writeFileSync(file!, wrong);
    const again = await live(sleep, (engine) => turn(engine, [], questions[0]!));
    t.equal(again.content, content);
    t.equal(again.usage.cachedTokens, 0);
    t.match(again.log.join(), new RegExp(`warn A kept conversation must be evaluated again: .*${what}`));
    t.notOk(files(sleep).includes(file!), 'and the file is gone');
  }
  const other = await live(sleep, (engine) => turn(engine, [], questions[0]!), { cacheTypeK: 'q8_0', flashAttention: 'on' });
  t.equal(other.usage.cachedTokens, 0);
  t.match(other.log.join(), /other settings/);
});

t.test('a damaged file costs its own conversation only, and what no engine wrote is left alone', async (t) => {
  const sleep = place(t.testdir());
  const said: Said[] = [[], []];
  await live(sleep, async (engine) => {
    for (const [i, one] of said.entries()) await turn(engine, one, long(questions[i]!));
    return {};
  });
  t.equal(files(sleep).length, 2);
  for (const file of files(sleep)) {
    const bytes = readFileSync(file);
    const sound = Buffer.from(bytes);
    bytes.writeUInt32LE(0xffffffff, 8);
    writeFileSync(file, bytes);
    const others = [join(sleep.folder, 'folder.kv'), join(sleep.folder, 'link.kv')];
    mkdirSync(others[0]!);
    if (process.platform !== 'win32') {
      symlinkSync(builtinPath, others[1]!);
      execFileSync('mkfifo', [others[2] = join(sleep.folder, 'pipe.kv')]);
    }
    const { turns, log } = await live(sleep, async (engine) => {
      const turns = [];
      for (const one of said) turns.push(await turn(engine, [...one], 'Go on.'));
      await engine.close();
      return { turns };
    });
    t.equal(turns.filter(({ usage }) => usage.cachedTokens > usage.promptTokens / 2).length, 1);
    t.match(log.filter((line) => line.startsWith('warn')), { length: 1, 0: /must be evaluated again/ });
    t.notOk(files(sleep).includes(file));
    writeFileSync(file, sound);
    for (const other of others) rmSync(other, { recursive: true });
  }
});

t.test('files that are exchanged while the engine runs are not used for each other\'s conversation', async (t) => {
  const sleep = place(t.testdir());
  const said: Said[] = [[], []];
  await live(sleep, async (engine) => {
    for (const [i, one] of said.entries()) await turn(engine, one, long(questions[i]!));
    return {};
  });
  const goOn = async (engine: Engine) => await turn(engine, [...said[0]!], 'Go on.');
  const alone = await live(place(join(t.testdirName, 'other')), goOn);
  const { content, usage, log } = await live(sleep, async (engine) => {
    // Now it knows the conversations of its files.
    await turn(engine, [], 'Something else.');
    const [one, two] = files(sleep) as [string, string];
    const bytes = readFileSync(one);
    writeFileSync(one, readFileSync(two));
    writeFileSync(two, bytes);
    return await goOn(engine);
  });
  t.equal(content, alone.content);
  t.ok(usage.cachedTokens < usage.promptTokens / 2);
  t.match(log.join(), /warn A kept conversation must be evaluated again: .* holds another conversation now/);
});

t.test('in a folder that lasts, a pause keeps the conversations of slots and of stashes', async (t) => {
  const sleep = place(t.testdir(), { lasts: true });
  const all: Said[] = questions.map(() => []);
  const { usages, beforePause } = await live(sleep, async (engine) => {
    for (const [i, said] of all.entries()) await turn(engine, said, long(questions[i]!));
    await until(() => files(sleep).filter((name) => name.endsWith('.kv')).length === 4);
    const usages = [];
    for (const said of all) usages.push((await turn(engine, said, 'Go on.')).usage);
    // Two of the longer ones have left their slots by now.
    return { usages, beforePause: files(sleep).length };
  }, { cacheRamMib: 100 });
  t.ok(beforePause >= 4, 'a kill before the next pause loses no conversation');
  for (const { cachedTokens, promptTokens } of usages) t.ok(cachedTokens > promptTokens / 2, `${cachedTokens} of ${promptTokens}`);
  t.equal(files(sleep).length, 4, 'and the longer ones replace them');
});

t.test('signs of life of an idle engine do not put off the writing', async (t) => {
  const sleep = place(t.testdir(), { lasts: true });
  await live(sleep, async (engine) => {
    await turn(engine, [], long(questions[0]!));
    await until(() => files(sleep).some((name) => name.endsWith('.kv')));
    t.equal(files(sleep).length, 1);
    return {};
  }, {}, { watch: { everyMs: 50, stuckMs: 60_000, startMs: 30_000 } });
});

t.test('servers of other settings share a folder that lasts, and leave each other their conversations', async (t) => {
  const sleep = place(t.testdir(), { lasts: true });
  const said: Said[] = [[], []];
  await live(sleep, async (engine) => {
    for (const [i, one] of said.entries()) await turn(engine, one, long(questions[i]!));
    return {};
  });
  const own = files(sleep);
  t.equal(own.length, 2);
  const quantized = { cacheTypeK: 'q8_0', flashAttention: 'on' } as const;
  for (const [more, most] of [[quantized, 3], [{ contextSize: 320 }, 4]] as const) {
    const { log } = await live(sleep, (engine) => turn(engine, [], long(questions[2]!).slice(0, 600)), more);
    t.match(log, [/^info [23] kept conversations are of other settings or versions; they stay/], 'said once, and no warning');
    t.ok(own.every((file) => files(sleep).includes(file)));
    t.equal(files(sleep).length, most);
  }
  const back = await live(sleep, async (engine) => {
    const usages = [];
    for (const one of said) usages.push((await turn(engine, one, 'Go on.')).usage);
    return { usages };
  });
  for (const { cachedTokens, promptTokens } of back.usages) t.ok(cachedTokens > promptTokens / 2, `${cachedTokens} of ${promptTokens}`);
  const { log } = await live({ ...sleep, lasts: false }, (engine) => turn(engine, [], questions[0]!), quantized);
  t.match(log.filter((line) => line.startsWith('warn')), [/3 kept conversations must be evaluated again: .*other settings/]);
  t.equal(files(sleep).length, 2, 'where no other server can want them, they are removed');
});

t.test('after a failure, a folder that lasts is tried again only when there is more to write', async (t) => {
  const folder = join(t.testdir(), 'missing');
  const log: string[] = [];
  const cache = {
    freeByUse: () => [0],
    tokensOf: () => new Int32Array(20),
    pool: { entries: [], addFiles: () => {} },
  } as unknown as PrefixCache;
  const context = { stashSequence: async () => ({ id: 1, sizeBytes: 10 }), dropStash: async () => true } as unknown as NativeContext;
  const kept = new SleepFiles({ folder, root: folder, limitBytes: 1e6, mostMs: 1e6, lasts: true }, cache, { remember: () => {}, remembers: () => false }, async () => 'mine',
    (_level, text) => log.push(text), () => {});
  kept.worked();
  t.ok(kept.isBehind);
  await kept.write(context, undefined);
  t.match(log, { length: 1, 0: /could not be kept: ENOENT/ });
  t.notOk(kept.isBehind);
});

/** A prompt waits for this file. */
function want({ pool }: PrefixCache, stashed: Stashed): void {
  pool.addFiles([stashed]);
  pool.wanted.add(stashed);
}

t.test('a conversation that memory has no room for is evaluated again, and its file stays', async (t) => {
  const sleep = place(t.testdir(), { lasts: true });
  const file = join(sleep.folder, 'one.kv');
  const tokens = new Int32Array(20);
  await writeState(file, 'mine', tokens, { sizeBytes: 10, read: () => {} });
  const log: string[] = [];
  const entries = [{ id: 0, tokens, sizeBytes: 10, file }];
  const pool = { entries, wanted: new Set(entries), remove: () => { entries.length = 0; } };
  const kept = new SleepFiles(sleep, { pool } as unknown as PrefixCache, { remember: () => {}, remembers: () => false }, async () => 'mine',
    (_level, text) => log.push(text), () => {});
  kept.fetch({ createStash: () => 0 } as unknown as NativeContext);
  await until(() => !kept.reading);
  t.match(log, { length: 1, 0: /must be evaluated again: there is no memory for the 10 bytes/ });
  t.strictSame(entries, [], 'its prompt waits no longer');
  t.strictSame(files(sleep), [file]);
});

t.test('a conversation that cannot be read now stays in its file', { skip: process.platform === 'win32' && 'links need rights there' }, async (t) => {
  const sleep = place(t.testdir());
  const file = join(sleep.folder, 'one.kv');
  const cache = new PrefixCache(1, { partial: true, copies: true }, 1e6);
  const log: string[] = [];
  // Not EMFILE, which would hit the test as well: a link to itself says as little about the file.
  const unreadable = async () => {
    rmSync(file);
    symlinkSync(file, file);
    return 'mine';
  };
  const kept = new SleepFiles(
    sleep,
    cache,
    { remember: () => {}, remembers: () => false },
    unreadable,
    (_level, text) => log.push(text),
    () => {},
  );
  const write = () => writeState(file, 'mine', new Int32Array(20), { sizeBytes: 10, read: () => {} });
  await write();
  await kept.open(100);
  t.match(log, { length: 1, 0: /^A kept conversation cannot be read now: .*ELOOP/ });
  t.strictSame(files(sleep), [file]);
  await write();
  want(cache, { id: 0, tokens: new Int32Array(20), sizeBytes: 10, file });
  kept.fetch({} as NativeContext);
  await until(() => !kept.reading);
  t.match(log, { length: 2, 1: /must be evaluated again: .*ELOOP/ });
  t.strictSame(files(sleep), [file]);
});

t.test('a conversation whose file is gone leaves none of its checkpoints in memory', async (t) => {
  const sleep = place(t.testdir(), { lasts: true });
  const cache = new PrefixCache(1, { partial: false, copies: false }, 1e6);
  const checkpoints = [{ id: 7, length: 8, sizeBytes: 1 }, { id: 9, length: 16, sizeBytes: 1 }];
  want(cache, { id: 0, tokens: new Int32Array(20), sizeBytes: 10, file: join(sleep.folder, 'one.kv'), checkpoints });
  const dropped: number[] = [];
  const kept = new SleepFiles(sleep, cache, { remember: () => {}, remembers: () => false }, async () => 'mine', () => {}, () => {});
  kept.fetch({ dropStash: async (id: number) => dropped.push(id) } as unknown as NativeContext);
  await until(() => !kept.reading);
  t.strictSame(cache.pool.entries, []);
  t.strictSame(dropped, [7, 9]);
});

/** Keeps conversations of a context with one slot, which the returned function fills and writes. */
function oneByOne(sleep: SleepPlace) {
  const cache = new PrefixCache(1, { partial: true, copies: true }, 1e6);
  const context = {
    stashSequence: async () => ({ id: 1, sizeBytes: 10 }),
    dropStash: async () => true,
    readStash: () => {},
  } as unknown as NativeContext;
  const kept = new SleepFiles(sleep, cache, { remember: () => {}, remembers: () => false }, async () => 'mine', () => {}, () => {});
  const keep = async (tokens: Int32Array) => {
    cache.adopt(0, tokens);
    await kept.write(context, undefined);
  };
  return { cache, keep };
}

t.test('conversations whose files had to go, or were removed, leave the memory, too', async (t) => {
  const sleep = place(t.testdir(), { lasts: true, limitBytes: 1000 });
  const { cache, keep } = oneByOne(sleep);
  for (let i = 1; i <= 30; i++) await keep(new Int32Array(20).fill(i));
  t.ok(files(sleep).length > 1 && files(sleep).length < 10, `${files(sleep).length} files`);
  t.ok(cache.pool.entries.length <= files(sleep).length + 1, `${cache.pool.entries.length} conversations in memory`);
  for (const file of files(sleep)) rmSync(file);
  await keep(new Int32Array(20).fill(31));
  t.equal(cache.pool.entries.length, 1);
});

t.test('one conversation is written without comparing the thousands that have files', async (t) => {
  const sleep = place(t.testdir(), { lasts: true });
  const { cache, keep } = oneByOne(sleep);
  const tokens = (last: number) => new Int32Array(2000).fill(1).fill(last, 1500);
  const reads = { count: 0 };
  cache.pool.addFiles(Array.from({ length: 1000 }, (_, i) => {
    const file = join(sleep.folder, `${i}.kv`);
    writeFileSync(file, '');
    return { id: 0, tokens: counted(tokens(i + 3), reads), sizeBytes: 10, file };
  }));
  await keep(tokens(2));
  t.equal(cache.pool.entries.length, 1001);
  t.ok(reads.count < 10_000, `${reads.count} tokens were looked at`);
});

t.test('a missing folder costs the conversations and nothing else', async (t) => {
  const sleep = place(t.testdir());
  const { log, content } = await live(sleep, async (engine) => {
    const given = await turn(engine, [], questions[0]!);
    rmSync(sleep.folder, { recursive: true });
    return given;
  });
  t.ok(content);
  t.match(log.join(), /warn Conversations could not be kept: .*ENOENT/);
});

t.test('a write that takes too long is given up', async (t) => {
  const sleep = place(t.testdir(), { mostMs: -1 });
  const { log } = await live(sleep, (engine) => turn(engine, [], questions[0]!));
  t.match(log.join(), /warn Conversations could not be kept: writing took longer/);
  t.strictSame(files(sleep), []);
});

function smallDisk(t: Test): string | undefined {
  const folder = mkdtempSync(join(tmpdir(), 'recua-small-disk-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const mounted = process.platform === 'linux' && spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', folder]).status === 0;
  if (mounted) t.teardown(() => execFileSync('umount', [folder]));
  return mounted ? folder : undefined;
}

t.test('a full disk costs the conversations and nothing else', async (t) => {
  const folder = smallDisk(t);
  if (folder === undefined) return t.pass('mounting a small disk takes root and its rights');
  const sleep = place(folder);
  const said: Said = [];
  const { log } = await live(sleep, (engine) => turn(engine, said, questions[0]!));
  t.match(log.join(), /warn Conversations could not be kept: .*ENOSPC/);
  t.strictSame(files(sleep), [], 'no draft is left');
  const { usage } = await live(sleep, (engine) => turn(engine, said, questions[1]!));
  t.equal(usage.cachedTokens, 0);
});
