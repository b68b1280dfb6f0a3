// A store on a disk without a single free byte.
import t from 'tap';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { exportTo } from '#recua/cli/chat/sessions/transcript.js';
import { LogFile } from '#recua/cli/serve/log-file.js';
import { addAlias } from '#recua/models/aliases.js';
import { findPlaces } from '#recua/models/places.js';
import { tryLock } from '#recua/system/lock-file.js';
import { RecuaError } from '#recua/errors.js';
import { until } from '../cli/home.js';
import { recua } from '../cli/recua.js';
import { model, put, putPartial } from './hub-layout.js';

// Not the test's own folder: tap would remove it before its file system is unmounted.
const folder = mkdtempSync(join(tmpdir(), 'recua-full-disk-'));
t.teardown(() => rmSync(folder, { recursive: true, force: true }));
const mounted = process.platform === 'linux' && spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', folder]).status === 0;
if (mounted) t.teardown(() => execFileSync('umount', [folder]));
const skip = !mounted && 'mounting a small disk takes root and its rights';

/** Takes all free space; frees it when called. */
function fill(): () => void {
  const filler = join(folder, 'filler');
  execFileSync('sh', ['-c', 'dd if=/dev/zero of="$0" bs=4k 2>/dev/null || true', filler]);
  return () => rmSync(filler);
}

const names = () => readdirSync(folder, { recursive: true }).map(String).filter((name) => name !== 'filler').sort();
const env = { SERVICE_HOME: folder, HUB_HOME: '', HF_HOME: '', HF_HUB_CACHE: '' };

t.test('a lock without disk space leaves no draft, and the error is a sentence', { skip }, async (t) => {
  const free = fill();
  t.teardown(free);
  const thrown = await tryLock(join(folder, 'a.lock')).catch((error: unknown) => error);
  t.match(thrown, { code: 'ENOSPC' });
  t.match(RecuaError.from(thrown), { code: 'disk_full', message: /^There is no room left on the disk.* Free some space and try again\.$/ });
  t.strictSame(names(), []);
});

t.test('import and aliases say that the disk is full, and leave the store as it was', { skip }, async (t) => {
  const hub = join(folder, 'hub');
  put(hub, { repo: 'o/r', file: 'm.gguf', bytes: model('m') });
  const mine = join(t.testdir(), 'mine.gguf');
  writeFileSync(mine, model('mine'));
  const before = names();
  const free = fill();
  t.teardown(() => { free(); rmSync(hub, { recursive: true }); });
  const copied = await recua(['import', '--copy', mine], '', { env });
  t.match(copied, { code: 1, stdout: '', stderr: /There is no room left for .*Free some space and try again/ });
  t.match(await recua(['import', '--symlink', mine], '', { env }), { code: 1, stderr: /There is no room left/ });
  await t.rejects(addAlias(findPlaces(env), 'tiny', { repo: 'o/r', file: 'm.gguf' }, false), { code: 'disk_full' });
  t.notMatch(copied.stderr, / {4}at /);
  t.strictSame(names().filter((name) => name !== 'recua'), before);
});

t.test('serve restart on a full disk leaves the server running', { skip }, async (t) => {
  const started = await recua(['serve', 'start', 'builtin', '--port', '0', '--threads', '1'], '', { env });
  t.equal(started.code, 0, started.stderr);
  const pid = /pid (\d+)/.exec(started.stderr)![1]!;
  const free = fill();
  const refused = await recua(['serve', 'restart'], '', { env });
  t.match(refused, { code: 1, stderr: /The state folder .* cannot be written: ENOSPC/ });
  t.match(await recua(['serve', 'status'], '', { env }), { code: 0, stdout: new RegExp(`^PID +${pid}$`, 'm') });
  free();
  t.match(await recua(['serve', 'restart'], '', { env }), { code: 0, stderr: /Stopped the server[^]*Recua serves builtin/ });
  t.match(await recua(['serve', 'stop'], '', { env }), { code: 0 });
});

t.test('rm works on a full disk, including leftover downloads', { skip }, async (t) => {
  const hub = join(folder, 'hub');
  put(hub, { repo: 'o/r', file: 'm.gguf', bytes: model('m') });
  putPartial(hub, { repo: 'o/r', file: 'n-Q8_0.gguf', etag: 'e'.repeat(64), sizeBytes: 100_000, doneBytes: 50_000 });
  const free = fill();
  t.teardown(free);
  const removed = await recua(['rm', 'o/r'], '', { env });
  t.equal(removed.code, 0, removed.stderr);
  t.strictSame(names().filter((name) => !name.startsWith('recua')), ['hub']);
});

t.test('an export and a unit that do not fit leave nothing, and no name is taken', { skip }, async (t) => {
  const begun = { model: 'builtin', system: '', createdAt: '2026-01-31T10:00:00.000Z', exchanges: [{ message: 'Hello!', sentAt: '2026-01-31T10:00:00.000Z' }] };
  const path = join(folder, 'chat.md');
  const install = async (port: string) => await recua(['serve', 'install', 'builtin', '--port', port, '--force'], '', { env: { ...env, XDG_CONFIG_HOME: join(folder, 'config') } });
  const unit = join(folder, 'config', 'systemd', 'user', 'recua.service');
  const free = fill();
  await t.rejects(exportTo(path, begun, 'chat'), { code: 'file_unreadable', message: /ENOSPC/ });
  t.notOk(existsSync(path));
  free();
  await exportTo(path, begun, 'chat');
  rmSync(path);
  t.match(await install('9000'), { code: 0 });
  const before = readFileSync(unit, 'utf8');
  const freeAgain = fill();
  t.match(await install('9001'), { code: 1, stderr: /recua\.service cannot be written: ENOSPC/ });
  freeAgain();
  t.equal(readFileSync(unit, 'utf8'), before);
  t.strictSame(readdirSync(join(folder, 'config', 'systemd', 'user')), ['recua.service']);
  rmSync(join(folder, 'config'), { recursive: true });
});

t.test('a log counts each line that did not fit', { skip }, async (t) => {
  const path = join(folder, 'a.log');
  const trouble: string[] = [];
  const log = new LogFile(path, (message) => trouble.push(message), { retryMs: 0 });
  t.teardown(() => rmSync(path, { force: true }));
  log.write('info', 'a first line');
  await until(() => existsSync(path) && statSync(path).size > 0);
  const free = fill();
  const count = 1000;
  for (let n = 0; n < count; n++) log.write('info', `line ${n} ${'x'.repeat(50)}`);
  await until(() => trouble.length > 0);
  // Neither this one nor the count of the others fits.
  log.write('info', 'one more');
  await new Promise((resolve) => setTimeout(resolve, 100));
  t.equal(trouble.length, 1, 'the same trouble is told once');
  free();
  log.write('info', 'the last line');
  await log.close();
  const text = readFileSync(path, 'utf8');
  // Without the first line, the warning and the last one; the line that fills the disk may be cut.
  const there = text.trimEnd().split('\n').length - 3;
  t.match(text, new RegExp(`^\\S+ warn {2}${count + 1 - there} lines are missing here`, 'm'));
  t.match(text, /the last line\n$/);
});
