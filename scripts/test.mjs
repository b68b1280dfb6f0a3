// `npm test`: set-up if it is missing, type checking, eslint, then tests with tap. eslint checks
// the files that differ from origin/main; with --all, every file.
//
//   npm test                    the short form: all but the files of test/long.txt
//   npm run test:all            every test, as CI runs them
//   npm test -- --changed       tests affected by the changes since origin/main, by imports,
//                               without the files of test/long.txt (with --all: these, too)
//   npm test -- PATTERN...      files by path or a part of it: test/cli, gguf
//
// Other options are those of tap-run.mjs: `--jobs=1`, `--reporter=tap` (the raw result), `--bail`.
// The last line is `N passed, N failed`.
import { createWriteStream, existsSync, readFileSync } from 'node:fs';
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { eslint } from './lint.mjs';
import { oneAtATime } from './one-at-a-time.mjs';
import { ensurePeers } from './peers.mjs';
import { root } from './place.mjs';
import { cleanEnv, Failure } from './process.mjs';
import { say, seconds } from './progress.mjs';
import { program, setUp } from './setup.mjs';
import { countTap } from './tap-result.mjs';
import { allTests, changedFiles, longestFirst, longTests, needsPeers, testsConcerning, testsOf } from './test-choice.mjs';
import { compileTests } from './typescript.mjs';

const resultPath = join(root, '.tap', 'result.tap');
const errorsPath = join(root, '.tap', 'stderr.log');
const runningPath = join(root, '.tap', 'running.pid');

/**
 * Parses the arguments: `{ tests, left, changed, options }`. `left` tells how to run what is not
 * run; eslint checks the files of `changed`, or all.
 */
async function choose(args) {
  const options = args.filter((argument) => argument.startsWith('-') && argument !== '--all' && argument !== '--changed');
  const patterns = args.filter((argument) => !argument.startsWith('-'));
  const long = new Set(longTests());
  if (args.includes('--changed')) {
    const found = changedFiles();
    if (!found) throw new Failure('git does not say what was changed: --changed needs a clone with a commit.');
    const { base, paths } = found;
    const affected = await testsConcerning(paths);
    const tests = args.includes('--all') ? affected : affected.filter((path) => !long.has(path) || paths.includes(path));
    const skipped = affected.length - tests.length;
    say(`${paths.length} files differ from ${base.slice(0, 9)}; ${affected.length} test files are affected.`);
    if (skipped > 0) say(`${skipped} of them take long and are not run. To run them, too: npm test -- --changed --all`);
    return { tests, left: 'npm test', changed: paths, options };
  }
  if (patterns.length > 0) return { tests: testsOf(patterns), changed: changedFiles()?.paths, options };
  if (args.includes('--all')) return { tests: allTests(), options };
  return { tests: allTests().filter((path) => !long.has(path)), left: 'npm run test:all', changed: changedFiles()?.paths, options };
}

/** Runs a check that passes or counts as one failure. */
async function check(label, work) {
  const start = Date.now();
  const isGood = await work().catch((error) => {
    if (!(error instanceof Failure)) throw error;
    say(error.message);
    return false;
  });
  say(`${label}: ${isGood ? 'done' : 'FAILED'} in ${seconds(Date.now() - start)}`);
  return isGood ? 0 : 1;
}

/** Allows one run per checkout: tap keeps files in .tap, which a second run would remove. */
async function takeCheckout() {
  await oneAtATime(runningPath, (other) => {
    throw new Failure(`Tests run in this checkout already (process ${other}). Wait for their end, or use another clone.`);
  });
}

/** Runs eslint on everything, or on the changed files. */
async function lint(changed) {
  if (changed === undefined) return (await eslint()) === 0;
  const files = changed.filter((path) => /\.(c?ts|m?js)$/.test(path) && existsSync(join(root, path)));
  return files.length === 0 || (await eslint(['--no-warn-ignored'], files)) === 0;
}

/** Runs these files with tap. Writes the tests' stderr to a file. */
async function tap(tests, options) {
  const command = [join(root, 'scripts', 'tap-run.mjs'), ...options, ...tests.map((path) => path.replace(/^test\/(.*)\.ts$/, 'dist-test/$1.js'))];
  const code = await new Promise((done, fail) => {
    const child = spawn(process.execPath, command, { cwd: root, env: { ...cleanEnv(), REPORT_RESULT: resultPath }, stdio: ['ignore', 'inherit', 'pipe'], windowsHide: true });
    child.stderr.pipe(createWriteStream(errorsPath));
    child.on('error', (error) => fail(new Failure(`The tests cannot be started: ${error.message}`)));
    child.on('close', (status, signal) => done(signal === 'SIGINT' ? 130 : (status ?? 1)));
  });
  const counts = countTap(existsSync(resultPath) ? readFileSync(resultPath, 'utf8') : '');
  // tap decides: a wrong plan, a time-out or an empty run fails without a failed test.
  if (code !== 0 && counts.failed === 0) counts.failed = 1;
  return { code, ...counts };
}

/** Prints what was skipped and why, what failed and how to run it alone, and what was not run. */
function tellResult({ files, code }, { tests, left }) {
  const reasons = [...new Set(files.flatMap((file) => file.reasons).filter((reason) => reason !== ''))];
  if (reasons.length > 0) console.log(`Skipped: ${reasons.slice(0, 10).join('; ')}${reasons.length > 10 ? ' …' : ''}`);
  const failed = files.filter((file) => !file.ok);
  for (const { name, failures } of failed) {
    console.log(`FAILED ${name}; alone: npm test -- ${name}`);
    for (const failure of failures.slice(0, 5)) console.log(`       ${failure.slice(0, 300)}`);
  }
  if (code !== 0 && failed.length === 0 && existsSync(errorsPath)) console.log(readFileSync(errorsPath, 'utf8').split('\n').slice(-20).join('\n').trim());
  if (failed.length > 0) console.log('The stderr of the tests is in .tap/stderr.log');
  const rest = allTests().length - tests.length;
  if (left && rest > 0) console.log(`Not run: ${rest} of ${allTests().length} test files. For more: ${left}`);
}

await program(async () => {
  const start = Date.now();
  const args = process.argv.slice(2);
  await takeCheckout();
  let extra = await check('Set-up', async () => (await setUp(), true));
  let result = { code: 1, passed: 0, failed: 0 };
  if (extra === 0) {
    const chosen = await choose(args);
    // All at once. Each uses one core, eslint beside the first tests, too.
    const linting = chosen.changed?.length === 0 ? 0 : check('Lint', () => lint(chosen.changed));
    const [typed, built] = await Promise.all([
      check('Types', async () => (await compileTests(), true)),
      needsPeers(chosen.tests) ? check('llama-server and llama-quantize to compare with', async () => (await ensurePeers(['llama-server', 'llama-quantize']), true)) : 0,
    ]);
    extra += typed + built;
    if (extra === 0) {
      if (chosen.tests.length === 0) result = { code: 0, passed: 0, failed: 0 };
      else {
        say(`Tests: ${chosen.tests.length} ${chosen.tests.length === 1 ? 'file' : 'files'}`);
        result = await tap(longestFirst(chosen.tests), chosen.options);
        tellResult(result, chosen);
      }
    }
    extra += await linting;
  }
  say(`In ${seconds(Date.now() - start)}`);
  console.log(`${result.passed} passed, ${result.failed + extra} failed`);
  return extra > 0 || result.code !== 0 ? 1 : 0;
});
