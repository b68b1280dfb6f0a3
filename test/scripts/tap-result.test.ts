import t from 'tap';
import { scripts } from './checkout.js';

const { countTap, failureLines, partLine, partOf } = await import(`${scripts}tap-result.mjs`);

t.test('countTap() counts the tests of a run by file, not their assertions', (t) => {
  t.match(countTap([
    'TAP version 14', '1..4',
    '# Subtest: dist-test/cli/a.test.js',
    '    # Subtest: adds', '        ok 1 - is 2', '        ok 2 - is 4', '        1..2', '    ok 1 - adds # time=1ms',
    '        not ok 1 - is 3', '        not ok 2 - is 5', '        1..2', '    not ok 2 - subtracts # time=2ms', '    ok 3 - multiplies # SKIP not yet', '    ok 4 - roots # TODO later', '    1..4',
    'not ok 1 - dist-test/cli/a.test.js # time=2500.5ms',
    '# Subtest: dist-test/b.test.js', '    ok 1 - divides', '    1..1', 'ok 2 - dist-test/b.test.js # time=1.5s',
    'ok 3 - dist-test/page/c.test.js # SKIP no browser',
    '    ok 1 - begins',
  ].join('\n')), {
    passed: 3, failed: 1, skipped: 3,
    files: [
      { name: 'test/cli/a.test.ts', ok: false, passed: 1, failed: 1, skipped: 2, seconds: 2.5005, reasons: ['not yet'], failures: ['subtracts: is 3'] },
      { name: 'test/b.test.ts', ok: true, passed: 1, failed: 0, skipped: 0, seconds: 1.5 },
      { name: 'test/page/c.test.ts', ok: true, passed: 0, failed: 0, skipped: 1, reasons: ['no browser'] },
    ],
  });
  t.end();
});

t.test('countTap() counts a file that breaks before its first test as one failure', (t) => {
  t.match(countTap('not ok 1 - dist-test/a.test.js\n'), { passed: 0, failed: 1 });
  t.match(countTap('# Subtest: a\n    ok 1 - works\nnot ok 1 - a\n'), { passed: 1, failed: 1 });
  t.match(countTap(''), { passed: 0, failed: 0, skipped: 0, files: [] });
  t.end();
});

t.test('a part is the first folder of its files', (t) => {
  t.strictSame(['dist-test/cli/chat/a.test.js', 'test/cli/b.test.ts', 'dist-test/imports.test.js'].map(partOf), ['cli', 'cli', 'repository']);
  const line = partLine('cli', [{ passed: 3, failed: 1, skipped: 0, seconds: 1.25 }, { passed: 2, failed: 0, skipped: 4, seconds: 60 }]);
  t.equal(line.replace(/ +/g, ' '), 'cli 2 files 5 passed 1 failed 4 skipped 61.3 s');
  t.end();
});

t.test('failureLines() prints failures with what is wrong, and no passes', (t) => {
  const kept: string[] = [];
  const print = failureLines((line: string) => kept.push(line));
  const failure = ['    not ok 2 - subtracts', '      ---', '      message: it adds', '      ...'];
  for (const line of ['# Subtest: a', '    ok 1 - adds', '      ---', '      note: slow', '      ...', ...failure, 'not ok 1 - a', '  ---', '  exitCode: 1', '  ...', 'ok 2 - b', 'not ok 3 - c', '  ---', '  signal: SIGSEGV', '  ...', '# time=1ms']) print(line);
  t.strictSame(kept, [...failure, 'not ok 3 - c', '  ---', '  signal: SIGSEGV', '  ...']);
  t.end();
});
