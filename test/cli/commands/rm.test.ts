import t from 'tap';
import { spawn } from '@lydell/node-pty';
import { existsSync, linkSync, lstatSync, mkdirSync, readFileSync, readdirSync, renameSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { dirname, join } from 'node:path';
import { addAlias } from '#recua/models/aliases.js';
import { sizeText } from '#recua/models/byte-size.js';
import { findPlaces } from '#recua/models/places.js';
import { commitA, commitB, folderOf, model, modelPart, partFile, put, putPartial, sha256 } from '../../models/hub-layout.js';
import { startPuller } from '../../models/pulling.js';
import { mainPath, recua } from '../recua.js';

function envOf(folder: string): Record<string, string> {
  return { SERVICE_HOME: folder, HUB_HOME: '', HF_HOME: '', HF_HUB_CACHE: '' };
}

/** All names below a folder, except folders. */
function files(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .sort();
}

t.test('rm removes a repository with its folders, blobs and refs, and nothing else', async (t) => {
  const folder = t.testdir();
  const hub = join(folder, 'hub');
  put(hub, { repo: 'acme/keep', file: 'keep.gguf', bytes: model('keep') });
  const before = files(hub);
  for (const part of [1, 2]) put(hub, { repo: 'acme/go', file: `Q4_0/${partFile('go', part, 2)}`, bytes: modelPart(part - 1, 2), refs: ['main', 'refs/pr/1'] });
  put(hub, { repo: 'acme/go', file: 'mmproj-F16.gguf', bytes: model('eyes') });
  mkdirSync(join(folderOf(hub, 'acme/go'), '.no_exist', commitA), { recursive: true });
  writeFileSync(join(folderOf(hub, 'acme/go'), '.no_exist', commitA, 'config.json'), '');
  const freed = modelPart(0, 2).length + modelPart(1, 2).length + model('eyes').length;
  const { code, stdout } = await recua(['rm', '-y', 'acme/go'], '', { env: envOf(folder) });
  t.equal(code, 0);
  t.equal(stdout, `Removed acme/go (${sizeText(modelPart(0, 2).length + modelPart(1, 2).length)})\nRemoved acme/go/mmproj-F16.gguf\nFreed ${sizeText(freed)}.\n`);
  t.strictSame(files(hub), before);
  t.notOk(existsSync(folderOf(hub, 'acme/go')));
});

t.test('rm leaves what another model, another snapshot or another program needs', async (t) => {
  const folder = t.testdir();
  const hub = join(folder, 'hub');
  const shared = model('shared');
  put(hub, { repo: 'o/r', file: 'a-Q4_0.gguf', bytes: shared });
  put(hub, { repo: 'o/r', file: 'twin-Q8_0.gguf', bytes: shared, commit: commitB, refs: ['v2'] });
  put(hub, { repo: 'o/r', file: 'config.json', bytes: '{}' });
  put(hub, { repo: 'o/r', file: 'mmproj-F16.gguf', bytes: model('eyes') });
  const first = await recua(['rm', '-y', 'o/r:Q4_0'], '', { env: envOf(folder) });
  t.match(first, { code: 0, stdout: /Freed 0 bytes/ });
  t.strictSame(readFileSync(join(folderOf(hub, 'o/r'), 'snapshots', commitB, 'twin-Q8_0.gguf')), shared);
  t.ok(existsSync(join(folderOf(hub, 'o/r'), 'snapshots', commitA, 'mmproj-F16.gguf')), 'it goes with the last model only');
  const second = await recua(['rm', '-y', 'o/r'], '', { env: envOf(folder) });
  t.match(second, { code: 0, stderr: /o\/r has 1 other file in the cache, which stays/ });
  t.strictSame(files(folderOf(hub, 'o/r')), [`blobs/${sha256('{}')}`, 'refs/main', `snapshots/${commitA}/config.json`].sort());
});

t.test('rm removes every version of a model, and contents stored in the snapshot itself', async (t) => {
  const folder = t.testdir();
  const hub = join(folder, 'hub');
  put(hub, { repo: 'o/r', file: 'm.gguf', bytes: model('new'), commit: commitB });
  put(hub, { repo: 'o/r', file: 'm.gguf', bytes: model('old'), commit: commitA, refs: ['v1'] });
  put(hub, { repo: 'o/plain', file: 'p.gguf', bytes: model('plain'), plain: true });
  const both = put(hub, { repo: 'o/both', file: 'b.gguf', bytes: model('both') });
  // As publishBlob() leaves it without symlink rights: two names for the same contents.
  const blob = join(folderOf(hub, 'o/both'), 'blobs', sha256(model('both')));
  linkSync(blob, `${both}.new`);
  renameSync(`${both}.new`, both);
  const result = JSON.parse((await recua(['rm', '-y', '--json', 'o/r', 'p', 'o/both/b.gguf'], '', { env: envOf(folder) })).stdout) as Record<string, unknown>;
  t.match(result, { dry_run: false, models: [{ name: 'o/both' }, { name: 'o/plain' }, { name: 'o/r' }], freed_bytes: ['new', 'old', 'plain', 'both'].reduce((sum, salt) => sum + model(salt).length, 0) });
  t.strictSame(readdirSync(hub), []);
});

t.test('rm of a revision removes what only it has, and the rest keeps its alias', async (t) => {
  const folder = t.testdir();
  const hub = join(folder, 'hub');
  const env = envOf(folder);
  const eyes = model('eyes');
  put(hub, { repo: 'o/r', file: 'm.gguf', bytes: model('new'), commit: commitB });
  put(hub, { repo: 'o/r', file: 'mmproj-F16.gguf', bytes: eyes, commit: commitB });
  put(hub, { repo: 'o/r', file: 'm.gguf', bytes: model('old'), commit: commitA, refs: ['v1'] });
  put(hub, { repo: 'o/r', file: 'mmproj-F16.gguf', bytes: eyes, commit: commitA, refs: ['v1'] });
  await addAlias(findPlaces(env), 'mine', { repo: 'o/r', file: 'm.gguf' }, false);
  const missing = await recua(['rm', '-y', 'o/r@v2'], '', { env });
  t.match(missing, { code: 1, stderr: /no revision v2, only main, v1/ });
  const old = JSON.parse((await recua(['rm', '-y', '--json', 'o/r@v1'], '', { env })).stdout) as Record<string, unknown>;
  t.match(old, { models: [{ name: 'o/r@v1' }], aliases: [], freed_bytes: model('old').length });
  t.strictSame(files(folderOf(hub, 'o/r')), [
    `blobs/${sha256(model('new'))}`, `blobs/${sha256(eyes)}`, 'refs/main', `snapshots/${commitB}/m.gguf`, `snapshots/${commitB}/mmproj-F16.gguf`,
  ].sort());
  const last = JSON.parse((await recua(['rm', '-y', '--json', `o/r@${commitB.slice(0, 8)}`], '', { env })).stdout) as Record<string, unknown>;
  t.match(last, { aliases: ['mine'] }, 'the last copy takes the alias along');
  t.strictSame(readdirSync(hub), []);
});

t.test('rm of an imported link removes the link, never its target', async (t) => {
  const folder = t.testdir({ mine: {} });
  const hub = join(folder, 'hub');
  const mine = join(folder, 'mine', 'my.gguf');
  writeFileSync(mine, model('mine'));
  t.equal((await recua(['import', mine, '--symlink'], '', { env: envOf(folder) })).code, 0);
  const { code, stdout } = await recua(['rm', '-y', 'local/my'], '', { env: envOf(folder) });
  t.equal(code, 0);
  t.match(stdout, new RegExp(`a link; ${mine} stays`));
  t.match(stdout, /Freed 0 bytes/);
  t.strictSame(readFileSync(mine), model('mine'));
  t.strictSame(readdirSync(hub), []);
});

t.test('rm follows no link out of the store, however it got there', async (t) => {
  const folder = t.testdir({ outside: { blobs: {} } });
  const hub = join(folder, 'hub');
  const outside = join(folder, 'outside');
  writeFileSync(join(outside, 'precious.gguf'), model('precious'));
  writeFileSync(join(outside, 'blobs', 'x'), model('x'));
  const path = put(hub, { repo: 'o/r', file: 'm.gguf', bytes: model('m') });
  symlinkSync('../../../../../outside/precious.gguf', join(dirname(path), 'evil.gguf'));
  symlinkSync('../../blobs/../../../../outside/precious.gguf', join(dirname(path), 'worse.gguf'));
  symlinkSync(outside, join(dirname(path), 'folder'));
  // A blob that is itself a link.
  symlinkSync(join(outside, 'blobs', 'x'), join(folderOf(hub, 'o/r'), 'blobs', 'y'));
  symlinkSync('../../blobs/y', join(dirname(path), 'y.gguf'));
  // A repository that is a link.
  put(join(folder, 'outside'), { repo: 'o/linked', file: 'l.gguf', bytes: model('l') });
  symlinkSync(folderOf(outside, 'o/linked'), folderOf(hub, 'o/linked'));
  const before = files(outside);
  t.equal((await recua(['rm', '-y', 'o/r'], '', { env: envOf(folder) })).code, 0);
  for (const how of ['-y', '--dry-run']) t.match(await recua(['rm', how, 'o/linked'], '', { env: envOf(folder) }), { code: 1, stdout: '', stderr: /is a link to a place outside the model store/ });
  t.strictSame(files(outside), before);
  // Blobs stored elsewhere.
  put(hub, { repo: 'o/s', file: 's.gguf', bytes: model('s') });
  renameSync(join(folderOf(hub, 'o/s'), 'blobs'), join(outside, 'moved'));
  symlinkSync(join(outside, 'moved'), join(folderOf(hub, 'o/s'), 'blobs'));
  t.match(await recua(['rm', '-y', 'o/s'], '', { env: envOf(folder) }), { code: 1, stderr: /outside the model store/ });
  t.equal(readdirSync(join(outside, 'moved')).length, 1);
  t.ok(existsSync(join(folderOf(hub, 'o/s'), 'snapshots', commitA, 's.gguf')), 'what is refused stays whole');
});

t.test('rm refuses builtin, files elsewhere, and names that match nothing or too much', async (t) => {
  const folder = t.testdir({ mine: {} });
  const hub = join(folder, 'hub');
  const mine = join(folder, 'mine', 'my.gguf');
  writeFileSync(mine, model('mine'));
  put(hub, { repo: 'o/a', file: 'same.gguf', bytes: model('a') });
  put(hub, { repo: 'o/b', file: 'same.gguf', bytes: model('b') });
  const before = files(hub);
  const env = envOf(folder);
  t.match(await recua(['rm', '-y', 'builtin'], '', { env }), { code: 2, stderr: /built-in model builtin .* cannot be removed/ });
  t.match(await recua(['rm', '-y', mine], '', { env }), { code: 2, stderr: /is no model of the store .* delete the file yourself/ });
  t.match(await recua(['rm', '-y', 'o/a', 'o/c'], '', { env }), { code: 1, stderr: /There is no model o\/c/ });
  t.notMatch((await recua(['rm', '-y', 'nosuch'], '', { env })).stderr, /builtin/, 'which cannot be removed');
  t.match(await recua(['rm', '-y', 'same'], '', { env }), { code: 1, stderr: /means 2 models of the store; give one of them: o\/a, o\/b/ });
  for (const name of ['../outside', '..', '/', '/etc/passwd', 'o/../..', 'o/a/../../x.gguf', 'a\x1b', '--', '.', '~', 'C:\\']) {
    const { code } = await recua(['rm', '-y', name], '', { env });
    t.ok(code === 1 || code === 2, JSON.stringify(name));
  }
  t.match(await recua(['rm'], '', { env }), { code: 2, stderr: /Expected a model/ });
  t.strictSame(files(hub), before, 'nothing was removed, not even what was found');
  t.ok(existsSync(mine));
});

t.test('rm without a terminal removes only what is named exactly', async (t) => {
  const folder = t.testdir();
  const hub = join(folder, 'hub');
  const env = envOf(folder);
  const names = ['Owner/Repo', 'Owner/Repo:Q4_0', 'Owner/Repo/m-Q4_0.gguf', 'hf:Owner/Repo', 'alias'];
  for (const name of names) {
    put(hub, { repo: 'Owner/Repo', file: 'm-Q4_0.gguf', bytes: model('m') });
    await addAlias(findPlaces(env), 'alias', { repo: 'Owner/Repo', file: 'm-Q4_0.gguf' }, false);
    const before = files(hub);
    for (const guess of ['owner/repo', 'owner/repo:Q4_0', 'm-Q4_0', 'M-q4_0.gguf']) {
      t.match(await recua(['rm', guess], 'y\n', { env }), { code: 2, stdout: '', stderr: /Expected the exact name of a model without a terminal to ask on, got .*\. Did you mean Owner\/Repo\?/ }, guess);
      t.strictSame(files(hub), before);
    }
    t.match(await recua(['rm', name], '', { env }), { code: 0, stdout: /^Removed Owner\/Repo / }, name);
    t.strictSame(files(hub), []);
  }
  put(hub, { repo: 'Owner/Repo', file: 'm-Q4_0.gguf', bytes: model('m') });
  t.equal((await recua(['rm', '-y', 'owner/repo'], '', { env })).code, 0, 'with -y a guess is good enough');
});

t.test('rm of an alias of a pulled model removes the alias alone', async (t) => {
  const folder = t.testdir();
  const hub = join(folder, 'hub');
  const env = envOf(folder);
  const mine = join(folder, 'mine.gguf');
  put(hub, { repo: 'o/r', file: 'm.gguf', bytes: model('m') });
  const before = files(hub);
  writeFileSync(mine, model('m'));
  t.equal((await recua(['import', mine, '-a', 'tiny'], '', { env })).code, 0);
  t.match(JSON.parse((await recua(['rm', '--dry-run', '--json', 'tiny'], '', { env })).stdout), { models: [], files: [], blobs: [], aliases: ['tiny'], freed_bytes: 0 });
  t.match(await recua(['rm', 'tiny'], '', { env }), { code: 0, stdout: 'Removed the alias tiny\n', stderr: /o\/r stays: it was in the store before the alias\. To remove it, name it: recua rm o\/r/ });
  t.strictSame(files(hub), before);
  // A model named itself goes with its aliases; an imported one can be removed by its alias.
  t.equal((await recua(['import', mine, '-a', 'tiny'], '', { env })).code, 0);
  t.match(await recua(['rm', 'o/r', 'tiny'], '', { env }), { code: 0, stdout: /Removed o\/r .*\nRemoved the alias tiny/, stderr: '' });
  t.equal((await recua(['import', mine, '-a', 'tiny'], '', { env })).code, 0);
  t.equal((await recua(['cp', 'tiny', 'other'], '', { env })).code, 0);
  t.equal((await recua(['cp', 'tiny', 'third'], '', { env })).code, 0);
  t.match(await recua(['rm', 'third'], '', { env }), { code: 0, stdout: 'Removed the alias third\n' });
  const size = sizeText(model('m').length);
  t.match(await recua(['rm', 'tiny'], '', { env }), {
    code: 0,
    stdout: `Removed local/mine (${size})\nRemoved the alias other\nRemoved the alias tiny\nFreed nothing: ${size} stay on the disk, because other files are hard links to the same contents.\n`,
  });
  t.strictSame(files(hub), []);
  t.ok(existsSync(mine));
  for (const [name, words] of [['alias', /if recua import gave the name to a model that was new/], ['cp', /removes only the name; recua rm of the model removes both/], ['import', /recua rm of the alias removes both;/], ['rm', /removes the model with all its aliases/]] as const) {
    t.match((await recua(['help', name])).stdout.replaceAll(/\s+/g, ' '), words);
  }
});

t.test('rm on a terminal asks, and --dry-run says what would be removed', async (t) => {
  const folder = t.testdir();
  const hub = join(folder, 'hub');
  put(hub, { repo: 'o/r', file: 'm.gguf', bytes: model('m') });
  const before = files(hub);
  const dry = await recua(['rm', '--dry-run', 'o/r'], '', { env: envOf(folder) });
  t.match(dry, { code: 0, stdout: /^o\/r \(\d+ bytes\)\nThis would free \d+ bytes\.\n$/ });
  t.match(JSON.parse((await recua(['rm', '--dry-run', '--json', 'o/r'], '', { env: envOf(folder) })).stdout), { dry_run: true, models: [{ name: 'o/r' }], blobs: [join(folderOf(hub, 'o/r'), 'blobs', sha256(model('m')))] });
  t.strictSame(files(hub), before);
});

/** Runs it on a real terminal; answers the question with `keys`. */
async function onTerminal(args: string[], env: Record<string, string>, keys: string): Promise<{ code: number; screen: string }> {
  const terminal = spawn(process.execPath, [mainPath, ...args], { cols: 100, rows: 30, env: { ...process.env, ...env, NO_COLOR: '1' } as Record<string, string> });
  let screen = '';
  let answered = false;
  terminal.onData((data) => {
    screen += data;
    if (answered || !screen.includes('[y/N]')) return;
    answered = true;
    terminal.write(keys);
  });
  const timer = setTimeout(() => terminal.kill('SIGKILL'), 60_000);
  const code = await new Promise<number>((resolve) => { terminal.onExit(({ exitCode }) => resolve(exitCode)); });
  clearTimeout(timer);
  return { code, screen };
}

t.test('rm on a terminal lists what it will remove and waits for yes', async (t) => {
  const folder = t.testdir();
  const hub = join(folder, 'hub');
  put(hub, { repo: 'o/r', file: 'm.gguf', bytes: model('m') });
  await addAlias(findPlaces(envOf(folder)), 'tiny', { repo: 'o/r', file: 'm.gguf' }, false);
  const before = files(hub);
  for (const [keys, code] of [['n\r', 1], ['\r', 1], ['yess\r', 1], ['\x04', 1], ['\x03', 130]] as const) {
    const asked = await onTerminal(['rm', 'tiny'], envOf(folder), keys);
    t.equal(asked.code, code, JSON.stringify(keys));
    t.match(asked.screen, /This removes\r\n {2}o\/r \(\d+ bytes\)\r\n {2}the alias tiny\r\nand frees \d+ bytes\.\r\n/);
    if (code === 130) t.match(asked.screen, /\[y\/N\] [^\n]*\r\nrecua: Stopped; nothing was removed/);
    t.strictSame(files(hub), before);
  }
  const yes = await onTerminal(['rm', 'tiny'], envOf(folder), 'y\r');
  t.equal(yes.code, 0);
  t.match(yes.screen, /Removed o\/r/);
  t.strictSame(readdirSync(hub), []);
  t.equal(readFileSync(join(folder, 'recua', 'aliases.json'), 'utf8'), '{\n  "aliases": {}\n}\n');
  t.match(await recua(['rm', '-y', 'tiny'], '', { env: envOf(folder) }), { code: 1 });
});

t.test('rm removes an alias that points to nothing', async (t) => {
  const folder = t.testdir();
  mkdirSync(join(folder, 'recua'));
  writeFileSync(join(folder, 'recua', 'aliases.json'), JSON.stringify({ aliases: { old: { repo: 'o/gone', file: 'x.gguf' } } }));
  t.match(await recua(['rm', '-y', 'old'], '', { env: envOf(folder) }), { code: 0, stdout: /Removed the alias old/ });
  t.match(await recua(['rm', '-y', 'old'], '', { env: envOf(folder) }), { code: 1 });
});

t.test('rm removes a partial download by its name', async (t) => {
  const folder = t.testdir();
  const hub = join(folder, 'hub');
  put(hub, { repo: 'o/r', file: 'm-Q8_0.gguf', bytes: model('m') });
  const before = files(hub);
  putPartial(hub, { repo: 'o/r', file: 'm-Q4_0.gguf', etag: '1'.repeat(64), sizeBytes: 10_000, doneBytes: 5000 });
  putPartial(hub, { repo: 'o/r', file: '', etag: '2'.repeat(64), sizeBytes: 10, doneBytes: 5, journal: 'broken' });
  t.match(await recua(['rm', '-y', 'o/r:Q4_0'], '', { env: envOf(folder) }), { code: 0, stdout: /Removed o\/r:Q4_0 \(4\.88 KiB, 50 % downloaded\)\nFreed 4\.88 KiB/ });
  t.match(await recua(['rm', '-y', `o/r (${'2'.repeat(12)}…)`], '', { env: envOf(folder) }), { code: 0 });
  t.strictSame(files(hub), before);
  // The leftovers of a forced pull of a model that is already there.
  put(hub, { repo: 'o/forced', file: 'f.gguf', bytes: model('f') });
  putPartial(hub, { repo: 'o/forced', file: 'f.gguf', etag: sha256(model('f')), sizeBytes: 10_000, doneBytes: 5000 });
  t.match(await recua(['rm', '-y', 'o/forced'], '', { env: envOf(folder) }), { code: 0 });
  t.notOk(existsSync(folderOf(hub, 'o/forced')));
  putPartial(hub, { repo: 'o/only', file: 'x.gguf', etag: '3'.repeat(64), sizeBytes: 10, doneBytes: 5 });
  t.equal((await recua(['rm', '-y', 'o/only'], '', { env: envOf(folder) })).code, 0);
  t.notOk(existsSync(folderOf(hub, 'o/only')));
});

t.test('rm leaves a running Python download, and removes an idle one', async (t) => {
  const folder = t.testdir();
  const hub = join(folder, 'hub');
  put(hub, { repo: 'o/r', file: 'm.gguf', bytes: model('m') });
  const incomplete = join(folderOf(hub, 'o/r'), 'blobs', `${'4'.repeat(64)}.incomplete`);
  writeFileSync(incomplete, model('python'));
  t.equal((await recua(['rm', '-y', 'o/r'], '', { env: envOf(folder) })).code, 0);
  t.ok(existsSync(incomplete));
  utimesSync(incomplete, 1000, 1000);
  t.equal((await recua(['rm', '-y', 'o/r'], '', { env: envOf(folder) })).code, 0);
  t.strictSame(readdirSync(hub), []);
});

t.test('rm stops a running pull, and takes over from a killed one', async (t) => {
  const folder = t.testdir();
  const hub = join(folder, 'hub');
  const entry = { repo: 'o/r', file: 'm.gguf', etag: '1'.repeat(64), sizeBytes: 1000, doneBytes: 500 };
  const puller = await startPuller(putPartial(hub, entry), (end) => t.teardown(end));
  const ended = once(puller, 'exit');
  t.match(await recua(['rm', '-y', 'o/r'], '', { env: envOf(folder) }), { code: 0, stdout: /the pull that runs now is stopped/ });
  t.equal((await ended)[0], 3, 'it was asked, not killed');
  t.strictSame(readdirSync(hub), []);
  const killed = await startPuller(putPartial(hub, entry), (end) => t.teardown(end));
  killed.kill('SIGKILL');
  await once(killed, 'exit');
  t.equal((await recua(['rm', '-y', 'o/r'], '', { env: envOf(folder) })).code, 0);
  t.strictSame(readdirSync(hub), []);
});

t.test('rm removes the leftovers of a pull that was killed at any moment', async (t) => {
  const folder = t.testdir();
  const hub = join(folder, 'hub');
  const blob = putPartial(hub, { repo: 'o/r', file: 'm.gguf', etag: '1'.repeat(64), sizeBytes: 1000, doneBytes: 500 });
  const longAgo = new Date(Date.now() - 120_000);
  for (const left of ['.recua-partial.json.new', '.recua-lock.0f8fad5b-d9cb-469f-a165-70867728950e']) {
    writeFileSync(`${blob}${left}`, '');
    utimesSync(`${blob}${left}`, longAgo, longAgo);
  }
  t.equal((await recua(['rm', '-y', 'o/r'], '', { env: envOf(folder) })).code, 0);
  t.strictSame(readdirSync(hub), []);
});

t.test('rm gives up on a pull that does not end, and names it', async (t) => {
  const folder = t.testdir();
  const hub = join(folder, 'hub');
  const blob = putPartial(hub, { repo: 'o/r', file: 'm.gguf', etag: '1'.repeat(64), sizeBytes: 1000, doneBytes: 500 });
  const puller = await startPuller(blob, (end) => t.teardown(end));
  puller.kill('SIGSTOP');
  t.match(await recua(['rm', '-y', 'o/r'], '', { env: envOf(folder) }), { code: 1, stderr: new RegExp(`pull of o/r/m\\.gguf by process ${puller.pid} did not end within 10 seconds`) });
  t.ok(lstatSync(`${blob}.recua-partial`).isFile());
  t.notOk(existsSync(`${blob}.recua-cancel`), 'a later pull is not stopped by it');
});
