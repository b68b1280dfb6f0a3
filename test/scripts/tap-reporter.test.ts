// What a run of `npm test` prints to a log, with a real run of four files.
import t from 'tap';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../cli/recua.js';

t.test('there is a line per file and part, a failure with its diagnosis, and the files still running', (t) => {
  const folder = t.testdir({
    'package.json': JSON.stringify({ type: 'module' }),
    'dist-test': {
      'imports.test.js': 'import t from \'tap\'; t.test(\'holds\', async () => { await new Promise((r) => setTimeout(r, 900)); });',
      cli: {
        'bad.test.js': 'import t from \'tap\'; t.test(\'adds\', async (t) => { t.equal(1 + 1, 3, \'a sum\'); }); t.test(\'later\', { skip: \'no window\' }, () => {});',
        'dead.test.js': 'process.exit(7);',
        'empty.test.js': 'process.exit(0);',
      },
    },
  });
  const files = ['imports', 'cli/bad', 'cli/dead', 'cli/empty'].map((name) => `dist-test/${name}.test.js`);
  // Without the settings of the run that contains this test.
  const own = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^_?TAP/.test(name)));
  const { stdout, status } = spawnSync(process.execPath, [join(root, 'scripts/tap-run.mjs'), '--jobs=2', ...files], { cwd: folder, encoding: 'utf8', env: { ...own, REPORT_EVERY_MS: '100', REPORT_RESULT: join(folder, 'result.tap') } });
  t.equal(status, 1);
  t.match(stdout, /^still running: .*test\/imports\.test\.ts \d s/m);
  t.match(stdout, /not ok 1 - a sum[^]*diff:[^]*^FAILED test\/cli\/bad\.test\.ts /m);
  t.match(stdout, /exitCode: 7/);
  t.match(stdout, /^ok {5}test\/imports\.test\.ts /m);
  t.match(stdout, /^cli +3 files +0 passed +3 failed +1 skipped/m);
  t.match(stdout, /^repository +1 file +1 passed +0 failed +0 skipped/m);
  t.match(readFileSync(join(folder, 'result.tap'), 'utf8'), /^TAP version 14[^]*^not ok \d - dist-test\/cli\/bad/m);
  t.end();
});
