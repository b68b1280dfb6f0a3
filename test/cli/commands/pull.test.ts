import t from 'tap';
import { builtinPath } from '#recua/models/store.js';
import { spawn } from '@lydell/node-pty';
import { totalmem } from 'node:os';
import { join } from 'node:path';
import { readFileSync } from 'node:fs';
import { durationText } from '#recua/cli/terminal/download-progress.js';
import { shellWord } from '#recua/models/names/shell-word.js';
import { FakeHub, commit, modelBytes } from '../../models/fake-hub.js';
import type { FakeFile, FakeRepo } from '../../models/fake-hub.js';
import { blobs, pull, snapshotOf } from '../../models/hub-pull.js';
import { Pty } from '../pty.js';
import { mainPath, recua, root } from '../recua.js';
import { deferred } from '../../deferred.js';

const builtin = readFileSync(join(root, 'builtin/builtin.gguf'));
const q4: FakeFile = { path: 'tiny-Q4_K_M.gguf', bytes: builtin };
const parts: FakeFile[] = [1, 2, 3].map((part) => ({ path: `BF16/tiny-BF16-0000${part}-of-00003.gguf`, bytes: modelBytes(100_000 * part) }));
const config: FakeFile = { path: 'config.json', small: true, bytes: Buffer.from('{"a":1}') };
const repos = (): FakeRepo[] => [{ name: 'owner/model', files: [q4, ...parts, { path: 'mmproj-F16.gguf', bytes: modelBytes(1000) }, config] }];

t.test('without a file the models of a repository are listed', async (t) => {
  const hub = await FakeHub.start(t, repos());
  const folder = t.testdir();
  const result = await pull(hub, folder, ['owner/model']);
  t.equal(result.code, 0, result.stderr);
  t.equal(result.stdout, [
    'FILE                                QUANTIZATION     SIZE        PARTS  CACHED  FITS MEMORY',
    'BF16/tiny-BF16-00001-of-00003.gguf  BF16             586 KiB     3      no      yes',
    'tiny-Q4_K_M.gguf                    Q4_K_M           2.29 MiB    1      no      yes',
    'mmproj-F16.gguf                     F16 (projector)  1000 bytes  1      no      -',
    '',
  ].join('\n'));
  t.match(result.stderr, /For this machine: recua pull owner\/model:Q4_K_M\n$/);
  t.strictSame(hub.pieces, [], 'nothing was downloaded');
  const quiet = await pull(hub, folder, ['owner/model', '-q']);
  t.equal(quiet.stdout, result.stdout);
  t.equal(quiet.stderr, '');
  const set = await recua(['pull', 'owner/model'], '', { cwd: folder, env: { ...hub.environment(folder), RECUA_CONNECTIONS: '2', RECUA_LIMIT_RATE: '1M' } });
  t.equal(set.stdout, result.stdout, 'settings for downloads are no reason to refuse');
});

t.test('on a terminal of 80 columns the listing cuts nothing and breaks no line', async (t) => {
  const files = ['Q4_K_M', 'Q8_0'].map((quantization) => ({ path: `Some-Model-3.2-1B-Instruct-abliterated-${quantization}.gguf`, bytes: modelBytes(1000) }));
  const hub = await FakeHub.start(t, [{ name: 'owner/model', files }]);
  const listing = new Pty(['pull', 'owner/model', '-q'], { env: hub.environment(t.testdir()) as Record<string, string> });
  t.teardown(() => listing.dispose());
  t.equal((await listing.ended).exitCode, 0, listing.raw);
  t.strictSame(listing.lines(), listing.raw.split('\r\n').filter((line) => line !== '').map((line) => line.trimEnd()));
  for (const { path } of files) t.ok(listing.lines().includes(path), listing.text());
  t.notMatch(listing.text(), /…/);
});

t.test('a model too large for the machine is marked in the listing', async (t) => {
  const lfs = (size: number) => ({ oid: '1'.repeat(64), size });
  const hub = await FakeHub.start(t, [{ name: 'owner/model', files: [], listing: [
    { type: 'file', path: 'huge-F16.gguf', size: totalmem(), lfs: lfs(totalmem()) }, { type: 'file', path: 'small-Q2_K.gguf', size: 1000, lfs: lfs(1000) },
  ] }]);
  const { stdout } = await pull(hub, t.testdir(), ['owner/model', '--json']);
  t.strictSame(JSON.parse(stdout).models.map((one: any) => [one.name, one.fits_memory]), [['small-Q2_K', true], ['huge-F16', false]]);
});

