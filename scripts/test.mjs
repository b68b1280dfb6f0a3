// `npm test`: set-up where it is missing, type checking, eslint, then the tap suite. Arguments go
// to tap; a test's source names it too (`npm test -- test/models/gguf/gguf.test.ts`). The last line
// is `N passed, N failed`.
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { eslint } from './lint.mjs';
import { ensurePeers } from './peers.mjs';
import { place, root } from './place.mjs';
import { Failure, run, show } from './process.mjs';
import { say } from './progress.mjs';
import { program, setUp } from './setup.mjs';
import { countTap, failureLines } from './tap-result.mjs';
import { compileTests } from './typescript.mjs';

const resultPath = join(root, '.tap', 'result.tap');

/**
 * The tests of the whole service compare it with llama-server, which takes a while to build: only
 * where they run.
 */
function comparesPeers(args) {
  const files = args.filter((argument) => !argument.startsWith('-'));
  return files.length === 0 || files.some((file) => file.includes('service'));
}

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
  const chosen = args.map((argument) => argument.replace(/^(?:\.\/)?test\/(.*)\.ts$/, 'dist-test/$1.js'));
  const bin = join(place.nodeModules, 'tap', 'dist', 'esm', 'run.mjs');
  // Tests load models and start servers; how long that takes is no part of what they test.
  const command = [bin, 'run', '--timeout=600', ...jobs(args), ...chosen];
  const showsItself = process.stdout.isTTY || args.some((argument) => /^(-R|--reporter)/.test(argument));
  const { code, text } = await (showsItself ? tapDrawn(command) : tapPlain(command));
  const counts = countTap(text);
  // tap has the last word: a plan that does not fit, a time-out or an empty run fails without a
  // failed test.
  if (code !== 0 && counts.failed === 0) counts.failed = 1;
  return { code, ...counts };
}

/**
 * tap leaves one core of a few free, and most tests wait more than they compute. Those that count
 * threads, memory or turns run alone: `serial` in package.json.
 */
function jobs(args) {
  const cores = availableParallelism();
  const chosen = args.some((argument) => /^(-j|--jobs)/.test(argument));
  return chosen || cores > 4 ? [] : [`--jobs=${cores}`];
}

/** By tap's own reporter, with the raw result in a file beside. */
async function tapDrawn(command) {
  mkdirSync(join(root, '.tap'), { recursive: true });
  rmSync(resultPath, { force: true });
  const code = await show(process.execPath, [...command, `--output-file=${resultPath}`]);
  return { code, text: existsSync(resultPath) ? readFileSync(resultPath, 'utf8') : '' };
}

/**
 * For logs: a line per file and all about each failure. tap's own reporters either draw or tell
 * everything.
 */
async function tapPlain(command) {
  const print = failureLines((line) => console.log(line));
  const lines = [];
  const onLine = (line) => {
    lines.push(line);
    print(line);
  };
  try {
    await run(process.execPath, [...command, '--reporter=tap'], { onLine });
    return { code: 0, text: lines.join('\n') };
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    return { code: 1, text: lines.join('\n') };
  }
}

await program(async () => {
  let extra = await check('Set-up', async () => (await setUp(), true));
  let result = { code: 1, passed: 0, failed: 0 };
  if (extra === 0) {
    extra += await check('Type checking and compiling the tests', async () => (await compileTests(), true));
    const lint = await check('Linting', async () => (await eslint()) === 0);
    const args = process.argv.slice(2);
    if (extra === 0 && comparesPeers(args)) extra += await check('llama-server and llama-quantize to compare with', async () => (await ensurePeers(['llama-server', 'llama-quantize']), true));
    if (extra === 0) result = await tap(args);
    extra += lint;
  }
  console.log(`${result.passed} passed, ${result.failed + extra} failed`);
  return extra > 0 || result.code !== 0 ? 1 : 0;
});
