import t from 'tap';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SleepCache, sleepParent } from '#recua/engine/sleep/sleep-cache.js';
import { until } from '../../cli/home.js';
import { deadProcess } from '../../system/dead-process.js';

const ids = ['a', 'b'];

t.test('each model has a private folder, which is removed with the gateway', async (t) => {
  const parent = t.testdir();
  const cache = new SleepCache({ limitBytes: 1_000, parent, mostMs: 7 }, () => {});
  t.strictSame(readdirSync(parent), [], 'nothing before a model is loaded');
  const place = cache.placeOf('owner/repo:Q4_K_M')!;
  t.match(place, { limitBytes: 1_000, mostMs: 7 });
  t.not(cache.placeOf('b')!.folder, place.folder);
  t.equal(cache.placeOf('owner/repo:Q4_K_M')!.folder, place.folder);
  if (process.platform !== 'win32') for (const folder of [place.root, place.folder]) t.equal(statSync(folder).mode & 0o777, 0o700);
  await cache.close();
  t.strictSame(readdirSync(parent), []);
  t.equal(cache.placeOf('b'), undefined, 'not made again');
  await cache.close();
});

t.test('conversations that last stay when the gateway ends while a model is being unloaded', async (t) => {
  const lasting = t.testdir();
  const cache = new SleepCache({ limitBytes: 1_000, lasting }, () => {});
  const files = ids.map((id) => join(cache.placeOf(id)!.folder, 'x.kv'));
  for (const file of files) writeFileSync(file, 'a conversation');
  const settling = cache.settle('a', ids);
  await cache.close();
  await settling;
  for (const file of files) t.equal(readFileSync(file, 'utf8'), 'a conversation');
});

t.test('a folder that was just made is removed, too', async (t) => {
  const parent = t.testdir();
  for (let round = 0; round < 100; round++) {
    const cache = new SleepCache({ limitBytes: 1_000, parent }, () => {});
    cache.placeOf('a');
    for (let i = 0; i < round % 10; i++) await new Promise((resolve) => setImmediate(resolve));
    await cache.close();
  }
  t.strictSame(readdirSync(parent), []);
});

t.test('a model sleeps while it has files; drafts and files over the limit go', async (t) => {
  const cache = new SleepCache({ limitBytes: 1_000, parent: t.testdir() }, () => {});
  t.teardown(() => cache.close());
  const [a, b] = ids.map((id) => cache.placeOf(id)!.folder);
  const put = (folder: string, name: string, seconds: number) => {
    writeFileSync(join(folder, name), Buffer.alloc(600));
    utimesSync(join(folder, name), seconds, seconds);
  };
  put(a!, '1.kv', 1);
  put(a!, '1.kv.draft', 5);
  await cache.settle('a', ids);
  t.strictSame(readdirSync(a!), ['1.kv']);
  t.strictSame(ids.map((id) => cache.keeps(id)), [true, false]);
  put(b!, '2.kv', 2);
  await cache.settle('b', ids);
  t.strictSame(ids.map((id) => cache.keeps(id)), [false, true]);
  cache.drop('b');
  t.equal(cache.keeps('b'), false);
  t.ok(statSync(cache.placeOf('b')!.folder).isDirectory());
});

t.test('a lasting folder keeps what another server may be writing, and the names of models', async (t) => {
  const cache = new SleepCache({ limitBytes: 1_000, lasting: t.testdir() }, () => {});
  t.teardown(() => cache.close());
  const { folder } = cache.placeOf('a')!;
  for (const name of ['1.kv.draft', '2.kv.draft']) writeFileSync(join(folder, name), '');
  utimesSync(join(folder, '1.kv.draft'), 1, 1);
  await cache.settle('a', ids);
  t.strictSame(readdirSync(folder).sort(), ['2.kv.draft', 'model']);
  t.equal(readFileSync(join(folder, 'model'), 'utf8'), 'a');
  writeFileSync(join(folder, '3.kv'), '');
  cache.drop('a');
  t.strictSame(readdirSync(folder).sort(), ['2.kv.draft', '3.kv', 'model']);
  if (process.platform === 'win32') return;
  rmSync(join(folder, 'model'));
  execFileSync('mkfifo', [join(folder, 'model')]);
  cache.placeOf('a');
  t.equal(readFileSync(join(folder, 'model'), 'utf8'), 'a', 'a pipe in its place holds up nothing');
});

t.test('the default limit is a share of the disk; 0, and a folder that cannot be made, keep nothing', async (t) => {
  const parent = t.testdir({ file: '' });
  const cache = new SleepCache({ limitBytes: -1, parent }, () => {});
  t.teardown(() => cache.close());
  const { limitBytes } = cache.placeOf('a')!;
  t.ok(limitBytes > 0 && limitBytes <= 8 * 2 ** 30);
  t.equal(new SleepCache({ limitBytes: 0, parent }, () => {}).placeOf('a'), undefined);
  const log: string[] = [];
  const none = new SleepCache({ limitBytes: -1, parent: join(parent, 'file') }, (level, text) => log.push(`${level} ${text}`));
  t.equal(none.placeOf('a'), undefined);
  t.equal(none.placeOf('a'), undefined);
  t.match(log, [/^warn Conversations are not kept/]);
  t.equal(log.length, 1, 'told once');
  t.equal(sleepParent({ TMPDIR: '/somewhere' }), tmpdir(), 'a folder that was chosen is taken');
});

t.test('a folder that cannot be used for a moment stops no load, and is used again', (t) => {
  const lasting = join(t.testdir(), 'kept');
  const log: string[] = [];
  const cache = new SleepCache({ limitBytes: 1_000, lasting }, (level, text) => log.push(`${level} ${text}`));
  t.teardown(() => cache.close());
  const { folder } = cache.placeOf('a')!;
  for (let i = 1; i <= 2; i++) {
    rmSync(folder, { recursive: true });
    // Not EMFILE, which would hit the test as well.
    writeFileSync(folder, '');
    cache.drop('a');
    t.equal(cache.placeOf('a'), undefined);
    t.equal(cache.lasts, true);
    rmSync(folder);
    t.strictSame(cache.placeOf('a')?.folder, folder);
    t.equal(log.length, i, 'told each time that it happens');
  }
  t.end();
});

t.test('a new gateway removes the folders of dead ones', async (t) => {
  const parent = t.testdir();
  const dead = join(parent, 'recua-sleep-dead00');
  mkdirSync(dead);
  writeFileSync(join(dead, '1.kv'), 'what a user wrote');
  writeFileSync(join(dead, 'owner'), JSON.stringify(await deadProcess()));
  const cache = new SleepCache({ limitBytes: 1_000, parent }, () => {});
  t.teardown(() => cache.close());
  await until(() => readdirSync(parent).length === 0);
});
