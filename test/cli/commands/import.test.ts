import t from 'tap';
import { spawn } from '@lydell/node-pty';
import { appendFileSync, copyFileSync, existsSync, mkdtempSync, readFileSync, readdirSync, readlinkSync, rmSync, statSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { builtinPath } from '#recua/models/store.js';
import { commitA, folderOf, model, modelPart, partFile, put, sha256 } from '../../models/hub-layout.js';
import { mainPath, recua } from '../recua.js';

function envOf(folder: string): Record<string, string> {
  return { SERVICE_HOME: folder, HUB_HOME: '', HF_HOME: '', HF_HUB_CACHE: '' };
}

/** What `--json` prints, beside the exit code and stderr. */
async function importing(
  folder: string,
  ...args: string[]
): Promise<{ code: number | null; stderr: string; path: string; [key: string]: unknown }> {
  const { code, stdout, stderr } = await recua(['import', ...args, '--json'], '', { env: envOf(folder) });
  return { path: '', code, stderr, ...(code === 0 ? (JSON.parse(stdout) as object) : {}) };
}

t.test('import links a file into the store, and the model runs by its name and alias', async (t) => {
  const folder = t.testdir({ mine: {} });
  const path = join(folder, 'mine', 'my model (1).gguf');
  copyFileSync(builtinPath, path);
  const { code, stdout, stderr } = await recua(['import', path, '-a', 'tiny'], '', { env: envOf(folder) });
  t.equal(code, 0);
  t.equal(stderr, '');
  t.match(stdout, /my model \(1\)\.gguf is in the store now: hard-linked, so it takes no extra space.*\nNames: local\/my-model-1, tiny\nTry: recua run tiny -p "Hello"\n$/);
  const hub = join(folder, 'hub');
  const blob = join(folderOf(hub, 'local/my-model-1'), 'blobs', sha256(readFileSync(builtinPath)));
  t.equal(statSync(blob).ino, statSync(path).ino);
  const [commit] = readdirSync(join(folderOf(hub, 'local/my-model-1'), 'snapshots'));
  t.match(commit, /^[0-9a-f]{40}$/);
  t.equal(readFileSync(join(folderOf(hub, 'local/my-model-1'), 'refs', 'main'), 'utf8'), commit);
  t.equal(readlinkSync(join(folderOf(hub, 'local/my-model-1'), 'snapshots', commit, 'my model (1).gguf')), `../../blobs/${sha256(readFileSync(builtinPath))}`);
  for (const name of ['tiny', 'local/my-model-1', 'my model (1)']) {
    const run = await recua(['run', name, '-p', 'Hi', '-n', '2', '-q'], '', { env: envOf(folder), cwd: folder });
    t.equal(run.code, 0, name);
  }
  t.match((await recua(['ls'], '', { env: envOf(folder) })).stdout, /^local\/my-model-1 +F16 +2\.29 MiB +just now +tiny$/m);
});

t.test('import --force repairs a model whose file in the store is damaged', async (t) => {
  const folder = t.testdir();
  const path = join(folder, 'm.gguf');
  writeFileSync(path, model('m'));
  const { path: stored } = await importing(folder, path, '--copy');
  const damaged = Buffer.from(model('m'));
  damaged[damaged.length - 1]! ^= 1;
  writeFileSync(stored, damaged);
  t.match(await recua(['show', 'local/m', '--verify'], '', { env: envOf(folder) }), { code: 1, stderr: /is damaged.*recua import, with --force/ });
  t.match(await importing(folder, path), { code: 0, already: true });
  t.match(await importing(folder, path, '--force', '--copy'), { code: 0, already: false });
  t.strictSame(readFileSync(stored), model('m'));
  t.equal((await recua(['show', 'local/m', '--verify'], '', { env: envOf(folder) })).code, 0);
});

t.test('import --force repairs the damaged ones of several equal models, and makes no further one', async (t) => {
  const folder = t.testdir();
  const path = join(folder, 'm.gguf');
  writeFileSync(path, model('m'));
  const names = ['me/a', 'me/b', 'me/c'];
  const stored: string[] = [];
  for (const name of names) stored.push((await importing(folder, path, '--copy', '--name', name)).path);
  const damage = (...which: number[]) => { for (const i of which) writeFileSync(stored[i]!, model('n')); };
  const force = () => importing(folder, path, '--force', '--copy', '-a', 'mine');
  damage(0, 2);
  t.match(await force(), { code: 0, name: 'me/b', already: false });
  for (const one of stored) t.strictSame(readFileSync(one), model('m'));
  damage(0, 1, 2);
  t.match(await force(), { code: 0, name: 'me/a', already: false });
  for (const one of stored) t.strictSame(readFileSync(one), model('m'));
  t.match(await force(), { code: 0, name: 'me/a', already: true, method: null });
  t.notOk(existsSync(folderOf(join(folder, 'hub'), 'local/m')));
  t.equal((await recua(['rm', 'mine', '--yes'], '', { env: envOf(folder) })).code, 0);
  for (const one of stored) t.ok(existsSync(one), 'they were there before their alias');
});

t.test('import --copy and --symlink do what they say', async (t) => {
  const folder = t.testdir({ mine: {} });
  const path = join(folder, 'mine', 'm.gguf');
  writeFileSync(path, model('m'));
  const copied = await importing(folder, path, '--copy', '--name', 'me/copied');
  t.match(copied, { code: 0, name: 'me/copied', method: /^(copy|copy_on_write_copy)$/, already: false });
  t.not(statSync(copied.path).ino, statSync(path).ino);
  t.strictSame(readFileSync(copied.path), model('m'));
  for (const flag of ['--symlink', '--link']) {
    const linked = await importing(folder, path, flag, '--name', `me/linked${flag.slice(1)}`);
    t.match(linked, { code: 0, method: 'symlink', already: false });
    t.equal(readlinkSync(linked.path), path);
    t.strictSame(readdirSync(join(folderOf(join(folder, 'hub'), `me/linked${flag.slice(1)}`), 'blobs')), [], 'no contents are taken');
  }
  rmSync(path);
  t.match(await recua(['show', 'me/linked-link'], '', { env: envOf(folder) }), { code: 1, stderr: /the file behind it is gone; recua list says which/ });
  t.equal((await recua(['show', 'me/copied'], '', { env: envOf(folder) })).code, 0);
});

t.test('import from another file system copies', async (t) => {
  const shared = '/dev/shm';
  if (!existsSync(shared)) return void t.comment('there is no second file system here');
  const folder = mkdtempSync(join(shared, 'recua-test-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const path = join(t.testdir(), 'm.gguf');
  writeFileSync(path, model('m'));
  if (statSync(folder).dev === statSync(path).dev) return void t.comment('both are on the same file system');
  const done = await importing(folder, path);
  t.match(done, { code: 0, method: 'copy' });
  t.strictSame(readFileSync(done.path), model('m'));
  t.strictSame(readdirSync(dirname(readlinkSync(done.path)).replace(/^.*blobs/, join(folderOf(join(folder, 'hub'), 'local/m'), 'blobs'))), [sha256(model('m'))], 'no draft and no lock is left');
});

t.test('import follows a link to the file itself', async (t) => {
  const folder = t.testdir({ mine: {} });
  writeFileSync(join(folder, 'mine', 'real.gguf'), model('m'));
  symlinkSync('real.gguf', join(folder, 'mine', 'link.gguf'));
  const done = await importing(folder, join(folder, 'mine', 'link.gguf'));
  t.match(done, { code: 0, name: 'local/link', method: 'hard_link' });
  rmSync(join(folder, 'mine', 'link.gguf'));
  t.strictSame(readFileSync(done.path), model('m'));
});

t.test('importing the same file again says so, and other contents under its name are refused', async (t) => {
  const folder = t.testdir({ mine: {} });
  const path = join(folder, 'mine', 'm.gguf');
  writeFileSync(path, model('m'));
  const first = await importing(folder, path);
  t.match(await importing(folder, path), { code: 0, already: true, name: 'local/m', method: null, path: first.path });
  t.match(await recua(['import', path], '', { env: envOf(folder) }), { code: 0, stdout: /is already in the store as local\/m; no second model was made\.\nName: local\/m\n/ });
  t.match(await importing(folder, path, '--copy', '-a', 'again'), { code: 0, already: true, aliases: ['again'] });
  rmSync(path);
  writeFileSync(path, model('another'));
  t.match(await importing(folder, path), { code: 2, stderr: /has another model local\/m\/m\.gguf\. Give .* another name with --name owner\/repo, or replace that one with --force/ });
  t.strictSame(readFileSync(first.path), model('m'));
  const forced = await importing(folder, path, '--force');
  t.match(forced, { code: 0, already: false, aliases: ['again'] });
  t.strictSame(readFileSync(forced.path), model('another'));
  t.strictSame(readdirSync(join(folderOf(join(folder, 'hub'), 'local/m'), 'blobs')), [sha256(model('another'))], 'the old contents are gone');
  t.equal(readdirSync(join(folderOf(join(folder, 'hub'), 'local/m'), 'snapshots')).length, 1);
  const linked = await importing(folder, path, '--symlink', '--name', 'me/l');
  t.match(await importing(folder, path, '--symlink', '--name', 'me/l'), { code: 0, already: true, path: linked.path });
});

t.test('importing a file that was already pulled stores nothing twice', async (t) => {
  const folder = t.testdir({ mine: {} });
  const hub = join(folder, 'hub');
  const pulled = put(hub, { repo: 'acme/m-GGUF', file: 'm-Q8_0.gguf', bytes: model('m') });
  const path = join(folder, 'mine', 'download.gguf');
  writeFileSync(path, model('m'));
  t.match(await importing(folder, path, '--copy', '-a', 'mine'), { code: 0, already: true, name: 'acme/m-GGUF', path: pulled, aliases: ['mine'] });
  const { stdout } = await recua(['import', path, '-a', 'new'], '', { env: envOf(folder) });
  t.match(stdout, /Names: acme\/m-GGUF, mine, new\nTry: recua run new -p/, 'the name to try is the one just given');
  t.strictSame(readdirSync(hub), ['models--acme--m-GGUF']);
});

t.test('importing contents that are already there adds the alias, however they are stored', async (t) => {
  const ways: [first: string[], then: string[]][] = [[['--symlink'], []], [['--symlink'], ['--copy']], [['--copy'], ['--symlink']], [[], ['--symlink']], [['--symlink'], ['--symlink']]];
  for (const [first, then] of ways) {
    const folder = t.testdir({ mine: {}, other: {} });
    const path = join(folder, 'mine', 'm.gguf');
    writeFileSync(path, model('m'));
    const before = await importing(folder, path, ...first);
    // The same contents elsewhere, under the same name.
    const again = join(folder, 'other', 'm.gguf');
    writeFileSync(again, model('m'));
    for (const [from, alias] of [[path, 'one'], [again, 'two']] as const) {
      t.match(await importing(folder, from, ...then, '-a', alias), { code: 0, already: true, method: null, path: before.path, name: 'local/m' }, `${first.join()} then ${then.join()}`);
    }
    t.match(await importing(folder, path), { aliases: ['one', 'two'] });
    writeFileSync(again, model('x'));
    t.match(await importing(folder, again, ...then, '-a', 'three'), { code: 2, stderr: /has another model local\/m/ }, 'other contents of the same size are others');
  }
});

t.test('import takes a split set by its first part, and only if it is complete', async (t) => {
  const folder = t.testdir({ mine: {} });
  const parts = [1, 2, 3].map((part) => join(folder, 'mine', partFile('big-Q6_K', part, 3)));
  parts.forEach((path, i) => writeFileSync(path, modelPart(i, 3)));
  t.match(await importing(folder, parts[1]), { code: 1, stderr: /not the first; name that: .*00001-of-00003/ });
  const done = await importing(folder, parts[0], '-a', 'big');
  t.match(done, { code: 0, name: 'local/big-Q6_K', parts: 3 });
  t.equal(readdirSync(dirname(done.path)).length, 3);
  t.equal((await recua(['show', 'big'], '', { env: envOf(folder) })).code, 0);
  t.match(await importing(folder, parts[0], '--symlink', '--name', 'me/big'), { code: 0, parts: 3, method: 'symlink' });
  rmSync(parts[2]);
  t.match(await importing(folder, parts[0], '--name', 'me/torn'), { code: 1, stderr: /part 3 is missing/ });
  t.notOk(existsSync(folderOf(join(folder, 'hub'), 'me/torn')));
});

t.test('import refuses a file that is not a model, and leaves nothing', async (t) => {
  const folder = t.testdir({ 'page.gguf': '<!doctype html>', 'mine.gguf': model('m'), 'cut.gguf': model('m').subarray(0, -300), sub: {} });
  for (const [args, code, sentence] of [
    [['page.gguf'], 1, /web page/], [['none.gguf'], 1, /There is no file .*none\.gguf/], [['sub'], 1, /is a folder/], [['cut.gguf'], 1, /cut off/],
    [[], 2, /Expected a file/], [['a', 'b'], 2, /Expected one file, got 2/], [['mine.gguf', '--copy', '--symlink'], 2, /got both/], [['mine.gguf', '--alias', 'a/b'], 2, /for the alias/],
    [['mine.gguf', '-a', 'builtin'], 2, /Recua uses the name builtin itself/], [['mine.gguf', '-a', ''], 2, /Expected a name for --alias/], [['mine.gguf', '--name', '../x'], 2, /for the repository/],
    [['mine.gguf', '--name', 'a/b/c'], 2, /for the repository/], [['mine.gguf', '--nam', 'x'], 2, /Did you mean --name/],
  ] as const) {
    const result = await recua(['import', ...args], '', { env: envOf(folder), cwd: folder });
    t.match(result, { code, stdout: '', stderr: sentence }, args.join(' '));
    t.equal(result.stderr.trim().split('\n').length, 1);
  }
  t.notOk(existsSync(join(folder, 'hub')));
  t.notOk(existsSync(join(folder, 'recua')));
});

t.test('import does not move the alias of another model, unless it is forced', async (t) => {
  const folder = t.testdir({ 'a.gguf': model('a'), 'b.gguf': model('b, of another size') });
  const at = (name: string) => join(folder, name);
  t.equal((await importing(folder, at('a.gguf'), '-a', 'x')).code, 0);
  t.match(await importing(folder, at('b.gguf'), '-a', 'x'), { code: 1, stderr: /alias x names local\/a\/a\.gguf already/ });
  t.notOk(existsSync(folderOf(join(folder, 'hub'), 'local/b')), 'nothing is imported either');
  t.match(await importing(folder, at('b.gguf'), '-a', 'x', '--force'), { code: 0, aliases: ['x'] });
  t.match((await recua(['ls'], '', { env: envOf(folder) })).stdout, /^local\/b .* x$/m);
});

t.test('an import larger than the free disk is refused before anything is read', async (t) => {
  const folder = t.testdir({ mine: {} });
  const path = join(folder, 'mine', 'huge.gguf');
  writeFileSync(path, model('m'));
  try {
    truncateSync(path, 12e12);
  } catch {
    return void t.comment('the file system takes no file of that length');
  }
  t.match(await importing(folder, path, '--copy'), { code: 1, stderr: /Expected room for the 12000000000000 bytes .* Free some space, or give --symlink/ });
  t.strictSame(readdirSync(join(folder, 'hub')), []);
  t.match(await importing(folder, path, '--symlink'), { code: 0 });
});

t.test('import shows a bar on a terminal, and Ctrl-C leaves nothing', async (t) => {
  const folder = t.testdir({ mine: {} });
  const path = join(folder, 'mine', 'huge.gguf');
  writeFileSync(path, model('m'));
  // Sparse, and too long to read within a test.
  truncateSync(path, 1e12);
  const terminal = spawn(process.execPath, [mainPath, 'import', path], { cols: 80, rows: 20, env: { ...process.env, ...envOf(folder) } as Record<string, string> });
  const timer = setTimeout(() => terminal.kill('SIGKILL'), 60_000);
  let screen = '';
  terminal.onData((data) => {
    if (!screen.includes('Checking [') && (screen + data).includes('Checking [')) terminal.write('\x03');
    screen += data;
  });
  const code = await new Promise<number>((resolve) => { terminal.onExit(({ exitCode }) => resolve(exitCode)); });
  clearTimeout(timer);
  t.equal(code, 130);
  t.match(screen, /Stopped; nothing was imported/);
  t.notMatch(screen, '\x1b[?7l', 'a kill would leave the terminal without line wrapping');
  t.strictSame(readdirSync(join(folder, 'hub')), []);
});

t.test('import takes a file without its extension, and names in any script', async (t) => {
  const folder = t.testdir({ mine: {} });
  for (const [name, expected] of [['sha256-0123', 'local/sha256-0123'], ['日本語 モデル.gguf', 'local/日本語-モデル'], ['...gguf', 'local/model'], ['語'.repeat(78) + '.gguf', `local/${'語'.repeat(66)}`], ['𠮷'.repeat(58) + '.gguf', `local/${'𠮷'.repeat(50)}`], ['a--b..c.gguf', 'local/a-b.c'], ['ñ'.normalize('NFD') + '.gguf', 'local/ñ']] as const) {
    const path = join(folder, 'mine', name);
    writeFileSync(path, model(name));
    const done = await importing(folder, path);
    t.match(done, { code: 0, name: expected }, name);
  }
  appendFileSync(join(folder, 'mine', 'con.gguf'), model('con'));
  t.match(await importing(folder, join(folder, 'mine', 'con.gguf')), { code: 1, stderr: /name of a device on Windows.* Rename the file, then import it\./ });
});

t.test('a whole model may be named like a part, or as the store names no file', async (t) => {
  const folder = t.testdir({ mine: {} });
  for (const [name, expected] of [['m-00002-of-00002.gguf', 'm.gguf'], ['s-00001-of-00003.gguf', 's.gguf'], ['one-00001-of-00001.gguf', 'one-00001-of-00001.gguf'], ['C:"x".gguf', 'C--x-.gguf']] as const) {
    for (const how of ['--copy', '--symlink']) {
      const path = join(folder, 'mine', name);
      writeFileSync(path, model(name));
      const done = await importing(folder, path, '--name', `me/${how.slice(2)}-${expected.slice(0, 1)}`, how);
      t.match(done, { code: 0, parts: 1 }, name);
      t.equal(basename(done.path), expected);
      t.equal((await recua(['show', String(done['name'])], '', { env: envOf(folder) })).code, 0);
    }
  }
});

t.test('import into a repository of the hub leaves its main to the files of the hub', async (t) => {
  const folder = t.testdir({ 'mine.gguf': model('mine') });
  const hub = join(folder, 'hub');
  put(hub, { repo: 'acme/m-GGUF', file: 'm-Q8_0.gguf', bytes: model('m') });
  const main = () => readFileSync(join(folderOf(hub, 'acme/m-GGUF'), 'refs', 'main'), 'utf8');
  for (const how of ['--copy', '--symlink']) {
    t.match(await importing(folder, join(folder, 'mine.gguf'), '--name', 'acme/m-GGUF', '--force', how), { code: 0, name: 'acme/m-GGUF/mine.gguf' });
    t.equal(main(), commitA);
  }
  const offline = await recua(['pull', 'acme/m-GGUF:Q8_0', '-q'], '', { env: { ...envOf(folder), HF_HUB_OFFLINE: '1' } });
  t.match(offline, { code: 0, stdout: /m-Q8_0\.gguf\n$/ });
});

t.test('import refuses invalid names as wrong usage, and an alias that hides a repository', async (t) => {
  const folder = t.testdir({ 'a.gguf': model('a') });
  put(join(folder, 'hub'), { repo: 'gpt2', file: 'gpt2.gguf', bytes: model('gpt2') });
  const path = join(folder, 'a.gguf');
  t.match(await importing(folder, path, '-a', 'two words'), { code: 2, stderr: /for the alias/ });
  t.match(await importing(folder, path, '--name', 'a/b/c'), { code: 2, stderr: /it has 3 parts/ });
  t.match(await importing(folder, path, '-a', 'gpt2'), { code: 1, stderr: /gpt2 is the name of a repository of the store already/ });
  t.match(await importing(folder, path, '-a', 'gpt2', '--force'), { code: 0, aliases: ['gpt2'] });
});
