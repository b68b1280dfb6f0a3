// The ARM kernel of native/attention on another machine: kernel-check.cpp, cross-compiled and run
// in an emulator, if both are installed.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { root } from '../fake-backend.js';

const installed = (program: string): boolean => {
  try {
    execFileSync(program, ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
};
const compiler = 'aarch64-linux-gnu-g++';
const emulator = 'qemu-aarch64';
const skip = installed(compiler) && installed(emulator) ? false : `needs ${compiler} and ${emulator}`;

t.test('the kernel for ARM is as exact as sums in plain floats', { skip }, (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'recua-neon-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const program = join(folder, 'check');
  execFileSync(compiler, [
    '-static', '-std=c++17', '-O2', `-I${join(root, 'native')}`, '-DKERNEL=neon_kernel',
    join(root, 'test', 'native', 'attention', 'kernel-check.cpp'), join(root, 'native', 'attention', 'kernel_neon.cpp'), '-o', program,
  ], { stdio: ['ignore', 'inherit', 'inherit'] });
  const lines = execFileSync(emulator, [program], { encoding: 'utf8' }).trim().split('\n');
  t.equal(lines.length, 10);
  for (const line of lines) {
    const { most, plain } = JSON.parse(line) as { most: number; plain: number };
    t.ok(most <= 2 * plain, line);
  }
  t.end();
});
