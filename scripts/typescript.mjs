// Compiles src → dist with tsc, only if a source changed.
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { place, root } from './place.mjs';
import { run } from './process.mjs';
import { filesUnder, fingerprint, readJson, writeJson } from './stamp.mjs';

const stampPath = join(place.build, 'typescript.stamp.json');
const tsc = join(place.nodeModules, 'typescript', 'lib', 'tsc.js');

function sources() {
  return filesUnder(place.source).filter((path) => /\.c?ts$/.test(path));
}

function outputs(files) {
  return files.map((path) => join(place.dist, path.replace(/ts$/, 'js')));
}

function currentFingerprint(files) {
  const compiler = readJson(join(place.nodeModules, 'typescript', 'package.json'))?.version;
  return fingerprint([...files.map((path) => join(place.source, path)), join(root, 'tsconfig.json')], compiler);
}

export function typescriptPending() {
  const files = sources();
  return readJson(stampPath)?.fingerprint !== currentFingerprint(files) || outputs(files).some((path) => !existsSync(path));
}

export async function compileTypescript() {
  const files = sources();
  const fresh = currentFingerprint(files);
  // tsc remembers what it wrote and would not rewrite a lost file.
  if (outputs(files).some((path) => !existsSync(path))) rmSync(join(place.dist, '.tsbuildinfo'), { force: true });
  await run(process.execPath, [tsc, '-p', root, '--pretty', 'false']);
  dropOrphans(place.dist, files);
  writeJson(stampPath, { fingerprint: fresh });
}

/** Removes outputs of deleted sources: tap or an import could still find them. */
function dropOrphans(folder, files) {
  const kept = new Set(files.map((path) => path.replace(/ts$/, '')));
  for (const path of filesUnder(folder)) {
    const source = path.replace(/(?:\.d(\.c?)ts|(\.c?)js\.map|(\.c?)js)$/, '$1$2$3');
    if (source !== path && !kept.has(source)) rmSync(join(folder, path), { force: true });
  }
}

/**
 * Compiles test → dist-test. Needs dist, because tests import the product's declarations. The
 * page's sources are checked but served as they are.
 */
export async function compileTests() {
  await run(process.execPath, [tsc, '-p', place.web, '--pretty', 'false']);
  const tests = join(root, 'test');
  await run(process.execPath, [tsc, '-p', tests, '--pretty', 'false']);
  dropOrphans(place.distTest, filesUnder(tests).filter((path) => path.endsWith('.ts')));
}
