// A cmake-js build folder over the root CMakeLists.txt, rebuilt only when its inputs changed. The
// local addon (native.mjs) and the prebuilt packages (pack.mjs) are such builds.
import { existsSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { ownLlamaCpp, place, readPin, root } from './place.mjs';
import { Failure, run } from './process.mjs';
import { buildCounter } from './progress.mjs';
import { filesUnder, fingerprint, readJson, writeJson } from './stamp.mjs';

const cmakeJs = join(place.nodeModules, 'cmake-js', 'bin', 'cmake-js');

/** One compiler per core, but no more than memory allows at about 1 GiB each. */
export function jobs() {
  return Math.max(1, Math.min(os.availableParallelism(), Math.floor(os.totalmem() / 2 ** 30)));
}

/**
 * @param {{ folder: string, options: string[], product: string, target?: string }} build its
 *   folder, options for cmake without `-D`, the file that exists once the build succeeded, and the
 *   target if not everything is wanted
 */
export function cmakeBuild({ folder, options: given, product, target }) {
  const stampPath = join(folder, 'recua.stamp.json');
  /** Exists while a build runs: if it exists before one, the last build was interrupted. */
  const markPath = join(folder, 'recua.building');
  const cachePath = join(folder, 'CMakeCache.txt');

  /**
   * Two stamps of the build's inputs: a change of the first needs cmake's configure step, a change
   * of the second only a build.
   */
  function ingredients() {
    const versions = ['cmake-js', 'node-addon-api', 'node-api-headers']
      .map((name) => readJson(join(place.nodeModules, name, 'package.json'))?.version ?? '');
    const cmakeFiles = [join(root, 'CMakeLists.txt'), ...under(place.cmake)];
    return {
      configuration: fingerprint(cmakeFiles, root, ownLlamaCpp() ?? readPin().tree, given, versions, process.platform, process.arch),
      sources: fingerprint(under(place.native)),
    };
  }

  /** The user may change their own checkout at any time, so always ask ninja or make. */
  function pending() {
    if (ownLlamaCpp() || !existsSync(product) || existsSync(markPath)) return true;
    const stamp = readJson(stampPath);
    const now = ingredients();
    return stamp?.configuration !== now.configuration || stamp.sources !== now.sources;
  }

  async function build(report = () => {}) {
    const own = ownLlamaCpp();
    if (own && !existsSync(join(own, 'include', 'llama.h'))) {
      throw new Failure(`RECUA_LLAMA_CPP is ${own}, but there is no llama.cpp (no include/llama.h).`);
    }
    const now = ingredients();
    const options = [`RECUA_LLAMA_CPP=${own ?? place.vendor}`, ...given].map((option) => `--CD${option}`);
    if (!isConfigured() || readJson(stampPath)?.configuration !== now.configuration) await configure(options, now, report);
    dropCutOff();
    writeFileSync(markPath, '');
    await cmake(['build', '--parallel', String(jobs()), ...(target ? ['--target', target] : []), ...options], report);
    if (!existsSync(product)) throw new Failure(`The build ended well but left no ${product}. Delete the build folder and run this again.`);
    rmSync(markPath, { force: true });
    writeJson(stampPath, now);
  }

  async function configure(options, now, report) {
    report(0, 'configuring');
    // A cache without its build file comes from an interrupted configure step; one from another
    // folder or generator does not fit.
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
    return run(process.execPath, [cmakeJs, ...args, '--directory', root, '--out', folder], { onLine: buildCounter(report) });
  }

  function isConfigured() {
    return existsSync(cachePath) && (hasMakefile() || readdirSync(folder).some((name) => name === 'build.ninja' || /\.(sln|slnx|xcodeproj)$/.test(name)));
  }

  /**
   * Whether the Makefile is cmake's: node-gyp writes its own to the same place, which would call
   * this script again.
   */
  function hasMakefile() {
    const path = join(folder, 'Makefile');
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
    rmSync(join(folder, 'CMakeFiles'), { recursive: true, force: true });
  }

  /**
   * Deletes outputs that may be incomplete. Ninja knows what it did not finish. Make does not:
   * after a kill, the newest outputs, one per job, may be truncated.
   */
  function dropCutOff() {
    if (!existsSync(markPath) || !hasMakefile()) return;
    const outputs = under(folder).filter((path) => /\.(o|obj|so|dylib|a|node)(\.\d+)*$/.test(path));
    outputs.sort((a, b) => statSync(b).mtimeMs - statSync(a).mtimeMs);
    for (const path of outputs.slice(0, jobs() + 1)) rmSync(path, { force: true });
  }

  return { pending, build };
}

function under(folder) {
  return existsSync(folder) ? filesUnder(folder).map((path) => join(folder, path)) : [];
}
