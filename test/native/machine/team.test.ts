// Where the threads of a step run. A preloaded library makes the machine appear to have four cores,
// to the addon only, and records how many cores each thread was bound to.
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { builtin } from '../setup.js';

const skip = process.platform !== 'linux' ? 'threads are bound on Linux only'
  : spawnSync('cc', ['--version']).status === 0 ? false : 'there is no C compiler';

const fourCores = `
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>
int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set) {
  (void)pid; (void)size;
  CPU_ZERO(set);
  for (int core = 0; core < 4; core++) CPU_SET(core, set);
  return 0;
}
int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set) {
  (void)pid; (void)size;
  FILE *out = fopen(getenv("BOUND"), "a");
  fprintf(out, "%d %d\\n", (int)gettid(), CPU_COUNT(set));
  fclose(out);
  return 0;
}
`;

const steps = (url: string): string => `
import { readdirSync } from 'node:fs';
const { addon, contextOptions, step } = await import(${JSON.stringify(url)});
const model = await addon.loadModel({ path: ${JSON.stringify(builtin)}, gpuLayers: 0, mmap: true, mlock: false }).promise;
const context = await model.createContext(contextOptions({ sequences: 1, threads: 4, threadsBatch: 4 }));
const sampler = await model.createSampler({ temperature: 0 }, new Int32Array());
await step(context, [{ sequence: 0, from: 0, tokens: Array.from({ length: 100 }, (_, i) => i + 5), sampler }]);
// A step this small leaves a core free: three threads, none of them bound.
for (let at = 100; at < 104; at++) await step(context, [{ sequence: 0, from: at, tokens: [9], sampler }]);
console.log(JSON.stringify(readdirSync('/proc/self/task').map(Number)));
process.exit();
`;

t.test('threads that a smaller team keeps are bound no more than their caller', { skip }, async (t) => {
  const folder = t.testdir({ 'cores.c': fourCores, 'steps.mjs': steps(new URL('../setup.js', import.meta.url).href), bound: '' });
  // LD_PRELOAD is separated by blanks, and the path of a checkout may contain one.
  const temporary = mkdtempSync(join(tmpdir(), 'recua-'));
  t.teardown(() => rmSync(temporary, { recursive: true }));
  const library = join(temporary, 'cores.so');
  execFileSync('cc', ['-shared', '-fPIC', '-O1', '-o', library, join(folder, 'cores.c')]);
  const bound = join(folder, 'bound');
  writeFileSync(bound, '');
  const { stdout, stderr } = spawnSync(process.execPath, [join(folder, 'steps.mjs')], {
    // Behind a sanitizer's library, which comes first.
    env: { ...process.env, LD_PRELOAD: [process.env['LD_PRELOAD'], library].filter(Boolean).join(' '), BOUND: bound }, encoding: 'utf8', cwd: fileURLToPath(new URL('../../..', import.meta.url)),
  });
  const alive = new Set(JSON.parse(stdout.trim().split('\n').at(-1) ?? stderr) as number[]);
  const changes = readFileSync(bound, 'utf8').trim().split('\n').map((line) => line.split(' ').map(Number) as [number, number]);
  t.equal(changes.filter(([, cores]) => cores === 1).length, 4, 'each of a team as large as the machine is bound');
  const last = new Map(changes);
  const placed = [...last].filter(([thread]) => alive.has(thread));
  t.ok(placed.length >= 2, 'some of them go on');
  t.same(placed.filter(([, cores]) => cores !== 4), []);
});
