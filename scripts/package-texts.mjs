// Texts and contents of the prebuilt packages, derived from npm/targets.json without building:
// names, package.json, README, licenses, and the files in bin/. pack.mjs packs by it,
// test/scripts/packages.test.ts keeps a snapshot of it, `node scripts/package-texts.mjs` prints
// that snapshot.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isProgram, place, readPin, root } from './place.mjs';

const { scope, cpuVariants, targets } = JSON.parse(readFileSync(place.targets, 'utf8'));
const recua = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

/**
 * Name → table entry, with its name and `base`: the addon's package for this platform, to which GPU
 * backends are added.
 */
export const table = Object.fromEntries(Object.entries(targets).map(([name, target]) => {
  const base = `${target.os}-${target.cpu}`;
  return [name, { ...target, name, base, isBase: name === base }];
}));

export const packageName = (name) => `${scope}/${name}`;

const systems = { linux: 'Linux', darwin: 'macOS', win32: 'Windows' };
const backends = { cpu: 'CPU', vulkan: 'Vulkan', cuda: 'CUDA', metal: 'Metal' };
const processors = { x64: 'x64', arm64: 'arm64' };

/** e.g. "Linux x64, CPU" */
const title = (target) => `${systems[target.os]} ${processors[target.cpu]}, ${backends[target.backend]}`;

/**
 * Provenance ties a package to the repository that built it, so release builds name it; other
 * builds name none.
 */
export function repository() {
  const { GITHUB_SERVER_URL: server, GITHUB_REPOSITORY: name } = process.env;
  return server && name ? { repository: { type: 'git', url: `git+${server}/${name}.git` } } : {};
}

/** Files of bin/, sorted: one real file per library, because npm drops symbolic links. */
export function binaries(target) {
  const windows = target.os === 'win32';
  const module = (name) => (windows ? `${name}.dll` : `lib${name}.so`);
  if (!target.isBase) return [module(`ggml-${target.backend}`)];
  const shared = (name) => (windows ? `${name}.dll` : target.os === 'darwin' ? `lib${name}.dylib` : `lib${name}.so`);
  return [
    'recua.node', shared('ggml'), shared('ggml-base'),
    ...cpuVariants[target.cpuVariants].map((variant) => module(`ggml-cpu-${variant}`)),
    ...(target.modules ?? []).map((name) => module(`ggml-${name}`)),
    ...(target.runtime ?? []),
    // Starts an engine process in its sandbox (native/launcher).
    ...(target.os === 'linux' ? ['recua-launch'] : []),
  ].sort();
}

/** Every file of the package. */
export function files(target) {
  return ['LICENSE', 'README.md', 'THIRD-PARTY-LICENSES', 'package.json', 'sbom.cdx.json', ...binaries(target).map((name) => `bin/${name}`)].sort();
}

export function platformPackage(target) {
  const gomp = target.runtime?.includes('libgomp.so.1');
  return {
    name: packageName(target.name),
    version: recua.version,
    description: target.isBase
      ? `Recua's native addon and llama.cpp, built for ${title(target)}`
      : `${backends[target.backend]} for Recua on ${systems[target.os]} ${processors[target.cpu]}: llama.cpp's backend as a library`,
    license: gomp ? 'MIT AND (GPL-3.0-or-later WITH GCC-exception-3.1)' : 'MIT',
    os: [target.os],
    cpu: [target.cpu],
    ...(target.libc ? { libc: [target.libc] } : {}),
    engines: recua.engines,
    exports: { './package.json': './package.json' },
    files: ['bin', 'THIRD-PARTY-LICENSES', 'sbom.cdx.json'],
    preferUnplugged: true,
    publishConfig: { access: 'public' },
    // Metal is a library in the addon's own package, so the loader treats that package as a CPU
    // package.
    recua: { backend: target.isBase ? 'cpu' : target.backend, version: recua.version, llamaCpp: readPin().version, ...(target.glibc ? { glibc: target.glibc } : {}) },
  };
}