t.test('the listing says what is cached, and how much of it', async (t) => {
  const hub = await FakeHub.start(t, repos());
  const folder = t.testdir();
  t.equal((await pull(hub, folder, ['owner/model:Q4_K_M'])).code, 0);
  hub.onBytes = ({ count, response }) => count > 40 && Boolean(response.destroy());
  t.equal((await pull(hub, folder, ['owner/model:BF16', '--connections', '1'])).code, 1);
  const listing = JSON.parse((await pull(hub, folder, ['owner/model', '--json'])).stdout);
  t.match(listing, { repository: 'owner/model', revision: 'main', commit, refused_names: [] });
  const [bf16, whole, projector] = listing.models;
  t.match(whole, { name: 'tiny-Q4_K_M', kind: 'model', quantization: 'Q4_K_M', size_bytes: builtin.length, parts: 1, cached: true, cached_bytes: builtin.length, fits_memory: true,
    files: [{ file: 'tiny-Q4_K_M.gguf', size_bytes: builtin.length, sha256: /^[0-9a-f]{64}$/ }] });
  t.match(bf16, { name: 'BF16/tiny-BF16', parts: 3, size_bytes: 600_000, cached: false });
  t.equal(bf16.cached_bytes, 100_000 + 65_536, 'the first part and a chunk of the second');
  t.match(projector, { kind: 'projector', cached: false });
  t.match((await pull(hub, folder, ['owner/model'])).stdout, /BF16 .* 27 % .*\n.*Q4_K_M .* yes /);
});

t.test('a download prints a line for every tenth, and only its path goes to stdout', async (t) => {
  const hub = await FakeHub.start(t, repos());
  const folder = t.testdir();
  const result = await pull(hub, folder, ['owner/model', '--file', 'tiny-Q4_K_M.gguf']);
  t.equal(result.code, 0, result.stderr);
  t.equal(result.stdout, `${snapshotOf(folder, q4.path)}\n`);
  const lines = result.stderr.trimEnd().split('\n');
  t.equal(lines[0], 'tiny-Q4_K_M.gguf  2.29 MiB');
  t.equal(lines.at(-1), 'Try: recua run owner/model -p "Hello"');
  const tenths = lines.slice(1, -1).map((line) => Number(/^ *(\d+) % of 2\.29 MiB/.exec(line)?.[1]));
  t.ok(tenths.length >= 8 && tenths.length <= 10 && tenths.at(-1) === 100, lines.join('\n'));
  t.notMatch(result.stderr, /\u001b/, 'no escape codes');
  const asked = hub.pieces.length;
  const again = await pull(hub, folder, ['owner/model:q4_k_m', '-q']);
  t.strictSame([again.code, again.stdout, again.stderr], [0, result.stdout, ''], 'the second time it is there, and -q says nothing');
  t.equal(hub.pieces.length, asked);
  const run = await recua(['run', result.stdout.trim(), '-p', 'Hello', '-n', '4', '-q'], '', { env: hub.environment(folder) });
  t.equal(run.code, 0, run.stderr);
});

t.test('the name to try means no other model of the store', async (t) => {
  const files = ['base-Q4_K_M.gguf', 'chat-Q4_K_M.gguf', 'chat-Q8_0.gguf'].map((path) => ({ path, bytes: modelBytes(1_000) }));
  const hub = await FakeHub.start(t, [{ name: 'owner/two', files }]);
  const folder = t.testdir();
  for (const [file, name] of [['base-Q4_K_M.gguf', 'owner/two'], ['chat-Q4_K_M.gguf', 'owner/two/chat-Q4_K_M.gguf'], ['chat-Q8_0.gguf', 'owner/two:Q8_0']] as const) {
    t.match((await pull(hub, folder, ['owner/two', '--file', file])).stderr, `\nTry: recua run ${name} -p "Hello"\n`);
  }
});

t.test('a split model is pulled whole, whichever part is named', async (t) => {
  for (const word of ['BF16', 'BF16/tiny-BF16-00002-of-00003.gguf']) {
    const hub = await FakeHub.start(t, repos());
    const folder = t.testdir({});
    const result = await pull(hub, folder, ['owner/model', '-f', word, '--json']);
    t.equal(result.code, 0, result.stderr);
    t.strictSame(JSON.parse(result.stdout), {
      repository: 'owner/model', revision: 'main', commit,
      files: parts.map(({ path, bytes }) => ({ file: path, path: snapshotOf(folder, path), size_bytes: bytes.length })),
    });
    for (const { path, bytes } of parts) t.ok(readFileSync(snapshotOf(folder, path)).equals(bytes), path);
    t.match(result.stderr, /^BF16\/tiny-BF16-00001-of-00003\.gguf {2}97\.7 KiB\nBF16\/tiny-BF16-00002.*\nBF16\/tiny-BF16-00003/, 'the files are named before');
    hub.close();
  }
});

