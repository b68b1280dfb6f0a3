// Selects the test files for a call of `npm test`: the short form, all, those that match a pattern,
// or those affected by changes. All paths are relative to the repository, with forward slashes.
import { existsSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { place, root } from './place.mjs';
import { capture, Failure } from './process.mjs';
import { filesUnder } from './stamp.mjs';

const textOf = (path) => readFileSync(join(root, path), 'utf8');

/** Every test file. */
export function allTests() {
  return filesUnder(join(root, 'test')).filter((path) => path.endsWith('.test.ts')).map((path) => `test/${path}`);
}

/** The files in test/long.txt, each with its seconds. */
function longTimes() {
  const lines = textOf('test/long.txt').split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return lines.map((line) => line.split(/\s+/)).map(([path, seconds]) => [path, Number(seconds)]);
}

/** The files in test/long.txt. */
export function longTests() {
  return longTimes().map(([path]) => path);
}

/** Files that take minutes come first: begun last, one would run alone at the end. */
export function longestFirst(tests) {
  const seconds = new Map(longTimes());
  const minutes = (path) => Math.floor((seconds.get(path) ?? 0) / 60);
  return tests.toSorted((a, b) => minutes(b) - minutes(a));
}

/** A file or a part of its path, `test/cli`, `hub`; `*` matches anything. */
export function testsOf(patterns) {
  const all = allTests();
  return [...new Set(patterns.flatMap((pattern) => {
    const plain = pattern.replaceAll('\\', '/').replace(/^\.\//, '').replace(/^dist-test\/(.*)\.js$/, 'test/$1.ts');
    if (all.includes(plain)) return [plain];
    const parts = plain.split(/\*+/).map((part) => part.replace(/[.+?^${}()|[\]\\]/g, '\\$&'));
    const found = all.filter((path) => new RegExp(parts.join('.*')).test(path));
    if (found.length === 0) throw new Failure(`No test file's path holds "${pattern}". Files are named like test/models/gguf/gguf.test.ts, or by a part of that: gguf.`);
    return found;
  }))].sort();
}

/** Whether any of these needs llama.cpp's own programs, which take a while to build. */
export function needsPeers(tests) {
  return tests.some((path) => /\.\/llama-server\.js'|llama-quantize'/.test(textOf(path)));
}

/**
 * What differs from the branch point at `origin/main` (or, without it, from HEAD), including
 * uncommitted changes: `{ base, paths }`. Undefined outside a clone.
 */
export function changedFiles() {
  const git = (...args) => capture('git', args);
  const base = git('merge-base', 'HEAD', 'origin/main') ?? git('rev-parse', 'HEAD');
  if (base === undefined) return undefined;
  const lines = (text) => (text ?? '').split('\n').filter((line) => line !== '');
  return { base, paths: [...new Set([...lines(git('-c', 'core.quotePath=off', 'diff', '--name-only', base)), ...lines(git('-c', 'core.quotePath=off', 'ls-files', '--others', '--exclude-standard'))])].sort() };
}

/** Tests affected by files other than the TypeScript of src and test. */
const concerns = [
  [/^(native|cmake|vendor|builtin)\/|^CMakeLists/, /^test\/(native|engine|addon)\//],
  [/^web\//, /^test\/(page|server\/ui)\//],
  [/^(scripts|npm|\.ci)\/|^package(-lock)?\.json$/, /^test\/scripts\//],
  [/^bench\//, /^test\/imports/],
  [/^examples\//, /^test\/library\//],
  [/\.md$|^docs\//, /^test\/(doc-|imports|errors|cli\/docs|server\/reference)/],
  [/^(src|native|test|scripts)\//, /^test\/imports/],
];

const isTestData = (path) => path.startsWith('test/') && !path.endsWith('.ts');

/**
 * The test files affected by these paths: those that import one, directly or not; those in the test
 * folder of a src folder, because they may start the built program; those beside or above test
 * data; and those of `concerns`.
 */
export async function testsConcerning(paths) {
  const reaches = await importsOf(['src', 'test']);
  const all = allTests();
  const chosen = new Set();
  for (const path of paths) {
    const mirrored = /^src\/(.*)\/[^/]+$/.exec(path)?.[1];
    for (const test of all) {
      if (test === path || (mirrored && posix.dirname(test) === `test/${mirrored}`)) chosen.add(test);
      if (isTestData(path) && path.startsWith(`${posix.dirname(test)}/`) && posix.dirname(test) !== 'test') chosen.add(test);
      if (concerns.some(([from, to]) => from.test(path) && to.test(test))) chosen.add(test);
      if (reaches(test).has(path)) chosen.add(test);
    }
  }
  return [...chosen].sort();
}

/** Returns a function from a file to everything it imports, directly or not, including itself. */
async function importsOf(folders) {
  const { default: typescript } = await import(`file://${encodeURI(join(place.nodeModules, 'typescript', 'lib', 'typescript.js').replaceAll('\\', '/'))}`);
  const next = (path) => {
    // Type-only imports are left to tsc.
    const text = textOf(path).replace(/^(?:import|export) type\b[^;]*;/gm, '');
    const named = typescript.preProcessFile(text, true, true).importedFiles.map(({ fileName }) => fileName);
    const byUrl = [...text.matchAll(/new URL\(\s*['"`](\.{1,2}\/[^'"`]+)['"`]/g)].map(([, name]) => name);
    return [...named, ...byUrl].flatMap((name) => {
      const target = name.startsWith('#recua/') ? name.replace('#recua/', 'src/') : name === 'recua' ? 'src/index.js' : name.startsWith('.') ? posix.join(posix.dirname(path), name) : undefined;
      return target === undefined ? [] : [target.replace(/js$/, 'ts'), target].filter((file) => folders.includes(file.split('/')[0]) && /\.c?ts$/.test(file) && existsSync(join(root, file))).slice(0, 1);
    });
  };
  const edges = new Map();
  return (start) => {
    const seen = new Set();
    const open = [start];
    for (let path = open.pop(); path !== undefined; path = open.pop()) {
      if (seen.has(path)) continue;
      seen.add(path);
      if (!edges.has(path)) edges.set(path, next(path));
      open.push(...edges.get(path));
    }
    return seen;
  };
}
