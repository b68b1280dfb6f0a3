// Two set-ups in one folder would spoil each other's build.
import t from 'tap';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { root } from '../cli/recua.js';

const script = `
  const { oneAtATime } = await import(${JSON.stringify(join(root, 'scripts', 'one-at-a-time.mjs'))});
  const release = await oneAtATime(process.argv[1]);
  process.stdout.write('has it');
  await new Promise((resolve) => process.stdin.once('data', resolve));
  release();
  process.exit();
`;

function start(t: Test, path: string): { child: ChildProcess; told: (words: RegExp) => Promise<void>; all: () => string } {
  const child = spawn(process.execPath, ['--input-type=module', '-e', script, path]);
  t.teardown(() => child.kill('SIGKILL'));
  let text = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (more: Buffer) => { text += more.toString(); });
  const told = async (words: RegExp): Promise<void> => {
    while (!words.test(text)) {
      if (child.exitCode !== null) throw new Error(`it ended: ${text}`);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  };
  return { child, told, all: () => text };
}

t.test('a second set-up says that it waits, until the first has ended or was killed', async (t) => {
  const path = join(t.testdir(), 'build', 'set-up.lock');
  const first = start(t, path);
  await first.told(/has it/);
  const second = start(t, path);
  await second.told(new RegExp(`Another set-up runs in this folder \\(pid ${first.child.pid}\\); waiting for it`));
  t.notMatch(second.all(), /has it/);
  first.child.stdin!.write('\n');
  await second.told(/has it/);
  const third = start(t, path);
  await third.told(/waiting/);
  second.child.kill('SIGKILL');
  await third.told(/has it/);
  third.child.stdin!.write('\n');
  await once(third.child, 'exit');
  t.notOk(existsSync(path));
});

t.test('a lock that is left over is nobody\'s, even if its process id is in use', async (t) => {
  const path = join(t.testdir(), 'set-up.lock');
  writeFileSync(path, `${process.pid}\n`);
  const before = new Date(Date.now() - 120_000);
  utimesSync(path, before, before);
  const one = start(t, path);
  await one.told(/has it/);
});
