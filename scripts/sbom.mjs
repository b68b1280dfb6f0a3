// The bill of materials in each package, sbom.cdx.json: its contents and dependencies, as CycloneDX
// JSON. Called by pack.mjs. Reproducible, so it contains no time and no random number.
import { createHash } from 'node:crypto';
import { copyFileSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { licenseTitles, platformPackage, recuaPackage, table } from './package-texts.mjs';
import { ownLlamaCpp, place, readPin, root } from './place.mjs';
import { cleanEnv, Failure, npm, output } from './process.mjs';
import { webPackages } from './web-modules.mjs';

export const sbomName = 'sbom.cdx.json';

const npmPurl = (name, version) => `pkg:npm/${name.replace(/^@/, '%40')}@${version}`;
const licensesOf = (text) => [/ (AND|OR|WITH) /.test(text) ? { expression: text } : { license: { id: text } }];
const sha256 = (path) => createHash('sha256').update(readFileSync(path)).digest('hex');

/** The version that a header of the llama.cpp tree defines. */
function versionIn(header, pattern) {
  const found = [...readFileSync(join(ownLlamaCpp() ?? place.vendor, header), 'utf8').matchAll(pattern)].map(([, version]) => version);
  if (found.length === 0) throw new Failure(`${header} of llama.cpp does not say its version where it did: mend scripts/sbom.mjs.`);
  return found.join('.');
}

const packageVersion = (name) => JSON.parse(readFileSync(join(place.nodeModules, name, 'package.json'), 'utf8')).version;

function llamaCpp() {
  const { version, tree, sources } = readPin();
  const { git } = sources.find((source) => source.git);
  const own = ownLlamaCpp() !== undefined;
  return {
    type: 'library', 'bom-ref': 'llama.cpp', name: 'llama.cpp', ...(own ? {} : { version, purl: `pkg:github/ggml-org/llama.cpp@${version}` }), licenses: licensesOf('MIT'),
    externalReferences: [{ type: 'vcs', url: git }],
    // The pin names the content, which a tag could change.
    properties: own ? [{ name: 'recua:source', value: 'a tree of the builder\'s own (RECUA_LLAMA_CPP)' }] : [{ name: 'recua:git-tree', value: tree }],
    pedigree: { notes: 'Built with the changes of cmake/, and some sources replaced by those of native/llama and native/llama-common.' },
  };
}

const gcc = 'GPL-3.0-or-later WITH GCC-exception-3.1';
const node = (name) => () => ({ name, version: packageVersion(name), purl: npmPurl(name, packageVersion(name)), licenses: licensesOf('MIT') });

/**
 * Component by the title of its license, so that this list covers every license that a package
 * carries; undefined for a text that belongs to another.
 */
const parts = {
  'llama.cpp and ggml': llamaCpp,
  'JSON for Modern C++': () => {
    const version = versionIn('vendor/nlohmann/json.hpp', /#define NLOHMANN_JSON_VERSION_(?:MAJOR|MINOR|PATCH) +(\d+)/g);
    return { name: 'nlohmann-json', version, purl: `pkg:github/nlohmann/json@v${version}`, licenses: licensesOf('MIT') };
  },
  'cpp-httplib': () => {
    const version = versionIn('vendor/cpp-httplib/httplib.h', /#define CPPHTTPLIB_VERSION "([\d.]+)"/g);
    return { name: 'cpp-httplib', version, purl: `pkg:github/yhirose/cpp-httplib@v${version}`, licenses: licensesOf('MIT') };
  },
  'llamafile (matrix multiplication in ggml)': () => ({ name: 'llamafile-sgemm', licenses: licensesOf('MIT'), description: 'As it is in ggml' }),
  'node-addon-api': node('node-addon-api'),
  'node-api-headers': node('node-api-headers'),
  'Vulkan-Headers': () => ({ name: 'Vulkan-Headers', licenses: licensesOf('Apache-2.0') }),
  'CUDA runtime': () => ({ name: 'cuda-runtime', licenses: [{ license: { name: 'NVIDIA CUDA Toolkit EULA' } }], description: 'Version 12, linked statically' }),
  'Visual C++ runtime': () => ({ name: 'visual-c-runtime', licenses: [{ license: { name: 'Microsoft Visual C++ runtime' } }] }),
  libgomp: () => ({ name: 'libgomp', licenses: licensesOf(gcc) }),
  'libstdc++': () => ({ name: 'libstdc++', licenses: licensesOf(gcc), description: 'Linked statically' }),
  'GCC Runtime Library Exception': undefined,
  'GNU General Public License': undefined,
};

function partOf(title) {
  if (!(title in parts)) throw new Failure(`scripts/sbom.mjs does not know what "${title}" is the license of: add it to its parts.`);
  const part = parts[title]?.();
  return part ? [{ type: 'library', 'bom-ref': part.name, ...part }] : [];
}

/** `dependencies` gets the reference of the package itself. */
function document({ name, version, license, type }, components, dependencies) {
  const ref = `${name}@${version}`;
  const [group, short] = name.startsWith('@') ? name.split('/') : [undefined, name];
  return {
    $schema: 'http://cyclonedx.org/schema/bom-1.5.schema.json', bomFormat: 'CycloneDX', specVersion: '1.5', version: 1,
    metadata: {
      lifecycles: [{ phase: 'build' }],
      component: { type, 'bom-ref': ref, ...(group ? { group } : {}), name: short, version, purl: npmPurl(name, version), licenses: licensesOf(license) },
    },
    components,
    dependencies: dependencies(ref),
  };
}

/** For a package with native code; `stage` holds the packed files. */
export function platformSbom(target, stage) {
  const { name, version, license } = platformPackage(target);
  const used = licenseTitles(target).flatMap(partOf);
  const files = readdirSync(join(stage, 'bin')).sort().map((file) => (
    { type: 'file', 'bom-ref': `bin/${file}`, name: `bin/${file}`, hashes: [{ alg: 'SHA-256', content: sha256(join(stage, 'bin', file)) }] }
  ));
  return document({ name, version, license, type: 'library' }, [...used, ...files], (ref) => (
    [{ ref, dependsOn: [...used, ...files].map((one) => one['bom-ref']) }]
  ));
}

/**
 * Recua's runtime dependencies according to npm. Run where only the published package.json is: in a
 * checkout, `npm sbom` leaves out what development also needs.
 */
function npmPart(manifest) {
  const folder = mkdtempSync(join(tmpdir(), 'recua-sbom-'));
  try {
    const { optionalDependencies, ...plain } = manifest;
    void optionalDependencies;
    writeFileSync(join(folder, 'package.json'), JSON.stringify(plain));
    copyFileSync(place.packageLock, join(folder, 'package-lock.json'));
    const ask = (...args) => {
      const { command, args: all, shell } = npm([...args, '--package-lock-only', '--offline', '--silent']);
      return output(command, all, { cwd: folder, shell, env: cleanEnv() });
    };
    ask('install', '--ignore-scripts', '--no-audit', '--no-fund');
    const { components, dependencies } = JSON.parse(ask('sbom', '--sbom-format=cyclonedx'));
    return { components, dependencies };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** For recua itself. Lists its optional dependencies, which hold llama.cpp, with the others. */
export function recuaSbom() {
  const { repository, ...manifest } = recuaPackage();
  void repository;
  const { version } = manifest;
  const used = npmPart(manifest);
  const page = webPackages().map(({ name, version: of, license }) => (
    { type: 'library', 'bom-ref': `web/${name}@${of}`, name, version: of, purl: npmPurl(name, of), licenses: licensesOf(license), description: 'A copy for the page, in web/vendor' }
  ));
  const model = {
    type: 'machine-learning-model', 'bom-ref': 'builtin/builtin.gguf', name: 'builtin/builtin.gguf', version, licenses: licensesOf('MIT'),
    hashes: [{ alg: 'SHA-256', content: sha256(join(root, 'builtin', 'builtin.gguf')) }],
  };
  const native = Object.values(table).filter(({ isBase }) => isBase).map(platformPackage).map(({ name, license }) => (
    { type: 'library', 'bom-ref': `${name}@${version}`, name, version, scope: 'optional', purl: npmPurl(name, version), licenses: licensesOf(license) }
  ));
  const own = [...page, model];
  return document({ ...manifest, type: 'application' }, [...used.components, ...own, ...native, { ...llamaCpp(), scope: 'optional' }], (ref) => [
    ...used.dependencies.map((one) => (one.ref === ref ? { ref, dependsOn: [...one.dependsOn, ...[...own, ...native].map((more) => more['bom-ref'])] } : one)),
    ...native.map((one) => ({ ref: one['bom-ref'], dependsOn: ['llama.cpp'] })),
  ]);
}
