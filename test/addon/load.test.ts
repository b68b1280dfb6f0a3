// Each load runs in its own process: an addon stays in the process that loads it.
import t from 'tap';
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readdirSync, realpathSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { fakeBackend, release } from '../native/fake-backend.js';
import { base, basePackage, flatLayout, ownVersion, placeDependencies, placePackage, placeRecua, pnpmLayout, root } from '../native/installed.js';

interface Outcome {
  source?: string;
  path?: string;
  backends?: string[];
  attempts?: { name: string; reason: string }[];
  code?: string;
  message?: string;
}

/** Loads the addon as Recua in a folder finds it, from another working directory. */
function load(recua: string, env: Record<string, string> = {}, cwd = '/'): Outcome {
  const body = `
    const { openAddon } = await import(${JSON.stringify(pathToFileURL(join(recua, 'dist', 'addon', 'load.js')).href)});
    try {
      const { addon, place, attempts } = openAddon();
      console.log(JSON.stringify({ source: place.source, path: place.path, backends: addon.version.backends, attempts }));
    } catch (error) {
      console.log(JSON.stringify({ code: error.code, message: error.message }));
    }`;
  const { stdout, stderr, status } = spawnSync(process.execPath, ['--input-type=module', '-e', body], { encoding: 'utf8', cwd, env: { ...process.env, RECUA_ADDON: '', ...env } });
  if (status !== 0 || stdout === '') throw new Error(`no outcome: ${stderr}`);
  return JSON.parse(stdout) as Outcome;
}

t.test('the package is found in every layout that package managers make', (t) => {
  const found = { source: 'package', backends: ['CPU'], attempts: [] };
  const flat = realpathSync(t.testdir());
  t.match(load(flatLayout(flat, [basePackage])), { ...found, path: join(flat, 'node_modules', '@recua', base, 'bin', 'recua.node') });

  const global = join(flat, 'prefix');
  t.match(load(flatLayout(global, [basePackage], true)), { ...found, path: join(global, 'lib', 'node_modules', '@recua', base, 'bin', 'recua.node') });

  const pnpm = join(flat, 'pnpm');
  t.match(load(pnpmLayout(pnpm, [basePackage], [])), { ...found, path: new RegExp(`^${pnpm}/node_modules/\\.pnpm/@recua\\+${base}@${ownVersion.replaceAll('.', '\\.')}/`) });

  // Installed beside the project, as `npm install @recua/…` in the parent folder does.
  const nested = join(flat, 'nested');
  placeDependencies(join(nested, 'inner', 'node_modules'));
  placeRecua(join(nested, 'inner', 'node_modules', 'recua'));
  placePackage(join(nested, 'node_modules', '@recua', base), basePackage);
  t.match(load(join(nested, 'inner', 'node_modules', 'recua')), found);
  t.end();
});

t.test('a clone uses its build, and RECUA_ADDON overrides it', (t) => {
  t.match(load(root), { source: 'build', path: join(release, 'recua.node'), backends: ['CPU'], attempts: [] });
  const folder = realpathSync(t.testdir());
  symlinkSync(release, join(folder, 'elsewhere'));
  const path = join(folder, 'elsewhere', 'recua.node');
  t.match(load(root, { RECUA_ADDON: path }), { source: 'RECUA_ADDON', path, attempts: [] });
  const refused = load(root, { RECUA_ADDON: join(folder, 'none.node') });
  t.match(refused, { code: 'addon_missing', message: /none\.node: there is no such file\nRECUA_ADDON names the file; correct it or unset it\.$/ });
  t.notMatch(refused.message!, /Release|installed beside/, 'nothing else is tried');
  t.end();
});

t.test('a missing package, or one for another Recua, is reported with the command that fixes it', (t) => {
  const folder = realpathSync(t.testdir());
  const recua = flatLayout(folder, []);
  const scope = join(folder, 'node_modules', '@recua');
  const mend = new RegExp(`\`npm install @recua/${base}@${ownVersion.replaceAll('.', '\\.')}\``);
  const nothing = load(recua);
  t.match(nothing, { code: 'addon_missing', message: mend });
  t.match(nothing.message, new RegExp(`for ${base}(, glibc [\\d.]+)?, found none`));
  t.match(nothing.message, new RegExp(`@recua/${base}: not installed beside Recua \\(${join(recua, 'node_modules')}, ${join(folder, 'node_modules')}`));

  placePackage(join(scope, 'aix-arm64'), { name: 'aix-arm64', backend: 'cpu' });
  t.match(load(recua).message, /there is @recua\/aix-arm64, so node_modules may come from another machine/);

  placePackage(join(scope, base), { ...basePackage, version: '0.0.1' });
  t.match(load(recua), { code: 'addon_missing', message: new RegExp(`it is version 0\\.0\\.1, but this is Recua ${ownVersion}`) });
  rmSync(join(scope, base), { recursive: true });
  placePackage(join(scope, base), { name: base, backend: 'cpu' });
  t.match(load(recua), { message: /there is no such file/ });

  rmSync(join(scope, base), { recursive: true });
  const global = flatLayout(join(folder, 'prefix'), [], true);
  t.match(load(global).message, new RegExp(`npm install -g @recua/${base}@`));
  t.end();
});

