import t from 'tap';
import { existsSync, lstatSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { LogFile, logFiles } from '#recua/cli/serve/log-file.js';
import { until } from '../home.js';

const silent = (message: string) => { throw new Error(message); };

t.test('each line has its time and level, and the file is private to its owner', async (t) => {
  const path = join(t.testdir(), 'deep', 'a.log');
  const log = new LogFile(path, silent);
  log.write('info', 'one\ntwo\n');
  log.write('error', 'bell \u0007, a cut\rline, a tab\tand 你好 \u001b[2J');
  await log.close();
  const lines = readFileSync(path, 'utf8').split('\n');
  t.match(lines, [/^\d{4}-\d\d-\d\dT[\d:.]+Z info {2}one$/, /Z info {2}two$/, /Z error bell \uFFFD, a cut\uFFFDline, a tab\tand 你好 \uFFFD\[2J$/, '']);
  t.equal(statSync(path).mode & 0o777, 0o600);
  log.write('info', 'after the end');
  t.equal(readFileSync(path, 'utf8').split('\n').length, 4, 'what comes after close() is dropped');
});

t.test('as JSON each line is an object, whatever its text contains', async (t) => {
  const path = join(t.testdir(), 'a.log');
  const log = new LogFile(path, silent, {}, 'json');
  log.write('error', 'one\ntwo \u001b[2J \u009b2J', { request_id: 'req_1', status: 200, model: undefined });
  log.write('info', 'plain');
  await log.close();
  const text = readFileSync(path, 'utf8');
  t.notMatch(text, /[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/);
  const lines = text.trimEnd().split('\n').map((line) => JSON.parse(line) as Record<string, unknown>);
  t.strictSame(lines.map(({ time, ...line }) => line), [{ level: 'error', msg: 'one\ntwo \u001b[2J \uFFFD2J', request_id: 'req_1', status: 200 }, { level: 'info', msg: 'plain' }]);
  t.ok(lines.every(({ time }) => !Number.isNaN(Date.parse(String(time)))));
});

t.test('a log never takes more space than its pieces', async (t) => {
  const folder = t.testdir();
  const path = join(folder, 'a.log');
  const log = new LogFile(path, silent, { sizeBytes: 1000, kept: 2 });
  for (let n = 0; n < 200; n++) log.write('info', `line ${n} ${'x'.repeat(50)}`);
  await log.close();
  t.same(readdirSync(folder).sort(), ['a.log', 'a.log.1', 'a.log.2']);
  for (const file of logFiles(path, 2)) t.ok(statSync(file).size < 1200 && (statSync(file).mode & 0o077) === 0, file);
  const kept = logFiles(path, 2).reverse().map((file) => readFileSync(file, 'utf8')).join('');
  const numbers = [...kept.matchAll(/line (\d+)/g)].map(([, n]) => Number(n));
  t.equal(numbers.at(-1), 199);
  t.same(numbers, numbers.map((_, at) => numbers[0] + at), 'none is missing in between');
});

t.test('an existing file is continued', async (t) => {
  const before = '2026-11-30T10:00:00.000Z info  before\n';
  const path = join(t.testdir({ 'a.log': before }), 'a.log');
  const log = new LogFile(path, silent);
  log.write('info', 'after');
  await log.close();
  t.match(readFileSync(path, 'utf8'), /^\S+ info {2}before\n\S+ info {2}after\n$/);
});

t.test('a file of another kind is no log, and a link to a log stays a link', { skip: process.platform === 'win32' && 'links need rights' }, async (t) => {
  const folder = t.testdir({ 'model.gguf': 'GGUF', 'notes.txt': 'mine\n', 'other.log': '2026-11-30T19:54:46.159Z info: another program\n', logs: {} });
  for (const name of ['model.gguf', 'notes.txt', 'other.log']) {
    const path = join(folder, name);
    const before = readFileSync(path, 'utf8');
    t.throws(() => new LogFile(path, silent), { code: 'file_unreadable', message: /cannot be written: it is a file of another kind\.$/ });
    t.equal(readFileSync(path, 'utf8'), before);
  }
  symlinkSync(join(folder, 'logs', 'a.log'), join(folder, 'a.log'));
  writeFileSync(join(folder, 'logs', 'a.log'), '');
  const log = new LogFile(join(folder, 'a.log'), silent, { sizeBytes: 100 });
  for (let i = 0; i < 5; i++) log.write('info', 'x'.repeat(60));
  await log.close();
  t.ok(lstatSync(join(folder, 'a.log')).isSymbolicLink());
  t.ok(readdirSync(join(folder, 'logs')).includes('a.log.1'));
});

t.test('rotation replaces no file but logs', async (t) => {
  const mine = { 'a.log.2': 'mine\n' };
  const folder = t.testdir(mine);
  const path = join(folder, 'a.log');
  const message = /a\.log cannot be written: rotation would replace .*a\.log\.2, which is no log of Recua; move it away, or choose another name for the log\.$/;
  t.throws(() => new LogFile(path, silent), { code: 'file_unreadable', message });
  t.same(readdirSync(folder), ['a.log.2'], 'nothing is created beside it');
  renameSync(join(folder, 'a.log.2'), join(folder, 'mine'));
  const trouble: string[] = [];
  const log = new LogFile(path, (text) => trouble.push(text), { sizeBytes: 100, kept: 2, retryMs: 0 });
  for (let n = 0; n < 5; n++) log.write('info', `first ${n} ${'x'.repeat(60)}`);
  await until(() => ['a.log.1', 'a.log.2'].every((name) => existsSync(join(folder, name))));
  rmSync(join(folder, 'a.log.2'));
  renameSync(join(folder, 'mine'), join(folder, 'a.log.2'));
  const before = readFileSync(join(folder, 'a.log.1'), 'utf8');
  await until(() => {
    log.write('info', 'x'.repeat(60));
    return trouble.length > 0;
  });
  t.match(trouble, [message]);
  t.same([readFileSync(join(folder, 'a.log.2'), 'utf8'), readFileSync(join(folder, 'a.log.1'), 'utf8')], ['mine\n', before]);
  rmSync(join(folder, 'a.log.2'));
  await until(() => {
    log.write('info', 'again');
    return existsSync(join(folder, 'a.log.2'));
  });
  await log.close();
  t.match(logFiles(path, 2).map((file) => readFileSync(file, 'utf8')).join(''), /lines are missing here/);
});

t.test('a log that is moved or removed begins anew', async (t) => {
  const path = join(t.testdir(), 'a.log');
  const log = new LogFile(path, silent, { lookMs: 0 });
  const written = async (text: string) => await until(() => existsSync(path) && readFileSync(path, 'utf8').includes(text));
  log.write('info', 'one');
  await written('one');
  renameSync(path, `${path}.old`);
  log.write('info', 'two');
  await written('two');
  rmSync(path);
  writeFileSync(path, '');
  log.write('info', 'three');
  await written('three');
  await log.close();
  t.match(readFileSync(`${path}.old`, 'utf8'), /^\S+ info {2}one\n$/);
  t.match(readFileSync(path, 'utf8'), /^\S+ info {2}three\n$/);
});

t.test('a log that cannot be written says so once, and later how many lines are missing', async (t) => {
  const path = join(t.testdir(), 'a.log');
  const trouble: string[] = [];
  const log = new LogFile(path, (message) => trouble.push(message), { retryMs: 0, lookMs: 0 });
  log.write('info', 'first');
  await until(() => existsSync(path) && statSync(path).size > 0);
  rmSync(path);
  mkdirSync(path);
  t.throws(() => new LogFile(path, silent), { code: 'file_unreadable', message: /a\.log cannot be written: it is a folder\.$/ }, 'a new one refuses it');
  for (let n = 0; n < 3; n++) log.write('info', 'before');
  await until(() => trouble.length > 0);
  for (let tries = 0; tries < 5; tries++) {
    log.write('info', 'before');
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  t.equal(trouble.length, 1);
  // Nor does a clock that is set back delay the next try.
  const real = Date.now;
  t.intercept(Date, 'now', { value: () => real() - 86_400_000 });
  t.match(trouble[0], /a\.log cannot be written: /);
  rmSync(path, { recursive: true });
  await until(() => {
    log.write('info', 'again');
    return existsSync(path) && statSync(path).size > 0;
  });
  await log.close();
  t.match(readFileSync(path, 'utf8'), /^\S+ warn {2}\d+ lines are missing here/);
});

t.test('a line that was cut off keeps the next one apart', async (t) => {
  const path = join(t.testdir({ 'a.log': '{"time":"2026-11-30T10:00:00.000Z","level":"info","msg":"hal' }), 'a.log');
  const log = new LogFile(path, silent, {}, 'json');
  log.write('info', 'one');
  log.write('info', 'two');
  await log.close();
  t.match(readFileSync(path, 'utf8').split('\n'), [/"hal$/, /"one"\}$/, /"two"\}$/, '']);
});
