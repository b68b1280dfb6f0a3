// What has expired leaves the disk without being asked for: when a server starts, and while it
// runs. Over the fake engine.
import { existsSync, mkdirSync, readdirSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { KeptFolder } from '#recua/server/kept/kept-folder.js';
import { keepTidy } from '#recua/server/kept/tidying.js';
import { Traffic } from '#recua/server/http/traffic.js';
import { ownFolder, startApp, until } from '../app-under-test.js';
import { FakeEngine } from '../fake-engine.js';

const own = process.getuid ? `kept-${process.getuid()}` : 'kept';
const daySeconds = 86_400;

/** A response and a file that an earlier server stored, and that have expired. */
function leaveOld(keepIn: string): { response: string; file: string } {
  const [responses, files] = ['responses', 'files'].map((name) => join(keepIn, own, name)) as [string, string];
  for (const folder of [responses, files]) mkdirSync(folder, { recursive: true, mode: 0o700 });
  const now = Date.now() / 1_000;
  const response = join(responses, `resp_${'1'.repeat(48)}.json`);
  writeFileSync(response, '{}\n[]');
  utimesSync(response, now - 3 * daySeconds, now - 3 * daySeconds);
  const id = `file-${'2'.repeat(48)}`;
  const file = join(files, id);
  writeFileSync(file, 'x');
  writeFileSync(`${file}.json`, JSON.stringify({ id, object: 'file', bytes: 1, created_at: 1, expires_at: 2, filename: 'a', purpose: 'batch', status: 'processed' }));
  return { response, file };
}

t.test('a server that starts removes what has expired, and nothing else', async (t) => {
  const keepIn = ownFolder(t);
  const { response, file } = leaveOld(keepIn);
  const fresh = join(keepIn, own, 'responses', `resp_${'3'.repeat(48)}.json`);
  writeFileSync(fresh, '{}\n[]');
  await startApp(t, { responseDays: 2 }, new FakeEngine(), { keepIn });
  await until(() => !existsSync(response) && !existsSync(file));
  t.ok(existsSync(fresh));
  t.strictSame(readdirSync(join(keepIn, own, 'files')), []);
});

t.test('a server that stores no responses leaves those of others alone', async (t) => {
  const keepIn = ownFolder(t);
  const { response, file } = leaveOld(keepIn);
  await startApp(t, { responseDays: 0 }, new FakeEngine(), { keepIn });
  await until(() => !existsSync(file));
  t.ok(existsSync(response));
});

t.test('it looks again and again, makes no folder for that, and stops with the server', async (t) => {
  const keepIn = ownFolder(t);
  const kept = new KeptFolder(keepIn);
  const traffic = new Traffic();
  let looks = 0;
  const warnings: string[] = [];
  keepTidy({ kept, traffic, log: (_level, text) => void warnings.push(text) }, 'things', async () => {
    if (++looks === 1) throw new Error('no');
  }, 5);
  await new Promise((resolve) => setTimeout(resolve, 50));
  t.equal(looks, 0);
  t.strictSame(readdirSync(keepIn), []);
  await kept.of('things');
  await until(() => looks >= 3);
  t.match(warnings, [/^Expired data stays in the folder things for now: no$/]);
  traffic.drain();
  const before = looks;
  await new Promise((resolve) => setTimeout(resolve, 50));
  t.equal(looks, before);
});
