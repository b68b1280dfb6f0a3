import t from 'tap';
import { spawnSync } from 'node:child_process';
import { freemem } from 'node:os';
import { existsSync, mkdirSync, readFileSync, rmdirSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { groupMemory } from '#recua/system/group-memory.js';
import { machineMemory } from '#recua/system/machine-memory.js';

const mib = 2 ** 20;
const source = `import { machineMemory } from ${JSON.stringify(import.meta.resolve('#recua/system/machine-memory.js'))}; process.stdout.write(JSON.stringify(machineMemory()));`;
const inNamespace = (mounts: string): string[] => ['unshare', '--mount', 'sh', '-c', `${mounts} && exec "$@"`, 'sh'];
const run = ([program, ...words]: string[], ...more: string[]) =>
  spawnSync(program!, [...words, ...more, process.execPath, '--input-type=module', '-e', source], { encoding: 'utf8' });
const tooBusy = freemem() < 1_024 * mib && 'this machine has less memory free than the groups here';
const hidden = inNamespace('mount -t tmpfs none /proc');
const cannot = process.platform !== 'linux' ? 'only on Linux'
  : spawnSync(hidden[0]!, [...hidden.slice(1), 'true']).status === 0 ? false : 'this user may not make a mount namespace';

t.test('the memory that is available is part of that of the machine', (t) => {
  const { totalBytes, availableBytes } = machineMemory();
  t.ok(availableBytes > 0 && availableBytes <= totalBytes);
  t.end();
});

t.test('without /proc, memory counts as free, not as full', { skip: cannot }, (t) => {
  const { stdout, stderr } = run(hidden);
  t.ok(JSON.parse(stdout || '{}').availableBytes > 0, stdout + stderr);
  t.end();
});

/** Files of a group of version 2. */
const group = (max: string, current: number, files = 0) => ({
  'memory.max': `${max}\n`, 'memory.current': `${current}\n`, 'memory.stat': `anon 5\ninactive_file ${files}\nactive_file 1\nslab 7\n`,
});

t.test('the memory left in a container is the least of its groups, not counting cached files', (t) => {
  const high = { ...group('900', 100, 9), 'memory.high': '300\n' };
  const top = t.testdir({ wide: { ...group('1000', 700, 99), own: group('max', 650), narrow: group('500', 450, 19), high } });
  const memory = (path: string) => groupMemory(top, `1:name=systemd:/\n0::${path}\n`);
  t.same(memory('/wide'), { limitBytes: 1000, leftBytes: 400 });
  t.same(memory('/wide/own'), { limitBytes: 1000, leftBytes: 400 }, 'the limit around it holds');
  t.same(memory('/wide/narrow'), { limitBytes: 500, leftBytes: 70 });
  t.same(memory('/wide/high'), { limitBytes: 300, leftBytes: 210 }, 'beyond this, the system slows the group down');
  t.same(memory('/../wide'), { limitBytes: 1000, leftBytes: 400 });
  t.same(memory('/none'), { limitBytes: Infinity, leftBytes: Infinity });
  t.same(groupMemory(top, ''), { limitBytes: Infinity, leftBytes: Infinity });
  t.end();
});

t.test('so is it with control groups of version 1', (t) => {
  const old = (limit: number | string, usage: number, files = 0) => ({
    'memory.limit_in_bytes': `${limit}\n`, 'memory.usage_in_bytes': `${usage}\n`,
    'memory.stat': `cache 3\ninactive_file 11\nactive_file 13\ntotal_cache 5\ntotal_inactive_file ${files}\ntotal_active_file 1\n`,
  });
  const unlimited = '9223372036854771712';
  const wide = { ...old(1000, 700, 99), own: old(unlimited, 650), narrow: old(500, 600, 19) };
  const top = t.testdir({ memory: { ...old(unlimited, 5000), wide } });
  const memory = (path: string, names = 'memory') => groupMemory(top, `5:pids:/other\n4:${names}:${path}\n0::/\n`);
  t.same(memory('/wide/own'), { limitBytes: 1000, leftBytes: 400 }, 'the limit around it holds');
  t.same(memory('/wide/narrow', 'cpuset,memory,pids'), { limitBytes: 500, leftBytes: 0 }, 'never below none');
  t.ok(memory('/').leftBytes > 2 ** 60);
  const container = t.testdir({ memory: old(800, 500, 49) });
  t.same(groupMemory(container, '4:memory:/docker/a1\n'), { limitBytes: 800, leftBytes: 350 }, 'its own path is invisible in a container');
  t.end();
});

t.test('the memory of a container is its limit, and files that it has read leave it free', { skip: cannot || tooBusy }, (t) => {
  const top = t.testdir(group(String(300 * mib), 290 * mib, 200 * mib));
  const { stdout, stderr } = run(inNamespace(`mount --bind '${top}' /sys/fs/cgroup`));
  const { totalBytes, availableBytes } = JSON.parse(stdout || '{}');
  t.equal(totalBytes, 300 * mib, stdout + stderr);
  t.equal(availableBytes, 210 * mib + 1);
  t.end();
});

t.test('the same in a group that the system keeps', { skip: tooBusy }, (t) => {
  const made = makeGroup();
  if (!made) return t.plan(0, 'this user may not limit a group here');
  const { folder, limit } = made;
  t.teardown(() => rmdirSync(folder));
  writeFileSync(join(folder, limit), String(512 * mib));
  const file = join(t.testdir({ read: '' }), 'read');
  truncateSync(file, 256 * mib);
  const { stdout, stderr } = run(['sh', '-c', 'echo $$ > "$0"; cat "$1" > /dev/null; shift; exec "$@"', join(folder, 'cgroup.procs'), file]);
  const { totalBytes, availableBytes } = JSON.parse(stdout || '{}');
  t.equal(totalBytes, 512 * mib, stdout + stderr);
  t.ok(availableBytes > 256 * mib && availableBytes < 512 * mib, `${availableBytes}`);
  t.end();
});

/** A group in that of this process, if it may be limited. */
function makeGroup(): { folder: string; limit: string } | undefined {
  try {
    const own = readFileSync('/proc/self/cgroup', 'utf8');
    for (const [line, top, limit] of [[/^\d+:memory:(.*)$/m, '/sys/fs/cgroup/memory', 'memory.limit_in_bytes'], [/^0::(.*)$/m, '/sys/fs/cgroup', 'memory.max']] as const) {
      const group = line.exec(own)?.[1];
      if (group === undefined || !existsSync(join(top, group, 'cgroup.procs'))) continue;
      const folder = join(top, group, `recua-test-${process.pid}`);
      mkdirSync(folder);
      if (existsSync(join(folder, limit))) return { folder, limit };
      rmdirSync(folder);
    }
  } catch {
    // Not allowed, or no such system.
  }
  return undefined;
}