export function readme(target) {
  const head = `# ${packageName(target.name)}\n\n`;
  const system = target.glibc ? ` Needs glibc ${target.glibc} or newer.` : '';
  if (target.isBase) {
    return `${head}The native part of Recua, built for ${title(target)}: its addon, and llama.cpp ${readPin().version} with a
library for each generation of processors. The best one is chosen when a model is loaded.

It does nothing by itself. \`npm install recua\` brings it on this platform; from archives, install
both at once.${system}

Licenses: LICENSE for Recua, THIRD-PARTY-LICENSES for what is inside.
`;
  }
  return `${head}Adds ${backends[target.backend]} to Recua ${recua.version} on ${systems[target.os]} ${processors[target.cpu]}. Install it beside Recua, in the same version:

    npm install -g recua@${recua.version} ${packageName(target.name)}@${recua.version}

It needs ${target.needs}.${system}

Licenses: LICENSE for Recua, THIRD-PARTY-LICENSES for what is inside.
`;
}

/** Title and file of each license that the package contains. */
function licenses(target) {
  const vendored = (path) => join(place.vendor, path);
  const kept = (name) => join(root, 'npm', 'licenses', name);
  const list = [['llama.cpp and ggml', vendored('LICENSE')]];
  if (target.isBase) {
    list.push(
      ['JSON for Modern C++', vendored('licenses/LICENSE-jsonhpp')],
      ['cpp-httplib', vendored('vendor/cpp-httplib/LICENSE')],
      ['llamafile (matrix multiplication in ggml)', vendored('ggml/src/ggml-cpu/llamafile/sgemm.cpp')],
      ['node-addon-api', join(place.nodeModules, 'node-addon-api', 'LICENSE.md')],
      ['node-api-headers', join(place.nodeModules, 'node-api-headers', 'LICENSE')],
    );
  }
  if (target.backend === 'vulkan') list.push(['Vulkan-Headers', kept('vulkan-headers.txt')]);
  if (target.backend === 'cuda') list.push(['CUDA runtime', kept('cuda-runtime.txt')]);
  if (target.runtime?.includes('vcruntime140.dll')) list.push(['Visual C++ runtime', kept('visual-c-runtime.txt')]);
  if (target.os === 'linux') {
    if (target.runtime?.includes('libgomp.so.1')) list.push(['libgomp', kept('libgomp-notice.txt')]);
    list.push(['libstdc++', kept('gcc-notice.txt')], ['GCC Runtime Library Exception', kept('gcc-exception-3.1.txt')],
      ['GNU General Public License', kept('gpl-3.0.txt')]);
  }
  return list;
}

/** A license's text; for a source file, its leading comment. */
function licenseText(path) {
  const text = readFileSync(path, 'utf8');
  if (!/\.(cpp|h)$/.test(path)) return text.trim();
  const lines = text.split('\n');
  const end = lines.findIndex((line) => !line.startsWith('//'));
  return lines.slice(0, end).map((line) => line.replace(/^\/\/ ?/, '')).join('\n').trim();
}

export const licenseTitles = (target) => licenses(target).map(([name]) => name);

/** Needs the llama.cpp tree and node_modules, to copy their licenses. */
export function thirdPartyLicenses(target) {
  const rule = '='.repeat(80);
  return licenses(target).map(([name, path]) => `${rule}\n${name}\n${rule}\n\n${licenseText(path)}\n`).join('\n\n');
}

/**
 * The package.json of the published recua: no scripts and nothing that only a checkout needs, but
 * the addon's packages as optional dependencies, of which npm installs the matching one. The
 * checkout's package.json does not list them, because no registry has them before the release that
 * makes them.
 */
export function recuaPackage() {
  const { scripts, devDependencies, tap, gypfile, binary, imports, ...kept } = recua;
  void [scripts, devDependencies, tap, gypfile, binary, imports];
  const bases = Object.values(table).filter((target) => target.isBase);
  return { ...kept, files: [...kept.files, 'sbom.cdx.json'], publishConfig: { access: 'public' }, optionalDependencies: Object.fromEntries(bases.map(({ name }) => [packageName(name), recua.version])) };
}

/** All packages as one text, for review and for the test. */
export function snapshot() {
  const one = (target) => JSON.stringify({ package: platformPackage(target), files: files(target), licenses: licenseTitles(target), readme: readme(target).split('\n') }, null, 2);
  return [...Object.values(table).map(one), JSON.stringify({ package: recuaPackage() }, null, 2)].join('\n') + '\n';
}

if (isProgram(import.meta.url)) process.stdout.write(snapshot());
