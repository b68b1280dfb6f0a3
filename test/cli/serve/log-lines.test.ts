import t from 'tap';
import { appendFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { endOf, follow, lastLines, linesAbout } from '#recua/cli/serve/log-lines.js';
import { logFiles } from '#recua/cli/serve/log-file.js';
import { until } from '../home.js';

t.test('lastLines() reads back through the files as far as it must', async (t) => {
  const folder = t.testdir({ 'a.log': '5\n6\n', 'a.log.1': '3\n4\n', 'a.log.2': '1\n2\n' });
  const files = logFiles(join(folder, 'a.log'));
  t.same(await lastLines(files, 0), []);
  t.same(await lastLines(files, 1), ['6']);
  t.same(await lastLines(files, 3), ['4', '5', '6']);
  t.same(await lastLines(files, 100), ['1', '2', '3', '4', '5', '6']);
  t.same(await lastLines(files, 2, { inode: 0, offset: 2 }), ['4', '5'], 'only what is before the end');
  t.same(await lastLines([join(folder, 'none')], 5), []);
});

t.test('follow() returns every line once, across rotations', async (t) => {
  const path = join(t.testdir({ 'a.log': 'old\n' }), 'a.log');
  const files = logFiles(path, 3);
  const stop = new AbortController();
  t.teardown(() => stop.abort());
  let seen = '';
  const from = await endOf(path);
  const done = (async () => {
    for await (const text of follow(files, from, stop.signal)) seen += text;
  })();
  const rotate = () => {
    rmSync(files[3], { force: true });
    for (const at of [2, 1, 0]) {
      try {
        renameSync(files[at], files[at + 1]);
      } catch { /* Not there yet. */ }
    }
  };
  let expected = '';
  for (let n = 0; n < 12; n++) {
    appendFileSync(path, `line ${n} 你好\n`);
    expected += `line ${n} 你好\n`;
    // Sometimes twice between two polls of the reader.
    if (n % 3 !== 0) rotate();
    if (n % 2 === 0) await until(() => seen === expected);
  }
  await until(() => seen === expected);
  appendFileSync(path, 'half');
  appendFileSync(path, ' a line\n');
  await until(() => seen === `${expected}half a line\n`);
  stop.abort();
  await done;
  t.equal(seen, `${expected}half a line\n`);
});

t.test('follow() begins with the first line of a file that did not exist', async (t) => {
  const path = join(t.testdir(), 'a.log');
  const stop = new AbortController();
  t.teardown(() => stop.abort());
  let seen = '';
  const done = (async () => {
    for await (const text of follow(logFiles(path), undefined, stop.signal)) seen += text;
  })();
  writeFileSync(path, 'one\ntwo\n');
  await until(() => seen === 'one\ntwo\n');
  stop.abort();
  await done;
  t.pass('it ends by its signal');
});

t.test('follow() goes on with the new file if the one before was moved away, without the rotated ones', async (t) => {
  const path = join(t.testdir({ 'a.log': 'read\n', 'a.log.1': 'older\n' }), 'a.log');
  const stop = new AbortController();
  t.teardown(() => stop.abort());
  const from = await endOf(path);
  renameSync(path, `${path}.mine`);
  writeFileSync(path, 'new\n');
  let seen = '';
  for await (const text of follow(logFiles(path), from, stop.signal)) {
    seen += text;
    if (seen.endsWith('new\n')) stop.abort();
  }
  t.equal(seen, 'new\n');
});

t.test('linesAbout() picks the lines of one request, and those indented below them', (t) => {
  const about = linesAbout('req_1');
  const time = '2026-01-01T00:00:00.000Z';
  t.strictSame(about([
    `${time} info  req_1 POST /v1/chat/completions 200 5 ms`, `${time} info  req_11 GET / 200 5 ms`, `${time} info  about req_1`,
    `${time} error req_1 internal_error: Error: x`, `${time} error     at f (a.js:1:2)`, `${time} error     at g (a.js:2:2)`, `${time} warn  something`, `${time} error     at h (a.js:2:2)`,
  ]), [`${time} info  req_1 POST /v1/chat/completions 200 5 ms`, `${time} error req_1 internal_error: Error: x`, `${time} error     at f (a.js:1:2)`, `${time} error     at g (a.js:2:2)`]);
  t.strictSame(about([`${time} error     at f (a.js:1:2)`]), [], 'of another');
  const json = [{ msg: 'req_1 POST', request_id: 'req_1' }, { msg: 'req_11 GET', request_id: 'req_11' }, { msg: 'req_1 was there' }].map((line) => JSON.stringify(line));
  t.strictSame(about([...json, '{"request_id":"req_1"', '    below']), [json[0]], 'JSON names it');
  t.strictSame(linesAbout('req.1')([`${time} info  reqx1 GET /`]), [], 'an id is no pattern');
  t.end();
});
