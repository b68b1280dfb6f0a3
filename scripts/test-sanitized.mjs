// `npm run test:sanitized -- address|thread [PATTERN...]`: runs the tests of the native code and of
// the engine with an addon built with clang's AddressSanitizer (and UndefinedBehaviorSanitizer) or
// gcc's ThreadSanitizer. Any sanitizer report is a failure, whatever the test says. Takes about an
// hour without a pattern; each file prints a line.
import { mkdirSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { basename, join } from 'node:path';
import { isProgram, root } from './place.mjs';
import { Failure } from './process.mjs';
import { say, seconds } from './progress.mjs';
import { buildSanitized, folderOf, sanitizedEnv } from './sanitized-build.mjs';
import { program, setUp } from './setup.mjs';
import { allTests, testsOf } from './test-choice.mjs';
import { compileTests } from './typescript.mjs';

/**
 * Tests that compile C++ themselves; and one that goes through all of llama.cpp's templates, which
 * takes half an hour: name it to run it.
 */
const leftOut = [
  'test/native/llama/regex.test.ts', 'test/native/model/tokens.test.ts', 'test/native/attention/neon.test.ts',
  'test/native/chat/recorded-outputs.test.ts', 'test/native/chat/templates.test.ts', 'test/native/machine/backends.test.ts',
];

if (isProgram(import.meta.url)) {
  await program(async () => {
    const [kind, ...patterns] = process.argv.slice(2);
    if (kind !== 'address' && kind !== 'thread') throw new Failure(`Expected address or thread, got ${kind ?? 'nothing'}: npm run test:sanitized -- address [PATTERN...]`);
    await setUp();
    await compileTests();
    await buildSanitized(kind, 'recua', join('Release', 'recua.node'));
    const chosen = patterns.length > 0 ? testsOf(patterns) : allTests().filter((path) => /^test\/(native|engine)\//.test(path) && !leftOut.includes(path));
    const reports = join(folderOf(kind), 'reports');
    rmSync(reports, { recursive: true, force: true });
    mkdirSync(reports, { recursive: true });
    const failed = [];
    for (const path of chosen) {
      const found = runFile(path, kind, reports);
      if (found) failed.push(found);
    }
    say(`${chosen.length} files, ${failed.length} failed${failed.length === 0 ? '.' : `:\n  ${failed.join('\n  ')}`}`);
    if (failed.length > 0) process.exitCode = 1;
  });
}

/** Undefined if everything passed. */
function runFile(path, kind, reports) {
  const name = basename(path, '.test.ts');
  const startMs = Date.now();
  const { stdout, status, signal } = spawnSync(process.execPath, [join(root, path.replace(/^test\//, 'dist-test/').replace(/ts$/, 'js'))], {
    cwd: root, encoding: 'utf8', maxBuffer: 2 ** 28, timeout: 1_800_000, stdio: ['ignore', 'pipe', 'ignore'],
    env: { ...sanitizedEnv(kind, join(reports, name)), RECUA_ADDON: join(folderOf(kind), 'Release', 'recua.node'), TAP_TIMEOUT: '1700' },
  });
  const count = (pattern) => stdout.match(pattern)?.length ?? 0;
  const told = readdirSync(reports).filter((file) => file.startsWith(`${name}.`) && isError(readFileSync(join(reports, file), 'utf8')));
  say(`${path}  ${count(/^ok /gm)} passed, ${count(/^not ok /gm)} failed, ${told.length} reports  ${seconds(Date.now() - startMs)}`);
  for (const line of stdout.split('\n').filter((line) => /^\s*not ok/.test(line))) say(`    ${line.trim()}`);
  for (const file of told.slice(0, 3)) say(readFileSync(join(reports, file), 'utf8').split('\n').slice(0, 30).map((line) => `    ${line}`).join('\n'));
  if (status === 0 && told.length === 0) return undefined;
  return `${path}: ${told.length > 0 ? `reports in ${reports}` : signal ? `ended by ${signal}` : 'tests fail, as above'}`;
}

/** A test may ask for more memory than there is, and the sanitizer notes that. */
function isError(report) {
  return report.replace(/^==\d+==WARNING: \w+Sanitizer failed to allocate 0x[0-9a-f]+ bytes$/gm, '').trim() !== '';
}
