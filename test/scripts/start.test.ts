import t from 'tap';
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { scripts } from './checkout.js';

t.test('npm start: a flag that npm takes for itself is told, and nothing is served', (t) => {
  const cwd = fileURLToPath(new URL('..', scripts));
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('npm_')));
  const { status, stdout, stderr } = spawnSync('npm', ['start', '--port', '0'], { cwd, env, encoding: 'utf8', shell: process.platform === 'win32', timeout: 60_000 });
  t.equal(status, 2);
  t.match(stdout + stderr, /^npm took --port for itself\. .*: npm start -- --port …$/m);
  t.end();
});
