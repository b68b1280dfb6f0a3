// The hook of .githooks with a real git, and an npm that records its calls.
import t from 'tap';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { root } from '../cli/recua.js';

t.test('a commit lints the staged files, and is refused if lint fails', { skip: process.platform === 'win32' && 'needs sh' }, (t) => {
  const folder = t.testdir();
  const bin = join(folder, 'bin');
  const called = join(folder, 'called');
  mkdirSync(bin);
  writeFileSync(join(bin, 'npm'), `#!/bin/sh\nprintf '%s\\n' "$@" > '${called}'\nexit "\${LINT:-0}"\n`, { mode: 0o755 });
  const git = (args: string[], env: Record<string, string> = {}) => spawnSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@t', '-c', 'commit.gpgsign=false', ...args], { cwd: folder, encoding: 'utf8', env: { ...process.env, PATH: `${bin}${delimiter}${process.env.PATH}`, ...env } });
  git(['init', '-q']);
  git(['config', 'core.hooksPath', join(root, '.githooks')]);
  writeFileSync(join(folder, 'a.md'), 'text\n');
  git(['add', 'a.md']);
  t.equal(git(['commit', '-qm', 'words']).status, 0);
  t.notOk(existsSync(called), 'nothing to lint');
  for (const name of ['b c.ts', 'd.mjs', 'e.ts']) writeFileSync(join(folder, name), 'export {};\n');
  git(['add', 'b c.ts', 'd.mjs']);
  t.not(git(['commit', '-qm', 'code'], { LINT: '123' }).status, 0);
  t.strictSame(readFileSync(called, 'utf8').trim().split('\n'), ['run', '--silent', 'lint', '--', 'b c.ts', 'd.mjs']);
  t.equal(git(['commit', '-qm', 'code']).status, 0);
  t.end();
});
