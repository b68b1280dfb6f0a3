// Checks every library of a prebuilt package, whatever built it: contains no path of the build
// machine, is stripped, is found by its neighbors beside itself, and needs nothing of the system
// that Node does not need. pack.mjs refuses to pack a library that fails.
import { readFileSync, readdirSync, realpathSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { compareVersions, highestVersions, readElf } from './elf.mjs';
import { binaries, table } from './package-texts.mjs';
import { ownLlamaCpp, place, root } from './place.mjs';
import { Failure } from './process.mjs';

/**
 * System libraries that Node itself links with on Linux, except libstdc++: its newer symbols are
 * not everywhere.
 */
const ofNode = /^(lib(c|m|dl|rt|pthread|gcc_s)\.so\.\d+|ld-linux-[\w-]+\.so\.\d+)$/;
/** Libraries of a GPU's driver or toolkit. */
const ofBackend = { vulkan: /^libvulkan\.so\.1$/, cuda: /^lib(cuda\.so\.1|cublas(Lt)?\.so\.12)$/ };
/** The libgcc_s that ships with glibc 2.28 in distributions that still have it. */
const highestGcc = '7.0.0';

/** Folders whose names must not occur in a library. */
function foldersHere() {
  return [...new Set([root, realpathSync(root), ownLlamaCpp() ?? realpathSync(place.vendor), os.homedir()])].filter(
    (path) => path.length > 5,
  );
}

/**
 * @returns the highest required symbol versions, such as { GLIBC: '2.25' }; empty if the system is
 *   not Linux
 * @throws Failure with one line per problem
 */
export function checkBinaries(target, folder, { anyGlibc = false } = {}) {
  const wrong = [];
  const names = readdirSync(folder);
  for (const name of names) {
    const bytes = readFileSync(join(folder, name));
    for (const path of foldersHere()) {
      if (bytes.includes(path)) wrong.push(`${name} holds the path ${path}`);
    }
  }
  const elves = target.os === 'linux' ? names.map((name) => ({ name, ...readElf(join(folder, name)) })) : [];
  // Libraries that are loaded before: a backend's neighbors are in the addon's package.
  const neighbors = binaries(table[target.base]);
  for (const { name, soname, needed, rpath, stripped } of elves) {
    const outside = rpath.find((path) => path !== '$ORIGIN');
    if (outside !== undefined) wrong.push(`${name} looks for libraries in ${outside || 'the current directory'}`);
    if (!stripped) wrong.push(`${name} is not stripped`);
    if (soname !== undefined && soname !== name) wrong.push(`${name} calls itself ${soname}`);
    for (const library of needed) {
      const found = neighbors.includes(library) || ofNode.test(library) || ofBackend[target.backend]?.test(library);
      if (!found) wrong.push(`${name} needs ${library}, which neither the package nor every system has`);
      if (names.includes(library) && !rpath.includes('$ORIGIN')) wrong.push(`${name} needs ${library}, but does not look beside itself`);
    }
  }
  const highest = highestVersions(elves);
  const limits = { GLIBC: anyGlibc ? undefined : target.glibc, GCC: highestGcc };
  for (const [kind, limit] of Object.entries(limits)) {
    for (const elf of elves) {
      const reached = highestVersions([elf])[kind];
      if (limit !== undefined && reached !== undefined && compareVersions(reached, limit) > 0) wrong.push(`${elf.name} needs ${kind} ${reached}, and the package promises ${limit}`);
    }
  }
  if (wrong.length > 0) throw new Failure(`${target.name} cannot be packed:\n  ${wrong.join('\n  ')}`);
  return highest;
}
