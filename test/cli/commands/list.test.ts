import t from 'tap';
import { lstatSync, mkdirSync, renameSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { commitA, folderOf, model, modelPart, partFile, put, putPartial } from '../../models/hub-layout.js';
import { startPuller } from '../../models/pulling.js';
import { Pty } from '../pty.js';
import { recua } from '../recua.js';

/** An environment whose store is in a folder. */
function envOf(folder: string): Record<string, string> {
  return { SERVICE_HOME: folder, HUB_HOME: '', HF_HOME: '', HF_HUB_CACHE: '' };
}

/** The rows of the table: name → the rest. */
function table(stdout: string): Record<string, string> {
  return Object.fromEntries(stdout.trimEnd().split('\n').slice(1).map((line) => line.split(/ {2,}/, 1).concat(line.replace(/^.*? {2,}/, ''))));
}

t.test('list of an empty store shows builtin, and says what to do', async (t) => {
  const folder = t.testdir();
  for (const name of ['list', 'ls']) {
    const { code, stdout, stderr } = await recua([name], '', { env: envOf(folder) });
    t.equal(code, 0);
    t.match(stdout, /^NAME +QUANTIZATION +SIZE +LAST USED +ALIAS +STATE\nbuiltin +F16 +2\.\d\d MiB +never +built-in\n$/);
    t.match(stderr, /The store, .*, has no models\. Download one with recua pull .*recua import/);
  }
});

t.test('list shows models, partial downloads and running pulls', async (t) => {
  const folder = t.testdir();
  const hub = join(folder, 'hub');
  put(hub, { repo: 'acme/m-GGUF', file: 'm-Q8_0.gguf', bytes: model('m') });
  put(hub, { repo: 'acme/m-GGUF', file: 'mmproj-F16.gguf', bytes: model('eyes') });
  put(hub, { repo: '模型/日本語', file: 'ñ.gguf', bytes: model('cjk') });
  put(hub, { repo: 'acme/torn', file: partFile('torn', 1, 3), bytes: modelPart(0, 3) });
  putPartial(hub, { repo: 'acme/half', file: 'half-Q5_K_M.gguf', etag: 'e'.repeat(64), sizeBytes: 1000, doneBytes: 437 });
  const blob = putPartial(hub, { repo: 'acme/now', file: 'now-Q4_K_M.gguf', etag: 'f'.repeat(64), sizeBytes: 1000, doneBytes: 999 });
  putPartial(hub, { repo: 'acme/torn', file: partFile('torn', 2, 3), etag: 'd'.repeat(64), sizeBytes: 1000, doneBytes: 500 });
  await startPuller(blob, (end) => t.teardown(end));
  const link = join(folderOf(hub, 'local/linked'), 'snapshots', commitA, 'l.gguf');
  mkdirSync(dirname(link), { recursive: true });
  symlinkSync(join(folder, 'gone.gguf'), link);
  const { code, stdout, stderr } = await recua(['ls'], '', { env: envOf(folder) });
  t.equal(code, 0);
  t.equal(stderr, '');
  const rows = table(stdout);
  t.strictSame(Object.keys(rows), ['builtin', 'acme/half', 'acme/m-GGUF', 'acme/now', 'acme/torn', 'local/linked', '模型/日本語', 'acme/m-GGUF/mmproj-F16.gguf']);
  t.match(rows['acme/half'], /^Q5_K_M +437 bytes +never +43 % downloaded$/);
  t.match(rows['acme/now'], /99 % downloaded, pulling now$/);
  t.match(rows['acme/torn'], /50 % downloaded$/, 'one part whole, one half, one not begun');
  t.match(rows['acme/m-GGUF'], /^Q8_0 +\d+ bytes +never$/);
  t.match(rows['local/linked'], /dangling: there is no .*gone\.gguf$/);
  t.notMatch(rows['local/linked'], /1 of 1 parts/);
  t.match(rows['acme/m-GGUF/mmproj-F16.gguf'], /used with the models of its repository/);
  // Wide characters take two columns.
  const [plainLine, wideLine] = [/^acme\/half .*$/m, /^模型.*$/m].map((pattern) => pattern.exec(stdout)![0]);
  t.equal(plainLine.indexOf('Q5_K_M'), wideLine.indexOf('Q8_0') + 5, 'five wide characters come before');
});

t.test('a file to which no path leads, since its name is not UTF-8, is left out and left alone', { skip: process.platform !== 'linux' && 'needs a file system that takes any bytes' }, async (t) => {
  const folder = t.testdir();
  const hub = join(folder, 'hub');
  for (const plain of [true, false]) {
    const path = put(hub, { repo: 'acme/odd', file: 'odd.gguf', bytes: model('odd'), plain });
    const odd = Buffer.concat([Buffer.from(`${dirname(path)}/caf`), Buffer.from([0xe9]), Buffer.from('.gguf')]);
    renameSync(path, odd);
    t.match(await recua(['ls'], '', { env: envOf(folder) }), { code: 0, stdout: /built-in\n$/ });
    t.match((await recua(['rm', '-y', 'acme/odd'], '', { env: envOf(folder) })).stderr, /models--acme--odd stays, because it holds something else\./);
    const blobs = join(hub, 'models--acme--two', 'blobs');
    put(hub, { repo: 'acme/two', file: 'two-Q8_0.gguf', bytes: model('two'), plain });
    mkdirSync(blobs, { recursive: true });
    writeFileSync(join(blobs, `${'b'.repeat(64)}.incomplete`), model('half').subarray(0, 200));
    t.notMatch((await recua(['rm', '-y', 'acme/two:Q8_0'], '', { env: envOf(folder) })).stderr, /something else/, 'a partial download is known');
    rmSync(join(hub, 'models--acme--two'), { recursive: true });
    t.ok(lstatSync(odd).isFile() === plain);
    unlinkSync(odd);
  }
});

t.test('on a terminal of 80 columns no name is cut and no line is broken', async (t) => {
  const folder = t.testdir();
  const hub = join(folder, 'hub');
  const repo = 'somebody/Some-Model-3.2-1B-Instruct-GGUF';
  for (const quantization of ['Q4_K_M', 'Q8_0']) put(hub, { repo, file: `Some-Model-3.2-1B-Instruct-${quantization}.gguf`, bytes: model(quantization) });
  const list = new Pty(['list'], { env: envOf(folder) });
  t.teardown(() => list.dispose());
  t.equal((await list.ended).exitCode, 0);
  const written = list.raw.split('\r\n').filter((line) => line !== '');
  t.strictSame(list.lines(), written.map((line) => line.trimEnd()), 'the terminal broke no line');
  t.match(list.text(), new RegExp(`^${repo}:Q4_K_M$`, 'm'));
  t.notMatch(list.text(), /…/);
});

t.test('list --json is one document with the same content', async (t) => {
  const folder = t.testdir();
  const hub = join(folder, 'hub');
  const path = put(hub, { repo: 'acme/m-GGUF', file: 'm-Q8_0.gguf', bytes: model('m') });
  const blob = putPartial(hub, { repo: 'acme/now', file: 'now-Q4_K_M.gguf', etag: 'f'.repeat(64), sizeBytes: 1000, doneBytes: 250 });
  const puller = await startPuller(blob, (end) => t.teardown(end));
  const { code, stdout } = await recua(['list', '--json'], '', { env: envOf(folder) });
  t.equal(code, 0);
  t.match(JSON.parse(stdout), {
    store: hub, builtin: { quantization: 'F16', last_used: null }, sidecars: [],
    models: [
      { name: 'acme/m-GGUF', aliases: [], repo: 'acme/m-GGUF', file: 'm-Q8_0.gguf', path, quantization: 'Q8_0', size_bytes: model('m').length, complete: true, percent: 100, pulling: false, pulling_pid: null, last_used: null },
      { name: 'acme/now', complete: false, percent: 25, pulling: true, pulling_pid: puller.pid, path: null },
    ],
  });
  t.match(JSON.parse((await recua(['list', '--json'], '', { env: envOf(t.testdir()) })).stdout), { models: [] });
});

t.test('list shows when a model was last used', async (t) => {
  const folder = t.testdir();
  t.equal((await recua(['run', 'builtin', '-p', 'Hi', '-n', '1', '-q'], '', { env: envOf(folder) })).code, 0);
  t.match((await recua(['ls'], '', { env: envOf(folder) })).stdout, /^builtin .* just now +built-in$/m);
});

t.test('list writes no control characters from names, and takes no argument', async (t) => {
  const folder = t.testdir();
  put(join(folder, 'hub'), { repo: 'a\x1b[2Jb\n/c', file: 'evil\x07-Q4_0.gguf', bytes: model() });
  const { code, stdout } = await recua(['ls'], '', { env: envOf(folder) });
  t.equal(code, 0);
  t.notMatch(stdout, /[\x00-\x09\x0b-\x1f\x7f]/);
  t.equal(stdout.trimEnd().split('\n').length, 3);
  t.match(await recua(['ls', 'x y'], '', { env: envOf(folder) }), { code: 2, stderr: /Expected no argument.* recua show 'x y'\n$/ });
});

t.test('list says so when the store cannot be read', async (t) => {
  const folder = t.testdir();
  mkdirSync(join(folder, 'recua'));
  writeFileSync(join(folder, 'recua', 'aliases.json'), '{');
  t.match(await recua(['ls'], '', { env: envOf(folder) }), { code: 1, stdout: '', stderr: /^recua: Expected aliases in .*\n$/ });
});
