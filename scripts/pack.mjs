// `npm run pack [-- TARGET …] [--list] [--any-glibc]`: builds the prebuilt packages that this
// machine can build, and recua itself as published, into npm/dist/. Without names it skips targets
// that it cannot build and says why; a named target that it cannot build is an error. If the
// system's glibc is newer than the packages promise, it first fetches an older one to build against
// (pack-tools.mjs). `--any-glibc` packs a build for this system's glibc, and the package says so.
// See docs/packages.md.
import { copyFileSync, cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { cmakeBuild } from './cmake-build.mjs';
import { compareVersions } from './elf.mjs';
import { cmakeOptions } from './native.mjs';
import { checkBinaries } from './package-check.mjs';
import { binaries, files, platformPackage, readme, recuaPackage, repository, table, thirdPartyLicenses } from './package-texts.mjs';
import { canFetchTools, gompPath, hasSysroot, makeSysroot, toolOptions } from './pack-tools.mjs';
import { withPackagedLinks } from './packaged-links.mjs';
import { packagesPending } from './packages.mjs';
import { isProgram, ownLlamaCpp, place, root } from './place.mjs';
import { capture, Failure, npm } from './process.mjs';
import { say, step } from './progress.mjs';
import { program } from './setup.mjs';
import { filesUnder } from './stamp.mjs';
import { platformSbom, recuaSbom, sbomName } from './sbom.mjs';
import { compileTypescript, typescriptPending } from './typescript.mjs';
import { vendor, vendorPending } from './vendor.mjs';
import { copyWebModules, webModulesPending } from './web-modules.mjs';

const options = () => [...toolOptions(), ...cmakeOptions()];

const optionValue = (name) => options().map((option) => new RegExp(`^${name}(:\\w+)?=(.*)$`).exec(option)?.[2]).find(Boolean);

function cannotBuildVulkan() {
  const glslc = optionValue('Vulkan_GLSLC_EXECUTABLE') ?? (process.env.VULKAN_SDK ? join(process.env.VULKAN_SDK, process.platform === 'win32' ? 'Bin' : 'bin', 'glslc') : 'glslc');
  const told = capture(glslc, ['--version']);
  if (told === undefined) return `there is no ${glslc}, which compiles shaders: install the Vulkan SDK, or on Debian run \`node scripts/pack-tools.mjs vulkan\``;
  const [, year, release] = /shaderc v?(\d+)\.(\d+)/.exec(told) ?? [];
  if (Number(year) * 100 + Number(release) >= 202502) return undefined;
  return `${glslc} is shaderc ${year}.${release}, and 2025.2 is the oldest known to know what llama.cpp's shaders use: install a newer Vulkan SDK, or on Debian run \`node scripts/pack-tools.mjs vulkan\``;
}

function cannotBuildCuda() {
  const told = capture(optionValue('CMAKE_CUDA_COMPILER') ?? process.env.CUDACXX ?? 'nvcc', ['--version']);
  if (told === undefined) return 'there is no nvcc: install the CUDA toolkit, or set CUDACXX to its nvcc';
  const [, version = '?'] = /release (\d+\.\d+)/.exec(told) ?? [];
  if (!/^12\.(?:[89]|\d\d)/.test(version)) return `nvcc is of CUDA ${version}, and the package promises to work with drivers and cuBLAS of CUDA 12: set CUDACXX to an nvcc of CUDA 12 (12.8 or later)`;
  return undefined;
}

/** Why this machine cannot build a target, or undefined. There is no cross-compiling. */
export function cannotBuild(target) {
  if (target.os !== process.platform || target.cpu !== process.arch) return `that needs a ${target.os} ${target.cpu} machine`;
  if (target.backend === 'vulkan') return cannotBuildVulkan();
  if (target.backend === 'cuda') return cannotBuildCuda();
  return undefined;
}

/**
 * The newest glibc to build against without needing newer symbols than the packages promise:
 * cmake/glibc-floor.h covers symbols up to that version.
 */
const newestGlibc = '2.31';

/** The glibc that programs link with here; undefined if the system has none. */
const glibcHere = () => process.report.getReport().header.glibcVersionRuntime;

/**
 * Why a package built here would not run with the glibc it promises, or undefined: a binary needs
 * the glibc it was linked with.
 */
export function glibcTooNew(target, { here = glibcHere(), sysroot = hasSysroot() } = {}) {
  if (!target.glibc || !here || sysroot || compareVersions(here, newestGlibc) <= 0) return undefined;
  return `this system's glibc is ${here}, the package promises to run with ${target.glibc}, and what is built against the one does not run with the other`;
}

/** Gets an older glibc before building: a build takes minutes and would be refused at the end. */
export async function ensureGlibc(targets, { canFetch = canFetchTools, fetch = makeSysroot, ...here } = {}) {
  const reason = targets.map((target) => glibcTooNew(target, here)).find(Boolean);
  if (!reason) return;
  const ways = 'Ways out: build on a system with an older glibc (docs/packages.md), fetch one yourself on Debian or a relative (`node scripts/pack-tools.mjs`), '
    + 'or pack for systems like this one (`npm run pack -- --any-glibc`).';
  if (!canFetch()) throw new Failure(`Nothing was built: ${reason}. ${ways}`);
  try {
    await step(`Unpacking an older glibc to build against: ${reason}`, fetch);
  } catch (thrown) {
    throw new Failure(`Nothing was built: ${reason}, and an older one could not be fetched. ${ways}\n${thrown.message}`);
  }
}

const stageOf = (name) => join(place.buildPack, 'stage', name);

/** Source of a file in bin/. */
function sourceOf(name, release) {
  if (name === 'libgomp.so.1') return gompPath();
  if (!/^(msvcp|vcruntime)/.test(name)) return join(release, name);
  const folder = join(process.env.VCToolsRedistDir ?? '', 'x64', 'Microsoft.VC143.CRT');
  if (!existsSync(folder)) throw new Failure(`There is no ${folder}: run this in a Visual Studio developer prompt, which sets VCToolsRedistDir.`);
  return join(folder, name);
}

function write(folder, name, text) {
  mkdirSync(dirname(join(folder, name)), { recursive: true });
  writeFileSync(join(folder, name), text);
}

async function buildTarget(target, report) {
  const folder = join(place.buildPack, target.name);
  const product = target.isBase ? 'recua.node' : binaries(target)[0];
  const build = cmakeBuild({
    folder, product: join(folder, 'Release', product), target: target.isBase ? 'recua' : `ggml-${target.backend}`,
    options: ['RECUA_PACKAGED=ON', `RECUA_PACKAGED_CPU=${target.isBase ? 'ON' : 'OFF'}`, ...target.cmake, ...options()],
  });
  if (build.pending()) await build.build(report);
  return join(folder, 'Release');
}

async function packTarget(target, { anyGlibc }, report) {
  const release = await buildTarget(target, report);
  const stage = stageOf(target.name);
  rmSync(stage, { recursive: true, force: true });
  mkdirSync(join(stage, 'bin'), { recursive: true });
  for (const name of binaries(target)) copyFileSync(sourceOf(name, release), join(stage, 'bin', name));
  const reached = checkBinaries(target, join(stage, 'bin'), { anyGlibc });
  const texts = { ...platformPackage(anyGlibc && reached.GLIBC ? { ...target, glibc: reached.GLIBC } : target), ...repository() };
  write(stage, 'package.json', `${JSON.stringify(texts, null, 2)}\n`);
  write(stage, 'README.md', readme(target));
  write(stage, 'THIRD-PARTY-LICENSES', thirdPartyLicenses(target));
  copyFileSync(join(root, 'LICENSE'), join(stage, 'LICENSE'));
  write(stage, sbomName, `${JSON.stringify(platformSbom(target, stage), null, 2)}\n`);
  const packed = npmPack(stage);
  expectFiles(target.name, packed.files, files(target));
  return { ...packed, needs: Object.entries(reached).map(([name, version]) => `${name} ${version}`).join(', ') };
}

/** Runs `npm pack` on a folder, without running its scripts. */
function npmPack(folder, { to = place.packed, more = [] } = {}) {
  mkdirSync(to, { recursive: true });
  const { command, args, shell } = npm(['pack', '--json', '--ignore-scripts', '--silent', '--pack-destination', to, ...more]);
  const told = capture(command, args, { cwd: folder, shell });
  const [packed] = JSON.parse(told?.slice(told.indexOf('[')) ?? '[]');
  if (!packed) throw new Failure(`npm pack failed in ${folder}`);
  return {
    file: packed.filename,
    files: packed.files.map(({ path }) => path).sort(),
    sizeBytes: packed.size,
    unpackedBytes: packed.unpackedSize,
  };
}

function expectFiles(name, found, expected) {
  const lines = [...expected.filter((path) => !found.includes(path)).map((path) => `missing: ${path}`),
    ...found.filter((path) => !expected.includes(path)).map((path) => `too much: ${path}`)];
  if (lines.length > 0) throw new Failure(`The package ${name} does not hold what it should:\n  ${lines.join('\n  ')}`);
}

/**
 * recua as published: the files that the checkout's package.json names, with a package.json of its
 * own.
 */
export async function packRecua(to = place.packed) {
  if (typescriptPending()) await compileTypescript();
  if (webModulesPending()) copyWebModules();
  const stage = stageOf('recua');
  rmSync(stage, { recursive: true, force: true });
  const { files: listed } = npmPack(root, { more: ['--dry-run'] });
  for (const path of listed) {
    mkdirSync(dirname(join(stage, path)), { recursive: true });
    cpSync(join(root, path), join(stage, path));
  }
  const isPackaged = (path) => listed.some((one) => one === path || one.startsWith(`${path}/`));
  for (const path of listed.filter((one) => one.endsWith('.md'))) write(stage, path, withPackagedLinks(readFileSync(join(root, path), 'utf8'), path, isPackaged));
  write(stage, 'package.json', `${JSON.stringify({ ...recuaPackage(), ...repository() }, null, 2)}\n`);
  write(stage, sbomName, `${JSON.stringify(recuaSbom(), null, 2)}\n`);
  const packed = npmPack(stage, { to });
  const compiled = filesUnder(place.source).filter((path) => /\.c?ts$/.test(path)).flatMap((path) => ['.$1js', '.d.$1ts'].map((ending) => `dist/${path.replace(/\.(c?)ts$/, ending)}`));
  const page = filesUnder(place.web).filter((path) => !/\.d\.ts$|^tsconfig\.json$/.test(path)).map((path) => `web/${path}`);
  const wanted = [...page, 'LICENSE', 'README.md', 'package.json', sbomName, 'builtin/builtin.gguf', 'vendor/llama.cpp.json', ...compiled];
  expectFiles('recua', packed.files.filter((path) => !/^docs\/|^examples\/|^(CHANGELOG|SECURITY)\.md$|js\.map$/.test(path)), wanted);
  return packed;
}

const mebibytes = (bytes) => `${(bytes / 2 ** 20).toFixed(1)} MiB`;

/** Parses arguments: options, and the names of targets. */
function parse(given) {
  const known = ['--list', '--any-glibc'];
  const wrong = given.find((argument) => (argument.startsWith('-') ? !known.includes(argument) : argument !== 'recua' && !Object.hasOwn(table, argument)));
  if (wrong) throw new Failure(`There is no ${wrong.startsWith('-') ? 'option' : 'target'} ${wrong}. Targets: recua, ${Object.keys(table).join(', ')}. Options: ${known.join(', ')}.`);
  return { list: given.includes('--list'), anyGlibc: given.includes('--any-glibc'), names: given.filter((argument) => !argument.startsWith('-')) };
}

if (isProgram(import.meta.url)) {
  await program(async () => {
    const { list, anyGlibc, names } = parse(process.argv.slice(2));
    const reasons = Object.fromEntries(Object.values(table).map((target) => [target.name, cannotBuild(target)]));
    if (list) {
      for (const [name, reason] of Object.entries(reasons)) console.log(`${name}: ${reason ?? 'can be built here'}`);
      return 0;
    }
    if (packagesPending()) throw new Failure('node_modules is missing or old. Run `npm run setup`.');
    const needsTree = names.length === 0 || names.some((name) => name !== 'recua');
    if (needsTree && !ownLlamaCpp() && vendorPending()) await step('Fetching llama.cpp', () => vendor());
    const impossible = names.find((name) => reasons[name]);
    if (impossible) throw new Failure(`${impossible} cannot be built here: ${reasons[impossible]}.`);
    if (!anyGlibc)
      await ensureGlibc(Object.values(table).filter(({ name }) => !reasons[name] && (names.length === 0 || names.includes(name))));
    const results = [];
    for (const target of Object.values(table)) {
      if (names.length > 0 && !names.includes(target.name)) continue;
      if (reasons[target.name]) {
        say(`Skipped ${target.name}: ${reasons[target.name]}`);
        continue;
      }
      await step(`Building and packing ${target.name}`, async (report) => { results.push(await packTarget(target, { anyGlibc }, report)); });
    }
    if (names.length === 0 || names.includes('recua')) await step('Packing recua', async () => { results.push(await packRecua()); });
    for (const { file, sizeBytes, unpackedBytes, needs } of results) {
      console.log(`${file}: ${mebibytes(sizeBytes)} packed, ${mebibytes(unpackedBytes)} unpacked${needs ? `, needs ${needs}` : ''}`);
    }
    return 0;
  });
}