t.test('a plan is shown and nothing is done', async (t) => {
  const hub = await FakeHub.start(t, repos());
  const folder = t.testdir();
  const result = await pull(hub, folder, ['owner/model:BF16', '--dry-run']);
  t.equal(result.code, 0, result.stderr);
  t.match(result.stdout, /^owner\/model at main \(aaaaaaa\)\n\nFILE .*SIZE +HAVE +NEED\n(BF16\/.*\n){3}\nTo download: 586 KiB of 586 KiB\. Free on the disk: \d/);
  const plan = JSON.parse((await pull(hub, folder, ['owner/model:BF16', '--dry-run', '--json'])).stdout);
  t.match(plan, {
    total_bytes: 600_000,
    have_bytes: 0,
    need_bytes: 600_000,
    free_bytes: Number,
    files: [{ file: parts[0]!.path, have_bytes: 0, need_bytes: 100_000 }, {}, {}],
  });
  t.strictSame(blobs(folder), []);
  t.strictSame(hub.pieces, []);
});

t.test('a revision is named after @ or with --revision', async (t) => {
  const hub = await FakeHub.start(t, repos());
  const other = 'c'.repeat(40);
  hub.repos[0]!.revisions = { 'main': commit, 'refs/pr/1': other };
  const folder = t.testdir();
  for (const args of [['owner/model@refs/pr/1:Q4_K_M'], ['owner/model:Q4_K_M', '--revision', 'refs/pr/1']]) {
    const result = await pull(hub, folder, args);
    t.equal(result.code, 0, result.stderr);
    t.equal(result.stdout, `${snapshotOf(folder, q4.path, 'owner/model', other)}\n`);
    t.ok(result.stderr.includes(`Try: recua run ${shellWord(result.stdout.trim())} -p`), result.stderr);
  }
});

t.test('a revision in a command to type is quoted for the shell', async (t) => {
  const hub = await FakeHub.start(t, repos());
  hub.repos[0]!.revisions = { "it's": commit };
  const { stderr } = await pull(hub, t.testdir(), ['owner/model', '--revision', "it's"]);
  t.match(stderr, `recua pull owner/model:Q4_K_M --revision 'it'\\''s'\n`);
});

t.test('without the hub, a cached file of that revision is enough', async (t) => {
  const hub = await FakeHub.start(t, repos());
  const folder = t.testdir();
  t.equal((await pull(hub, folder, ['owner/model:BF16'])).code, 0);
  const again = async (name: string) => await pull(hub, folder, [name, '--json'], { HF_HUB_OFFLINE: '1' });
  for (const name of ['owner/model:BF16', `owner/model@${commit.slice(0, 7)}:BF16`]) {
    const { code, stdout, stderr } = await again(name);
    t.equal(code, 0, stderr);
    t.match(stderr, /already in the cache/);
    t.match(JSON.parse(stdout), {
      commit,
      files: parts.map(({ path, bytes }) => ({ file: path, path: snapshotOf(folder, path), size_bytes: bytes.length })),
    });
  }
  for (const name of ['owner/model:Q4_K_M', 'owner/model@v1:BF16', 'owner/other:BF16']) t.match(await again(name), { code: 1, stderr: /HF_HUB_OFFLINE is set/ }, name);
});

t.test('the speed can be limited', async (t) => {
  const hub = await FakeHub.start(t, [{ name: 'owner/model', files: [{ ...parts[0]!, path: 'm-Q8_0.gguf' }] }]);
  const folder = t.testdir();
  const result = await pull(hub, folder, ['owner/model:Q8_0', '--limit-rate', '400K', '--connections', '2']);
  t.equal(result.code, 0, result.stderr);
  t.ok(readFileSync(snapshotOf(folder, 'm-Q8_0.gguf')).equals(parts[0]!.bytes));
});