t.test('an addon that does not load is reported with the reason, and the next place is tried', { skip: process.platform !== 'linux' }, (t) => {
  const folder = realpathSync(t.testdir());
  const recua = flatLayout(folder, [{ name: base, backend: 'cpu' }]);
  const bin = join(folder, 'node_modules', '@recua', base, 'bin');
  for (const name of readdirSync(release)) copyFileSync(join(release, name), join(bin, name));
  t.match(load(recua), { source: 'package' });

  rmSync(join(bin, readdirSync(bin).find((name) => /^libllama\.so\.\d+$/.test(name))!));
  t.match(load(recua), { code: 'addon_missing', message: /the library libllama\.so\.\d+ is missing/ });
  truncateSync(join(bin, 'recua.node'), 50_000);
  t.match(load(recua), { code: 'addon_missing', message: /recua\.node|it is cut off: 50000 bytes/ });
  writeFileSync(join(bin, 'recua.node'), 'no addon'.repeat(20));
  t.match(load(recua).message, /it is damaged/);

  mkdirSync(join(recua, 'build', 'Release'), { recursive: true });
  writeFileSync(join(recua, 'CMakeLists.txt'), '');
  symlinkSync(join(bin, 'recua.node'), join(recua, 'build', 'Release', 'recua.node'));
  rmSync(join(folder, 'node_modules', '@recua', base), { recursive: true });
  placePackage(join(folder, 'node_modules', '@recua', base), basePackage);
  t.match(load(recua), { source: 'package', attempts: [{ name: join(recua, 'build', 'Release', 'recua.node'), reason: /the library libllama\S+ is missing/ }] });
  t.end();
});

t.test('a library in the current directory, or one that GGML_BACKEND_PATH names, is not run', { skip: process.platform !== 'linux' }, (t) => {
  const folder = realpathSync(t.testdir());
  for (const name of ['libggml-cuda.so', 'libggml-vulkan.so', 'libggml-cpu.so']) copyFileSync(fakeBackend({ fault: 'abort' }), join(folder, name));
  t.match(load(root, { GGML_BACKEND_PATH: join(folder, 'libggml-cuda.so') }, folder), { source: 'build', backends: ['CPU'] });
  t.end();
});

t.test('two loads in a thread give one addon; each thread has its own over the same backends', (t) => {
  const load = JSON.stringify(pathToFileURL(join(root, 'dist', 'addon', 'load.js')).href);
  const body = `
    import { Worker } from 'node:worker_threads';
    const { loadAddon } = await import(${load});
    const { loadAddon: again } = await import(${load} + '?again');
    const seen = (addon) => addon.version.backends.join() + ' ' + addon.devices().length;
    if (loadAddon() !== loadAddon()) throw new Error('two addons');
    const all = [seen(loadAddon()), seen(again())];
    const inThread = 'const { parentPort } = require("node:worker_threads"); import(' + ${JSON.stringify(load)} + ').then(({ loadAddon }) => { const addon = loadAddon(); parentPort.postMessage(addon.version.backends.join() + " " + addon.devices().length); });';
    all.push(...await Promise.all([1, 2, 3].map(() => new Promise((resolve, reject) => {
      new Worker(inThread, { eval: true, execArgv: [] }).on('message', resolve).on('error', reject);
    }))));
    console.log(all.join('\\n'));`;
  const { stdout, stderr, status } = spawnSync(process.execPath, ['--input-type=module', '-e', body], { encoding: 'utf8' });
  t.equal(status, 0, stderr);
  t.strictSame(stdout.trim().split('\n'), new Array(5).fill('CPU 1'));
  t.end();
});

t.test('loadBackend() and loadBackends() take only absolute paths and say what is wrong', async (t) => {
  const { openFile } = await import('#recua/addon/load.js');
  // The addon of the build, whatever RECUA_ADDON says.
  const { addon } = openFile({ path: join(release, 'recua.node'), source: 'build' });
  t.throws(() => addon.loadBackend('libggml-cuda.so'), { code: 'invalid_argument' });
  t.throws(() => addon.loadBackends('.'), { code: 'invalid_argument' });
  t.throws(() => addon.loadBackends(join(root, 'nowhere')), { code: 'backend_unusable', message: /nowhere cannot be read/ });
  t.throws(() => addon.loadBackend(join(root, 'package.json')), { code: 'backend_unusable', message: /invalid ELF header|not a mach-o|Windows error/ });
  t.throws(() => addon.loadBackend(join(release, 'libggml-base.so')), { code: 'backend_unusable', message: /no ggml backend/ });
  t.strictSame(addon.loadBackends(release), [], 'the build has the CPU backend compiled in');
  t.strictSame(addon.version.backends, ['CPU']);
  t.match(addon.backends()[0], { name: 'CPU', file: '', reason: '', features: Object });
  t.throws(() => addon.loadModel({ path: 'x', gpuLayers: 0, mmap: true, mlock: false, devices: ['CUDA0'] }), { code: 'device_not_found', message: /no device CUDA0, there are: CPU/ });
});
