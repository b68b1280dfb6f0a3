// Runs compiled test files with tap's library, each in a process of its own. tap's own runner
// instruments each process for coverage, which doubles the start of a test file; we take none.
//
//   node scripts/tap-run.mjs [--jobs=N] [--bail] [--reporter=tap] FILE...
//
// REPORT_RESULT names a file for the raw result. `--reporter=tap` prints that instead of a report.
import { spawn } from 'node:child_process';
import { createWriteStream, existsSync, mkdirSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { parseArgs } from 'node:util';
import t, { Base } from 'tap';
import Reporter from './tap-reporter.mjs';

/** Tests load models and start servers; how long that takes is not part of the test. */
const timeoutSeconds = 1_200;
const running = new Set();

/** A test file in its own process. */
class TestFile extends Base {
  #child;
  #expired;
  #isTest = false;

  main(done) {
    this.setTimeout(this.options.timeout);
    const env = { ...process.env, TAP: '1', TAP_BAIL: this.bail ? '1' : '0', TAP_TIMEOUT: String(timeoutSeconds), TAP_JOB_ID: String(this.options.jobId ?? 0) };
    const child = spawn(process.execPath, ['--enable-source-maps', this.options.path], { env, stdio: ['ignore', 'pipe', 'inherit'], windowsHide: true });
    this.#child = child;
    running.add(child);
    child.stdout.once('data', () => { this.#isTest = true; });
    child.stdout.pipe(this.parser, { end: false });
    child.on('error', (error) => this.threw(error));
    child.on('close', (code, signal) => {
      running.delete(child);
      Object.assign(this.options, { exitCode: code, signal }, this.#expired);
      if (code || signal || this.#expired || !this.#isTest) this.parser.ok = false;
      this.parser.end();
      done();
    });
  }

  /** tap's part in the process tells on SIGALRM what it still waits for. */
  timeout() {
    this.#expired = { expired: `${timeoutSeconds} s` };
    this.#child?.kill('SIGALRM');
    setTimeout(() => this.#child?.kill('SIGKILL'), 1000).unref();
  }

  endAll() {
    this.#child?.kill('SIGKILL');
  }
}

/** `serial` in package.json: folders and files whose tests run alone. */
function serialPaths() {
  const own = existsSync('package.json') ? JSON.parse(readFileSync('package.json', 'utf8')) : {};
  return (own.tap?.serial ?? []).map((path) => resolve(path) + sep);
}

function options() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { jobs: { type: 'string', short: 'j' }, bail: { type: 'boolean', short: 'b' }, reporter: { type: 'string', short: 'R' } },
  });
  // Most tests wait more than they compute; on a larger machine, a core is left to its user.
  const cores = availableParallelism();
  const jobs = Number(values.jobs ?? (cores > 4 ? cores - 1 : cores + 1));
  if (!Number.isInteger(jobs) || jobs < 1) throw new Error(`--jobs takes a whole number from 1, not ${values.jobs}.`);
  if (values.reporter !== undefined && values.reporter !== 'tap') throw new Error(`--reporter takes "tap" only, not ${JSON.stringify(values.reporter)}.`);
  return { jobs, bail: values.bail === true, isRaw: values.reporter === 'tap', files: positionals };
}

function run({ jobs, bail, isRaw, files }) {
  const serial = serialPaths();
  const isSerial = (path) => serial.some((folder) => (resolve(path) + sep).startsWith(folder));
  t.register();
  t.setTimeout(0);
  t.bail = bail;
  const result = process.env.REPORT_RESULT ?? join('.tap', 'result.tap');
  mkdirSync(dirname(result), { recursive: true });
  t.pipe(createWriteStream(result));
  if (isRaw) t.pipe(process.stdout);
  else t.pipe(new Reporter()).pipe(process.stdout);
  t.jobs = Math.min(jobs, files.length);
  t.plan(files.length);
  // Each test that runs alone waits for all others, so these come last.
  for (const path of [...files.filter((one) => !isSerial(one)), ...files.filter(isSerial)]) {
    const name = relative('.', path).replaceAll('\\', '/');
    t.sub(TestFile, { path, name, bail, timeout: 1000 * (timeoutSeconds + 5), buffered: t.jobs > 1 && !isSerial(path), at: null, stack: '' });
  }
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.once(signal, () => {
    for (const child of running) child.kill(signal);
    process.kill(process.pid, signal);
  });
}

try {
  run(options());
} catch (error) {
  console.error(error.message);
  process.exitCode = 2;
}
