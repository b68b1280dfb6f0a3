// `node scripts/pack-tools.mjs [vulkan]`: fetches what a Debian machine needs in addition to build
// packages that run on older systems. Unpacks it under build-pack/tools without touching the system
// and without root. pack.mjs uses what is there.
//   sysroot/  glibc, its headers and libgomp of an older Debian, and this compiler's C++ headers
//   vulkan/   glslc, which runs with its own libraries, Vulkan and SPIR-V headers of a newer Debian
// The files come from the mirror in this system's apt configuration; RECUA_DEBIAN_MIRROR names
// another one, or an archive once the older release has left the mirrors.
import { chmodSync, cpSync, existsSync, lstatSync, mkdirSync, readdirSync, readlinkSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { isProgram, place } from './place.mjs';
import { capture, Failure, run } from './process.mjs';
import { step } from './progress.mjs';
import { program } from './setup.mjs';

const folder = join(place.buildPack, 'tools');
const sysroot = join(folder, 'sysroot');
const vulkan = join(folder, 'vulkan');

const triple = () => capture('gcc', ['-print-multiarch']) || `${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}-linux-gnu`;

/** cmake options that make a build use these files; empty if there are none. */
export function toolOptions() {
  if (process.platform !== 'linux') return [];
  const options = [];
  if (existsSync(sysroot)) {
    // -B puts the old libraries before those beside the compiler, which are the new ones. cmake-js
    // has its own flags for C++.
    const flags = `-B${join(sysroot, 'usr', 'lib', triple())}`;
    const linkers = ['EXE', 'SHARED', 'MODULE'].map((kind) => `CMAKE_${kind}_LINKER_FLAGS=${flags}`);
    options.push(`CMAKE_SYSROOT=${sysroot}`, `CMAKE_C_FLAGS=${flags}`, ...linkers);
  }
  if (existsSync(vulkan)) {
    options.push(`Vulkan_GLSLC_EXECUTABLE=${join(vulkan, 'glslc')}`, `Vulkan_INCLUDE_DIR=${join(vulkan, 'include')}`,
      `Vulkan_LIBRARY=${join(vulkan, 'lib', 'libvulkan.so')}`, `SPIRV-Headers_DIR=${join(vulkan, 'share', 'cmake', 'SPIRV-Headers')}`);
  }
  return options;
}

/** The libgomp that packages include: the one they were linked with. */
export function gompPath() {
  if (existsSync(sysroot)) return join(sysroot, 'usr', 'lib', triple(), 'libgomp.so.1');
  const path = capture(process.env.CC ?? 'cc', ['-print-file-name=libgomp.so.1']);
  if (!path || !existsSync(path)) throw new Failure('The compiler knows no libgomp.so.1 (Debian: libgomp1, Red Hat: libgomp).');
  return path;
}

/** The mirror of Debian's packages. */
function debianMirror() {
  const told = capture('apt-get', ['indextargets', '--format', '$(ORIGIN) $(LABEL) $(REPO_URI)', 'Created-By: Packages']) ?? '';
  const mirror = process.env.RECUA_DEBIAN_MIRROR || /^Debian Debian (\S+)$/m.exec(told)?.[1];
  if (!mirror) throw new Failure('This system\'s apt names no mirror of Debian (`apt-get update` may help). Set RECUA_DEBIAN_MIRROR to one.');
  return mirror.replace(/\/*$/, '');
}

/** Whether this system can fetch and unpack the files. */
export function canFetchTools() {
  return process.platform === 'linux' && ['apt-get', 'dpkg-deb'].every((tool) => capture(tool, ['--version']) !== undefined);
}

/**
 * Downloads packages of a release, with dependencies if requested, and unpacks them. Uses an apt
 * configuration independent of this system's.
 */
async function unpack(release, names, into, { dependencies }) {
  const apt = join(folder, `apt-${release}`);
  for (const part of ['lists/partial', 'cache/archives/partial', 'etc']) mkdirSync(join(apt, part), { recursive: true });
  writeFileSync(join(apt, 'status'), '');
  writeFileSync(join(apt, 'etc', 'sources.list'), `deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${debianMirror()} ${release} main\n`);
  const settings = { 'Dir::State': apt, 'Dir::State::status': join(apt, 'status'), 'Dir::Cache': join(apt, 'cache'), 'Dir::Etc::sourcelist': join(apt, 'etc', 'sources.list'), 'Dir::Etc::sourceparts': '/nonexistent', 'APT::Sandbox::User': '' };
  const path = join(apt, 'apt.conf');
  writeFileSync(path, Object.entries(settings).map(([name, value]) => `${name} "${value}";\n`).join(''));
  const env = { ...process.env, APT_CONFIG: path, DEBIAN_FRONTEND: 'noninteractive' };
  const archives = join(apt, 'cache', 'archives');
  await run('apt-get', ['update', '-q'], { env });
  if (dependencies) await run('apt-get', ['install', '-y', '-q', '--download-only', '--no-install-recommends', ...names], { env });
  else await run('apt-get', ['download', '-q', ...names], { env, cwd: archives });
  mkdirSync(into, { recursive: true });
  for (const name of readdirSync(archives).filter((file) => file.endsWith('.deb'))) await run('dpkg-deb', ['-x', join(archives, name), into]);
  rmSync(apt, { recursive: true, force: true });
}

/** Fixes absolute links, which would lead out of the folder to the new system's libraries. */
function keepInside(top, at = top) {
  for (const entry of readdirSync(at, { withFileTypes: true })) {
    const path = join(at, entry.name);
    if (entry.isDirectory()) keepInside(top, path);
    if (!entry.isSymbolicLink()) continue;
    const target = readlinkSync(path);
    if (!target.startsWith('/')) continue;
    rmSync(path);
    symlinkSync(relative(dirname(path), join(top, target)), path);
  }
}

/** Whether there is an older glibc to build against. */
export const hasSysroot = () => existsSync(sysroot);

export async function makeSysroot() {
  const partial = `${sysroot}.partial`;
  rmSync(partial, { recursive: true, force: true });
  await unpack('bullseye', ['libc6', 'libc6-dev', 'linux-libc-dev', 'libcrypt1', 'libcrypt-dev', 'libgcc-s1', 'libgomp1'], partial, { dependencies: false });
  // Since bullseye /lib is /usr/lib on every system, but its packages still contain both.
  for (const name of ['lib', 'lib64']) {
    const path = join(partial, name);
    if (existsSync(path) && !lstatSync(path).isSymbolicLink()) {
      cpSync(path, join(partial, 'usr', name), { recursive: true, verbatimSymlinks: true });
      rmSync(path, { recursive: true });
    }
    if (existsSync(join(partial, 'usr', name))) symlinkSync(join('usr', name), path);
  }
  keepInside(partial);
  const version = capture('g++', ['-dumpversion'])?.split('.')[0];
  if (!version) throw new Failure('g++ is missing: sudo apt install g++');
  cpSync(`/usr/include/c++/${version}`, join(partial, 'usr/include/c++', version), { recursive: true });
  cpSync(`/usr/include/${triple()}/c++`, join(partial, 'usr/include', triple(), 'c++'), { recursive: true });
  symlinkSync('libgomp.so.1', join(partial, 'usr/lib', triple(), 'libgomp.so'));
  renameSync(partial, sysroot);
}

async function makeVulkan() {
  const partial = `${vulkan}.partial`;
  const all = join(partial, 'all');
  rmSync(partial, { recursive: true, force: true });
  await unpack('trixie', ['glslc', 'libvulkan-dev', 'spirv-headers'], all, { dependencies: true });
  for (const name of ['vulkan', 'vk_video', 'spirv']) cpSync(join(all, 'usr/include', name), join(partial, 'include', name), { recursive: true });
  cpSync(join(all, 'usr/share/cmake/SPIRV-Headers'), join(partial, 'share/cmake/SPIRV-Headers'), { recursive: true });
  cpSync(join(all, 'usr/lib', triple()), join(partial, 'lib'), { recursive: true, verbatimSymlinks: true });
  cpSync(join(all, 'usr/bin/glslc'), join(partial, 'glslc.bin'));
  rmSync(all, { recursive: true });
  const loader = process.arch === 'arm64' ? 'ld-linux-aarch64.so.1' : 'ld-linux-x86-64.so.2';
  const script = '#!/bin/sh\nhere=$(dirname "$0")\nexec "$here/lib/LOADER" --library-path "$here/lib" "$here/glslc.bin" "$@"\n';
  writeFileSync(join(partial, 'glslc'), script.replace('LOADER', loader));
  chmodSync(join(partial, 'glslc'), 0o755);
  renameSync(partial, vulkan);
}

if (isProgram(import.meta.url)) {
  await program(async () => {
    for (const tool of ['apt-get', 'dpkg-deb']) {
      if (capture(tool, ['--version']) === undefined) throw new Failure(`${tool} is missing: this works on Debian and its relatives only.`);
    }
    if (!existsSync(sysroot)) await step('Unpacking an older glibc', makeSysroot);
    if (process.argv.includes('vulkan') && !existsSync(vulkan)) await step('Unpacking a newer glslc', makeVulkan);
  });
}