t.test('wrong calls are refused before any request', async (t) => {
  const hub = await FakeHub.start(t, repos());
  const folder = t.testdir();
  const cases: [args: string[], says: RegExp][] = [
    [[builtinPath], /builtin\.gguf is a file of this machine\. To add it to the store: recua import /],
    [[], /Expected a repository: recua pull <owner\/repo>/],
    [['owner/model', 'more'], /Expected one repository, got also more/],
    [['owner/model', '--force'], /Expected a file to download with --force: recua pull owner\/model --file <name>/],
    [['owner/model', '--dry-run'], /Expected a file to download with --dry-run/],
    [['owner/model:Q4_0', '--file', 'x.gguf'], /Expected one file, got Q4_0 in owner\/model:Q4_0 and --file x\.gguf/],
    [['owner/model@a', '--revision', 'b'], /Expected one revision, got a in owner\/model@a and --revision b/],
    [['owner/model:Q4_0', '--limit-rate', 'fast'], /Expected bytes per second like 500K, 2M or 1\.5MiB/],
    [['owner/model:Q4_0', '--connections', '0'], /Expected a whole number from 1 to 32 for --connections/],
    [['../../etc/passwd'], /Expected owner\/name, made of letters/],
    [['https://example.com/owner/model'], /example\.com is not the hub; HF_ENDPOINT names another hub/],
    [['owner/model', '--forec'], /has no flag --forec\. Did you mean --force\?/],
  ];
  for (const [args, says] of cases) {
    const result = await pull(hub, folder, args);
    t.equal(result.code, 2, args.join(' '));
    t.match(result.stderr, says);
    t.equal(result.stdout, '');
  }
  t.strictSame(hub.requests, []);
});

t.test('a terminal gets a bar with speed, and a clean line afterwards', async (t) => {
  const hub = await FakeHub.start(t, repos());
  const folder = t.testdir();
  hub.sendBytes = 8192;
  let sent = 0;
  // Slow enough for the bar to move.
  hub.onSend = async () => { if (sent++ % 20 === 0) await new Promise((resolve) => setTimeout(resolve, 40)); };
  const terminal = spawn(process.execPath, [mainPath, 'pull', 'owner/model:Q4_K_M'], { cols: 100, rows: 30, cwd: folder, env: { ...process.env, ...hub.environment(folder) } });
  t.teardown(() => { try { terminal.kill('SIGKILL'); } catch { /* It ended. */ } });
  let shown = '';
  terminal.onData((text) => { shown += text; });
  const code = await new Promise((resolve) => terminal.onExit(({ exitCode }) => resolve(exitCode)));
  t.equal(code, 0, shown);
  t.match(shown, /\[=+ +\] +\d+ % of 2\.29 MiB, [\d.]+ (KiB|MiB)\/s, \d+ s left/);
  t.match(shown, /\[=+\] 100 % of 2\.29 MiB/);
  t.notMatch(shown.replace(/\u001b\[\?7l[^\u001b\r\n]*\u001b\[J\u001b\[\?7h\r/g, ''), /\u001b\[\?/, 'no mode is left on if it is killed');
  t.match(shown.slice(shown.lastIndexOf('% of')), /\n.*tiny-Q4_K_M\.gguf\r\n.*Try: recua run owner\/model -p/s);
});

t.test('a terminal that is made narrower keeps one bar', async (t) => {
  const hub = await FakeHub.start(t, repos());
  const folder = t.testdir();
  hub.sendBytes = 8192;
  const { promise: held, resolve: letGo } = deferred();
  hub.onSend = (_piece, offset) => (offset > 1_000_000 ? held : undefined);
  const terminal = new Pty(['pull', 'owner/model:Q4_K_M', '--connections', '1'], { env: hub.environment(folder), columns: 100, cwd: folder });
  t.teardown(() => terminal.dispose());
  await terminal.until(/\[=+ +\] +4\d % of/);
  const bars = () => terminal.lines().filter((line) => /^\[| % of/.test(line)).length;
  let drawn = 0;
  for (const columns of [80, 60, 33]) {
    terminal.resizeUnheard(columns, 24);
    // It keeps drawing for the width it knows.
    drawn = terminal.raw.length;
    await terminal.until(() => terminal.raw.length > drawn + 500, 'some drawing');
    t.equal(bars(), 1, terminal.text());
    terminal.resize(columns, 24);
    await terminal.until(() => bars() === 1 && /^ ?(\[[= ]+\] )? *4\d % of/.test(terminal.lines().at(-1)!), `one bar of ${columns} columns`);
  }
  letGo();
  t.equal((await terminal.ended).exitCode, 0);
  await terminal.until(/100 % of/);
  t.equal(bars(), 1, terminal.text());
  t.match(terminal.text(), /^tiny-Q4_K_M\.gguf {2}2\.29 MiB$/m, 'what stood above is still there');
});

t.test('the time left is phrased for people', (t) => {
  for (const [seconds, text] of [[0, '1 s'], [59, '59 s'], [61, '1 min 1 s'], [3600, '1 h 0 min'], [7500, '2 h 5 min'], [1e9, 'days'], [Infinity, 'days']] as const) t.equal(durationText(seconds), text);
  t.end();
});
