// `npm test`: set-up where it is missing, type checking, eslint, then the tap suite. Arguments go to tap;
// a test's source names it too (`npm test -- test/models/gguf.test.ts`). The last line is `N passed, N failed`.
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { eslint } from './lint.mjs';
import { place, root } from './place.mjs';
import { Failure, show } from './process.mjs';
import { say } from './progress.mjs';
import { program, setUp } from './setup.mjs';
import { countTap } from './tap-count.mjs';
import { compileTests } from './typescript.mjs';

const resultPath = join(root, '.tap', 'result.tap');

/** Runs a check that either passes or counts as one failure. */
async function check(label, work) {
  say(label);
  try {
    return (await work()) ? 0 : 1;
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    say(error.message);
    return 1;
  }
}

async function tap(args) {
  mkdirSync(join(root, '.tap'), { recursive: true });
  rmSync(resultPath, { force: true });
  const chosen = args.map((argument) => argument.replace(/^(?:\.\/)?test\/(.*)\.ts$/, 'dist-test/$1.js'));
  const reporter = process.stdout.isTTY || args.some((argument) => /^(-R|--reporter)/.test(argument)) ? [] : ['--reporter=terse'];
  const bin = join(place.nodeModules, 'tap', 'dist', 'esm', 'run.mjs');
  const code = await show(process.execPath, [bin, 'run', `--output-file=${resultPath}`, ...reporter, ...chosen]);
  let counts;
  try {
    counts = countTap(readFileSync(resultPath, 'utf8'));
  } catch {
    counts = { passed: 0, failed: 0 };
  }
  // tap has the last word: a plan that does not fit, a time-out or an empty run fails without a failed test.
  if (code !== 0 && counts.failed === 0) counts.failed = 1;
  return { code, ...counts };
}

await program(async () => {
  let extra = await check('Set-up', async () => (await setUp(), true));
  let result = { code: 1, passed: 0, failed: 0 };
  if (extra === 0) {
    extra += await check('Type checking and compiling the tests', async () => (await compileTests(), true));
    const lint = await check('Linting', async () => (await eslint()) === 0);
    if (extra === 0) result = await tap(process.argv.slice(2));
    extra += lint;
  }
  console.log(`${result.passed} passed, ${result.failed + extra} failed`);
  return extra > 0 || result.code !== 0 ? 1 : 0;
});
