// Engines that cannot see each other's processes share no file.
import { execFileSync, spawnSync } from 'node:child_process';
import { statSync, utimesSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import t from 'tap';
import { touch, turnFile } from '#recua/system/turn-file.js';

const linux = process.platform === 'linux' ? false : 'only on Linux do engines take turns';
const alone = ['unshare', '--pid', '--fork', '--mount-proc'] as const;
const cannot = linux || (spawnSync(alone[0], [...alone.slice(1), 'true']).status === 0 ? false : 'this user may not make a PID namespace');

/** What another process with the same folder for temporary files would use. */
function fileOf(program: readonly string[], folder: string): string {
  const source = `import { turnFile } from ${JSON.stringify(import.meta.resolve('#recua/system/turn-file.js'))}; process.stdout.write(turnFile());`;
  const [command, ...first] = [...program, process.execPath, '--input-type=module', '-e', source];
  return execFileSync(command!, first, { env: { PATH: process.env['PATH'], TMPDIR: folder }, encoding: 'utf8' });
}

t.test('processes of one PID namespace use the same file', { skip: linux }, async (t) => {
  const folder = t.testdir();
  const file = fileOf([], folder);
  t.match(basename(file), /^cores-\d+$/);
  t.equal(fileOf([], folder), file);
  t.equal(basename(turnFile()), basename(file));
});

t.test('processes of another PID namespace use another file', { skip: cannot }, async (t) => {
  const folder = t.testdir();
  const [here, there] = [fileOf([], folder), fileOf(alone, folder)];
  t.equal(dirname(there), dirname(here));
  t.not(there, here);
});

t.test('a file in use does not look old to cleaners of temporary files', async (t) => {
  const folder = t.testdir({ 'cores-7-2': '', 'cores-77-2': '' });
  for (const name of ['cores-7-2', 'cores-77-2']) utimesSync(join(folder, name), 1, 1);
  await touch(join(folder, 'cores-7'));
  const { atimeMs, mtimeMs } = statSync(join(folder, 'cores-7-2'));
  t.ok(Math.min(atimeMs, mtimeMs) > 1_000);
  t.equal(statSync(join(folder, 'cores-77-2')).mtimeMs, 1_000, 'that of others is theirs');
});
