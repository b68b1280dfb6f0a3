import t from 'tap';
import { copyFileSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { scripts } from './checkout.js';

const root = fileURLToPath(new URL('../../', import.meta.url));
const onLinux = process.platform === 'linux';
const texts = await import(`${scripts}package-texts.mjs`);
const elf = await import(`${scripts}elf.mjs`);
const { withPackagedLinks } = await import(`${scripts}packaged-links.mjs`);
const { checkBinaries } = await import(`${scripts}package-check.mjs`);
const builtAddon = join(root, 'build', 'Release', 'recua.node');

t.test('the packages of all targets match the snapshot', (t) => {
  const kept = readFileSync(join(root, 'test', 'scripts', 'packages.snapshot.txt'), 'utf8');
  t.equal(texts.snapshot(), kept, 'if the change is meant: node scripts/package-texts.mjs > test/scripts/packages.snapshot.txt');
  t.end();
});

t.test('documentation in the package links only to what is there', (t) => {
  const isPackaged = (path: string): boolean => ['docs/errors.md', 'examples', 'docs/images/a.svg'].includes(path);
  const text = 'a\n\n<!-- only in the repository -->\n\n![shot](b.png)\n\n<!-- end -->\n\n[errors](errors.md#top) [a `b`](../test/x.test.ts), [site](https://example.com) [here](#here)\n![chart](images/a.svg) ![shot](images/b.png)\n[[1]](../native/x.h) [all](../examples/)';
  t.equal(withPackagedLinks(text, 'docs/x.md', isPackaged),
    'a\n\n[errors](errors.md#top) a `b`, [site](https://example.com) [here](#here)\n![chart](images/a.svg) \n[1] [all](../examples/)');
  t.end();
});

t.test('the checkout installs without the packages, and the published recua asks for exactly its own version of them', (t) => {
  const checkout = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  t.equal(checkout.optionalDependencies, undefined);
  const published = texts.recuaPackage();
  t.strictSame(published.optionalDependencies, Object.fromEntries(['linux-x64', 'linux-arm64', 'darwin-arm64', 'darwin-x64', 'win32-x64'].map((name) => [`@recua/${name}`, checkout.version])));
  t.strictSame(['scripts', 'devDependencies', 'gypfile', 'binary', 'tap', 'imports'].filter((key) => key in published), []);
  t.strictSame(published.dependencies, checkout.dependencies);
  t.end();
});

t.test('Recua installs beside any version of OpenTelemetry that a program has', (t) => {
  const { dependencies, peerDependencies, peerDependenciesMeta } = texts.recuaPackage();
  t.strictSame(Object.keys(peerDependenciesMeta).sort(), Object.keys(peerDependencies).sort());
  for (const [name, range] of Object.entries<string>(peerDependencies)) {
    t.match(range, /^>=[\d.]+$/, `${name}: npm refuses where an optional peer is newer than its range`);
    t.equal(peerDependenciesMeta[name].optional, true);
  }
  t.match(dependencies['@opentelemetry/api'], /<1\.10\.0$/, 'an API that is newer than that of an SDK does not see it');
  t.end();
});

t.test('a GPU package adds one library to a base of its platform', (t) => {
  for (const target of Object.values<any>(texts.table)) {
    if (target.isBase) continue;
    t.match(
      texts.table[target.base],
      { isBase: true, os: target.os, cpu: target.cpu, libc: target.libc, glibc: target.glibc },
      target.name,
    );
    t.equal(texts.binaries(target).length, 1, target.name);
    t.match(texts.readme(target), new RegExp(`npm install -g recua@\\S+ @recua/${target.name}@`));
  }
  t.end();
});

t.test('the levels of processors are those that llama.cpp builds', (t) => {
  const source = readFileSync(join(root, 'vendor', 'llama.cpp', 'ggml', 'src', 'CMakeLists.txt'), 'utf8');
  const variants = new Set([...source.matchAll(/ggml_add_cpu_backend_variant\((\S+?)[\s)]/g)].map(([, name]) => name));
  const ofLinux = ['x64', 'sse42', 'sapphirerapids', 'armv8.0_1'];
  t.strictSame(ofLinux.filter((name) => !variants.has(name)), []);
  const listed = ['linux-x64', 'linux-arm64', 'darwin-arm64', 'win32-x64'].flatMap((name) => texts.binaries(texts.table[name]))
    .map((name: string) => /ggml-cpu-(.*)\.(so|dll)$/.exec(name)?.[1]).filter((name: string | undefined) => name !== undefined);
  t.strictSame(listed.filter((name) => !variants.has(name)), [], 'none that is not built');
  const elsewhere = /^(android_|power|z1|riscv|\$)/;
  t.strictSame([...variants].filter((name) => !elsewhere.test(name!) && !listed.includes(name)), [], 'none that is forgotten');
  t.end();
});

t.test('every package holds the licenses of its contents', (t) => {
  for (const target of Object.values<any>(texts.table)) {
    const text: string = texts.thirdPartyLicenses(target);
    t.match(text, /The ggml authors/, target.name);
    t.equal(/GCC RUNTIME LIBRARY EXCEPTION[\s\S]*GNU GENERAL PUBLIC LICENSE/.test(text), target.os === 'linux', target.name);
    t.equal(/Niels Lohmann[\s\S]*Mozilla Foundation/.test(text), target.isBase, target.name);
    t.notMatch(text, /^\/\/|#include/m, 'texts, not code');
  }
  t.end();
});

t.test('symbol versions are compared as numbers', (t) => {
  t.ok(elf.compareVersions('2.4', '2.28') < 0);
  t.ok(elf.compareVersions('2.28', '2.3.4') > 0);
  t.equal(elf.compareVersions('2.28', '2.28.0'), 0);
  const versions = ['GLIBC_2.4', 'GLIBC_2.17', 'GLIBC_2.2.5', 'GCC_3.0', 'GLIBC_PRIVATE'].map((version) => ({ library: 'x', version }));
  t.strictSame(elf.highestVersions([{ versions }]), { GLIBC: '2.17', GCC: '3.0' });
  t.end();
});

t.test('the needs of a library are read from the library', { skip: !onLinux && 'ELF is for Linux' }, (t) => {
  const read = elf.readElf(builtAddon);
  t.strictSame(read.rpath, ['$ORIGIN']);
  t.ok(read.needed.includes('libc.so.6'));
  t.ok(read.needed.some((name: string) => name.startsWith('libggml')));
  t.ok(read.versions.some(({ library, version }: any) => library === 'libc.so.6' && version.startsWith('GLIBC_2.')));
  t.equal(read.stripped, false);
  t.throws(() => elf.readElf(join(root, 'package.json')), /is no 64-bit/);
  t.end();
});

t.test('a library built for this machine alone is refused, with every reason', { skip: !onLinux && 'ELF is for Linux' }, (t) => {
  const folder = t.testdir();
  mkdirSync(join(folder, 'bin'));
  copyFileSync(builtAddon, join(folder, 'bin', 'recua.node'));
  const target = { ...texts.table['linux-x64'], glibc: '2.2' };
  const refused = (message: RegExp) => { t.throws(() => checkBinaries(target, join(folder, 'bin')), { message }); };
  refused(/recua\.node is not stripped/);
  refused(/needs libstdc\+\+\.so\.6, which neither the package nor every system has/);
  refused(/needs GLIBC 2\.\d+, and the package promises 2\.2\b/);
  t.end();
});

t.test('pack names what it cannot build, and why', (t) => {
  const pack = (...args: string[]) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [join(root, 'scripts', 'pack.mjs'), ...args], { encoding: 'utf8' });
    return { status, output: stdout + stderr };
  };
  const foreign = process.platform === 'win32' ? 'darwin-x64' : 'win32-x64';
  const [os, cpu] = foreign.split('-');
  t.match(pack('--list'), { status: 0, output: `${foreign}: that needs a ${os} ${cpu} machine` });
  t.match(pack(foreign), { status: 1, output: `${foreign} cannot be built here: that needs a ${os} ${cpu} machine.` });
  t.match(pack('linux-x65'), { status: 1, output: /There is no target linux-x65\. Targets: recua, linux-x64,/ });
  t.match(pack('--any'), { status: 1, output: /There is no option --any\./ });
  t.end();
});

