import t from 'tap';
import { mkdirSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { installCommand, isClone, ownInstallation } from '#recua/system/installation.js';
import type { Installation } from '#recua/system/installation.js';
import { addonPlaces, backendLibrary, findPackages, librariesBeside, linkedFolders, packageFolders, strangePackages } from '#recua/addon/places.js';
import { ownPin, ownVersion, placePackage, root } from '../native/installed.js';
import type { PackageKind } from '../native/installed.js';

const target = { platform: 'linux', arch: 'x64' };
const installed = (folder: string): Installation => ({ root: folder, version: ownVersion, llamaCpp: ownPin });
const put = (modules: string, one: PackageKind): void => placePackage(join(modules, '@recua', one.name), one);
const cpu: PackageKind = { name: 'linux-x64', backend: 'cpu' };

t.test('packages are looked up where Node would look, nearest first, and never in the current directory', (t) => {
  t.strictSame(packageFolders(installed('/a/node_modules/recua')), ['/a/node_modules/recua/node_modules', '/a/node_modules', '/node_modules']);
  t.strictSame(packageFolders(installed('/a/node_modules/.pnpm/recua@1/node_modules/recua')).slice(0, 4), [
    '/a/node_modules/.pnpm/recua@1/node_modules/recua/node_modules', '/a/node_modules/.pnpm/recua@1/node_modules',
    '/a/node_modules/.pnpm/node_modules', '/a/node_modules']);
  t.notOk(packageFolders(installed('/a/b')).some((folder) => folder.startsWith(process.cwd())));
  t.end();
});

t.test("Recua's packages that are links to a store are known by their real folders, and no others", (t) => {
  const folder = realpathSync(t.testdir());
  const [modules, store] = [join(folder, 'a', 'node_modules'), join(folder, 'store')];
  mkdirSync(join(modules, 'recua'), { recursive: true });
  writeFileSync(join(modules, 'recua', 'package.json'), '{"dependencies":{"needed":"1","beside":"1","missing":"1"}}');
  for (const name of ['needed', 'foreign', 'bin']) mkdirSync(join(store, name), { recursive: true });
  for (const name of ['needed', 'foreign']) symlinkSync(join(store, name), join(modules, name));
  mkdirSync(join(modules, 'beside'));
  placePackage(join(store, 'linux-x64'), { ...cpu, build: join(store, 'bin') });
  mkdirSync(join(modules, '@recua'));
  symlinkSync(join(store, 'linux-x64'), join(modules, '@recua', 'linux-x64'));
  t.strictSame(linkedFolders(installed(join(modules, 'recua'))), ['needed', 'linux-x64', 'bin'].map((name) => join(store, name)));
  t.end();
});

t.test('of packages with the same name the nearest that fits is used, and others are ignored', (t) => {
  const folder = realpathSync(t.testdir());
  const far = join(folder, 'node_modules');
  const near = join(folder, 'a', 'node_modules');
  const here = installed(join(near, 'recua'));
  put(near, { ...cpu, version: '0.0.1' });
  put(far, cpu);
  put(far, { name: 'linux-x64-vulkan', backend: 'vulkan' });
  put(far, { name: 'linux-arm64', backend: 'cpu' });
  put(near, { name: 'linux-x64-cuda', backend: 'cuda', llamaCpp: 'v0.0.1' });
  const found = findPackages(here, target);
  t.match(found, [
    { name: '@recua/linux-x64', folder: join(far, '@recua', 'linux-x64'), backend: 'cpu', refusal: '' },
    { name: '@recua/linux-x64-cuda', backend: 'cuda', refusal: `it is made from llama.cpp v0.0.1, but this Recua is for ${ownPin}` },
    { name: '@recua/linux-x64-vulkan', backend: 'vulkan', refusal: '' },
  ]);
  t.equal(found.length, 3);
  t.strictSame(strangePackages(here, target), ['@recua/linux-arm64']);
  rmSync(join(far, '@recua', 'linux-x64'), { recursive: true });
  t.match(findPackages(here, target)[0], { version: '0.0.1', refusal: `it is version 0.0.1, but this is Recua ${ownVersion}` });
  t.end();
});

t.test('an unreadable package has a reason, too', (t) => {
  const folder = t.testdir({ node_modules: { '@recua': { 'linux-x64': { 'package.json': '{' }, 'linux-x64-cuda': {} } } });
  t.match(findPackages(installed(join(folder, 'node_modules', 'recua')), target), [
    { backend: 'cpu', refusal: /package\.json cannot be read/ }, { backend: 'cuda', refusal: /package\.json cannot be read: ENOENT/ }]);
  t.end();
});

t.test('the addon is looked up in RECUA_ADDON alone, else in the build of a clone, else in the package', (t) => {
  const folder = realpathSync(t.testdir({ 'CMakeLists.txt': '' }));
  put(join(folder, 'node_modules'), cpu);
  const here = installed(folder);
  const packages = findPackages(here, target);
  const path = join(folder, 'node_modules', '@recua', 'linux-x64', 'bin', 'recua.node');
  writeFileSync(path, '');
  t.match(addonPlaces(here, packages, {}), [
    { source: 'build', path: join(folder, 'build', 'Release', 'recua.node'), refusal: 'there is no such file' },
    { source: 'package', path, refusal: '' }]);
  t.strictSame(addonPlaces(here, packages, { RECUA_ADDON: path }).map((one) => [one.source, one.path]), [['RECUA_ADDON', path]]);
  t.strictSame(addonPlaces(here, packages, { RECUA_ADDON: '' }).map(({ source }) => source), ['build', 'package']);
  rmSync(join(folder, 'CMakeLists.txt'));
  t.strictSame(addonPlaces(here, packages, {}).map(({ source }) => source), ['package'], 'an installed package has no build');
  t.end();
});

t.test('librariesBeside() lists the optional libraries in a folder', (t) => {
  const folder = t.testdir();
  for (const name of ['libggml-base.so', 'libggml.so', 'libggml-cpu.so', 'libggml-cpu-haswell.so', 'libggml-cuda.so', 'libggml-vulkan.so.1', 'recua.node', 'ggml-hip.dll']) writeFileSync(join(folder, name), '');
  t.strictSame(librariesBeside(folder, 'linux'), [{ backend: 'cuda', file: join(folder, 'libggml-cuda.so') }]);
  t.strictSame(librariesBeside(folder, 'win32'), [{ backend: 'hip', file: join(folder, 'ggml-hip.dll') }]);
  t.strictSame(librariesBeside(join(folder, 'none'), 'linux'), []);
  t.equal(backendLibrary('/a', 'cuda', 'linux'), '/a/libggml-cuda.so');
  t.end();
});

t.test('installCommand() adds a package where Recua finds it', (t) => {
  const folder = realpathSync(t.testdir());
  const at = (...words: string[]) => installCommand(installed(join(folder, ...words)), 'p');
  mkdirSync(join(folder, 'project'));
  writeFileSync(join(folder, 'project', 'package.json'), '{}');
  t.equal(at('project', 'node_modules', 'recua'), 'npm install p');
  t.equal(at('lib', 'node_modules', 'recua'), 'npm install -g p');
  t.equal(at('node_modules', '.pnpm', 'recua@1', 'node_modules', 'recua'), 'pnpm add p');
  t.equal(at('global', '5', 'node_modules', '.pnpm', 'recua@1', 'node_modules', 'recua'), 'pnpm add -g p');
  t.end();
});

t.test('ownInstallation() is this clone', (t) => {
  t.strictSame(ownInstallation(), { root: root.replace(/\/$/, ''), version: ownVersion, llamaCpp: ownPin });
  t.ok(isClone(ownInstallation()));
  t.end();
});
