// The native addon: cmake-js over the root CMakeLists.txt, run only when something it is made from changed.
import { existsSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { ownLlamaCpp, place, readPin, root } from './place.mjs';
import { Failure, run } from './process.mjs';
import { buildCounter } from './progress.mjs';
import { filesUnder, fingerprint, readJson, writeJson } from './stamp.mjs';

const stampPath = join(place.build, 'recua.stamp.json');
/** There while a build runs: if it is there before one, the last was cut off. */
const markPath = join(place.build, 'recua.building');
const cachePath = join(place.build, 'CMakeCache.txt');
const cmakeJs = join(place.nodeModules, 'cmake-js', 'bin', 'cmake-js');

/** Options of the user's own for cmake, e.g. RECUA_CMAKE_ARGS="-DGGML_CUDA=ON". */
function cmakeOptions() {
  const given = (process.env.RECUA_CMAKE_ARGS ?? '').split(/\s+/).filter(Boolean);
  const wrong = given.find((option) => !/^-D\w+(:\w+)?=/.test(option));
  if (wrong) throw new Failure(`RECUA_CMAKE_ARGS takes options like -DGGML_CUDA=ON, not ${wrong}.`);
  return given.map((option) => option.slice(2));
}

/** What the build is made from, in two parts: a change of the first needs cmake's configure step, of the second only a build. */
function ingredients() {
  const versions = ['cmake-js', 'node-addon-api', 'node-api-headers']
    .map((name) => readJson(join(place.nodeModules, name, 'package.json'))?.version ?? '');
  const own = ownLlamaCpp();
  return {
    configuration: fingerprint([join(root, 'CMakeLists.txt')], root, own ?? readPin().tree, cmakeOptions(), versions, process.platform, process.arch),
    sources: fingerprint(filesUnder(place.native).map((path) => join(place.native, path))),
  };
}

/** A checkout of the user's own may change at any time, so ninja or make is always asked about it. */
export function nativePending() {
  if (ownLlamaCpp() || !existsSync(place.addon) || existsSync(markPath)) return true;
  const stamp = readJson(stampPath);
  const now = ingredients();
  return stamp?.configuration !== now.configuration || stamp.sources !== now.sources;
}

export async function buildNative(report = () => {}) {
  const own = ownLlamaCpp();
  if (own && !existsSync(join(own, 'include', 'llama.h'))) {
    throw new Failure(`RECUA_LLAMA_CPP is ${own}, but there is no llama.cpp (no include/llama.h).`);
  }
  const now = ingredients();
  const options = [`RECUA_LLAMA_CPP=${own ?? place.vendor}`, ...cmakeOptions()].map((option) => `--CD${option}`);
  if (!isConfigured() || readJson(stampPath)?.configuration !== now.configuration) await configure(options, now, report);
  dropCutOff();
  writeFileSync(markPath, '');
  await cmake(['build', '--parallel', String(jobs()), ...options], report);
  if (!existsSync(place.addon)) throw new Failure(`The build ended well but left no ${place.addon}. Delete the build folder and run this again.`);
  rmSync(markPath, { force: true });
  writeJson(stampPath, now);
}

async function configure(options, now, report) {
  report(0, 'configuring');
  // Without its build file a cache is from a configure step that was cut off; from another folder or generator it does not fit.
  if (!isConfigured() || !cacheFits()) forget();
  try {
    await cmake(['configure', ...options], report);
  } catch (error) {
    if (!existsSync(cachePath)) throw error;
    forget();
    await cmake(['configure', ...options], report);
  }
  writeJson(stampPath, { configuration: now.configuration, sources: '' });
}

function cmake(args, report) {
  return run(process.execPath, [cmakeJs, ...args, '--directory', root, '--out', place.build], { onLine: buildCounter(report) });
}

function isConfigured() {
  return existsSync(cachePath) && (hasMakefile() || readdirSync(place.build).some((name) => name === 'build.ninja' || /\.(sln|slnx|xcodeproj)$/.test(name)));
}

/** A Makefile of cmake's: node-gyp writes one of its own to the same place, which would call us again. */
function hasMakefile() {
  const path = join(place.build, 'Makefile');
  return existsSync(path) && readFileSync(path, 'utf8').startsWith('# CMAKE generated file');
}

function cacheEntry(name) {
  return new RegExp(`^${name}:\\w+=(.*)$`, 'm').exec(readFileSync(cachePath, 'utf8'))?.[1];
}

function cacheFits() {
  const home = cacheEntry('CMAKE_HOME_DIRECTORY');
  return home !== undefined && home === root.replaceAll('\\', '/') && existsSync(cacheEntry('CMAKE_MAKE_PROGRAM') ?? '');
}

function forget() {
  rmSync(cachePath, { force: true });
  rmSync(join(place.build, 'CMakeFiles'), { recursive: true, force: true });
}

/** Ninja knows what it did not finish. Make does not: after a kill the newest outputs, one per job, may be cut off. */
function dropCutOff() {
  if (!existsSync(markPath) || !hasMakefile()) return;
  const outputs = filesUnder(place.build).filter((path) => /\.(o|obj|so|dylib|a|node)(\.\d+)*$/.test(path)).map((path) => join(place.build, path));
  outputs.sort((a, b) => statSync(b).mtimeMs - statSync(a).mtimeMs);
  for (const path of outputs.slice(0, jobs() + 1)) rmSync(path, { force: true });
}

/** As many compilers as there are cores, but no more than memory bears at about 1 GiB each. */
function jobs() {
  return Math.max(1, Math.min(os.availableParallelism(), Math.floor(os.totalmem() / 2 ** 30)));
}
