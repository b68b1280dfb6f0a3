import t from 'tap';
import { scripts } from './checkout.js';

const { countTap, failureLines } = await import(`${scripts}tap-result.mjs`);

t.test('countTap() counts the tests of a run, not their assertions', (t) => {
  t.strictSame(countTap([
    'TAP version 14', '1..2',
    '# Subtest: dist-test/a.test.js',
    '    # Subtest: adds', '        ok 1 - is 2', '        ok 2 - is 4', '        1..2', '    ok 1 - adds # time=1ms',
    '    not ok 2 - subtracts', '    ok 3 - multiplies # SKIP not yet', '    1..3',
    'not ok 1 - dist-test/a.test.js # time=2ms',
    '# Subtest: dist-test/b.test.js', '    ok 1 - divides', '    1..1', 'ok 2 - dist-test/b.test.js',
  ].join('\n')), { passed: 2, failed: 1 });
  t.end();
});

t.test('countTap() counts a file that breaks before its first test as one failure', (t) => {
  t.strictSame(countTap('not ok 1 - dist-test/a.test.js\n'), { passed: 0, failed: 1 });
  t.strictSame(countTap('# Subtest: a\n    ok 1 - works\nnot ok 1 - a\n'), { passed: 1, failed: 1 });
  t.strictSame(countTap(''), { passed: 0, failed: 0 });
  t.end();
});

t.test('failureLines() passes on files and failures, not what passed', (t) => {
  const kept: string[] = [];
  const print = failureLines((line: string) => kept.push(line));
  const failure = ['    not ok 2 - subtracts', '      ---', '      message: it adds', '      ...'];
  for (const line of ['# Subtest: a', '    ok 1 - adds', '      ---', '      note: slow', '      ...', ...failure, 'not ok 1 - a', 'ok 2 - b', '# time=1ms']) print(line);
  t.strictSame(kept, [...failure, 'not ok 1 - a', 'ok 2 - b']);
  t.end();
});
