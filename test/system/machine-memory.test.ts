import t from 'tap';
import { spawnSync } from 'node:child_process';
import { machineMemory } from '#recua/system/machine-memory.js';

const hidden = ['unshare', '--mount', 'sh', '-c', 'mount -t tmpfs none /proc && exec "$@"', 'sh'] as const;
const cannot = process.platform !== 'linux' ? 'only on Linux'
  : spawnSync(hidden[0], [...hidden.slice(1), 'true']).status === 0 ? false : 'this user may not make a mount namespace';

t.test('the memory that is available is part of that of the machine', (t) => {
  const { totalBytes, availableBytes } = machineMemory();
  t.ok(availableBytes > 0 && availableBytes <= totalBytes);
  t.end();
});

t.test('without /proc, memory counts as free, not as full', { skip: cannot }, (t) => {
  const source = `import { machineMemory } from ${JSON.stringify(import.meta.resolve('#recua/system/machine-memory.js'))}; process.stdout.write(JSON.stringify(machineMemory()));`;
  const { stdout, stderr } = spawnSync(hidden[0], [...hidden.slice(1), process.execPath, '--input-type=module', '-e', source], { encoding: 'utf8' });
  t.ok(JSON.parse(stdout || '{}').availableBytes > 0, stdout + stderr);
  t.end();
});