t.test('before it builds, pack makes sure of a glibc as old as the packages promise, or names the ways out', async (t) => {
  const { ensureGlibc, glibcTooNew } = await import(`${scripts}pack.mjs`);
  const linux = texts.table['linux-x64'];
  t.match(glibcTooNew(linux, { here: '2.36', sysroot: false }), /this system's glibc is 2\.36, the package promises to run with 2\.28/);
  for (const here of [{ here: '2.36', sysroot: true }, { here: '2.31', sysroot: false }]) t.equal(glibcTooNew(linux, here), undefined);
  t.equal(glibcTooNew(texts.table['darwin-arm64'], { here: undefined, sysroot: false }), undefined);
  const fetched: string[] = [];
  const fetch = async () => { fetched.push('glibc'); };
  await ensureGlibc([linux], { here: '2.36', sysroot: false, canFetch: () => true, fetch });
  await ensureGlibc([linux], { here: '2.31', sysroot: false, canFetch: () => true, fetch });
  t.strictSame(fetched, ['glibc']);
  const ways = /^Nothing was built: .*2\.36.*node scripts\/pack-tools\.mjs.*npm run pack -- --any-glibc/;
  await t.rejects(ensureGlibc([linux], { here: '2.36', sysroot: false, canFetch: () => false, fetch }), { message: ways });
  const offline = async () => { throw new Error('no network'); };
  await t.rejects(ensureGlibc([linux], { here: '2.36', sysroot: false, canFetch: () => true, fetch: offline }), { message: ways });
});
