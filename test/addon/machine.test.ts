import t from 'tap';
import { copyFileSync, openSync, readFileSync, truncateSync, writeFileSync, writeSync, closeSync } from 'node:fs';
import { join } from 'node:path';
import { compareVersions, explainFault, fileFault, machineFacts } from '#recua/addon/machine.js';
import { machineText } from '#recua/system/machine-text.js';
import { release } from '../native/fake-backend.js';

const linux = process.platform === 'linux' && process.arch === 'x64';
const here = { platform: process.platform, arch: process.arch };

t.test('fileFault() detects a damaged, truncated or foreign library without loading it', { skip: !linux }, (t) => {
  const folder = t.testdir();
  const copy = (name: string): string => {
    const path = join(folder, name);
    copyFileSync(join(release, 'recua.node'), path);
    return path;
  };
  t.equal(fileFault(copy('whole'), here), '');
  const cut = copy('cut');
  truncateSync(cut, 100_000);
  t.match(fileFault(cut, here), /^it is cut off: 100000 bytes of at least \d+$/);
  const foreign = copy('foreign');
  const file = openSync(foreign, 'r+');
  writeSync(file, Uint8Array.of(183, 0), 0, 2, 18);
  closeSync(file);
  t.equal(fileFault(foreign, here), 'it is built for arm64, this is x64');
  const garbage = join(folder, 'garbage');
  writeFileSync(garbage, 'This is no library, whatever its name says. It is a text of more than 64 bytes.');
  t.match(fileFault(garbage, here), /damaged/);
  writeFileSync(garbage, '');
  t.match(fileFault(garbage, here), /damaged/);
  t.match(fileFault(join(folder, 'none'), here), /cannot be read: ENOENT/);
  t.equal(fileFault(garbage, { platform: 'darwin', arch: 'arm64' }), '', 'only Linux files are known');
  t.end();
});

t.test('explainFault() puts the linker error into words', (t) => {
  const glibc = { platform: 'linux', arch: 'x64', glibc: '2.31' };
  const explain = (words: string, needs = '') => explainFault(words, { glibc: needs }, glibc);
  t.equal(explain("/lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found (required by /a/recua.node)"), 'it needs glibc 2.38 or newer, this system has 2.31');
  t.equal(explain("/lib/x86_64-linux-gnu/libm.so.6: version `GLIBC_2.9' not found (required by /a/recua.node)", '2.38'), 'it needs glibc 2.38 or newer, this system has 2.31');
  t.match(explain("libstdc++.so.6: version `GLIBCXX_3.4.30' not found (required by /a/b.so)"), /newer C\+\+ runtime: libstdc\+\+ with GLIBCXX_3\.4\.30/);
  t.equal(explain('libcuda.so.1: cannot open shared object file: No such file or directory'), 'the library libcuda.so.1 is missing; the NVIDIA driver brings it');
  t.match(explain('load_backend: failed to load /a/libggml-vulkan.so: libvulkan.so.1: cannot open shared object file: No such file or directory'), /libvulkan\.so\.1 is missing; the Vulkan loader .*apt install libvulkan1/);
  t.match(explain('libcudart.so.12: cannot open shared object file: No such file or directory'), /CUDA 12 libraries bring it/);
  t.equal(explain('libodd.so.3: cannot open shared object file: No such file or directory'), 'the library libodd.so.3 is missing');
  t.match(explain('/a/libggml-cuda.so: undefined symbol: ggml_odd, version X'), /does not fit the libraries beside it: ggml_odd is/);
  t.equal(explain('something else\nwith a second line'), 'something else');
  t.match(explainFault('Error relocating /a/recua.node: fcntl64: symbol not found', { glibc: '2.28' }, { platform: 'linux', arch: 'x64', glibc: '' }), /built for glibc 2\.28 or newer, but this system uses musl/);
  t.equal(explainFault('dlopen failed', { glibc: '' }, { platform: 'darwin', arch: 'arm64', glibc: '' }), 'dlopen failed');
  t.end();
});

t.test('machineFacts() names the C library of this process', (t) => {
  const facts = machineFacts();
  t.match(facts, here);
  if (linux && readFileSync('/proc/self/maps', 'utf8').includes('/libc.so.6')) t.match(facts.glibc, /^2\.\d+$/);
  t.match(machineText({ platform: 'linux', arch: 'x64', glibc: '2.36' }), 'linux-x64, glibc 2.36');
  t.match(machineText({ platform: 'linux', arch: 'x64', glibc: '' }), 'linux-x64, musl');
  t.equal(machineText({ platform: 'darwin', arch: 'arm64', glibc: '' }), 'darwin-arm64');
  t.end();
});

t.test('compareVersions() compares numbers, not letters', (t) => {
  t.ok(compareVersions('2.9', '2.38') < 0);
  t.ok(compareVersions('2.38.1', '2.38') > 0);
  t.equal(compareVersions('2.36', '2.36.0'), 0);
  t.end();
});
