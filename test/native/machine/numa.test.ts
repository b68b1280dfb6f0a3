// Several memory nodes. The strategy applies to a whole process, so each case runs in its own. The
// machine with two nodes is this one in a mount namespace with another folder of nodes.
import t from 'tap';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gpuLayers } from '../../device.js';

const setup = JSON.stringify(new URL('../setup.js', import.meta.url).href);
const main = fileURLToPath(new URL('../../../dist/cli/main.js', import.meta.url));

const body = (strategy: string): string => `
  import { readdirSync, readFileSync } from 'node:fs';
  const { addon, loadBuiltin, contextOptions, step } = await import(${setup});
  const several = ${strategy ? `addon.setNuma(${JSON.stringify(strategy)})` : 'undefined'};
  let refused;
  ${strategy && `try { addon.setNuma(${JSON.stringify(strategy === 'isolate' ? 'distribute' : 'isolate')}); } catch ({ code, message }) { refused = { code, message }; }`}
  const model = await loadBuiltin();
  const context = await model.createContext(contextOptions({ threads: 2, threadsBatch: 2 }));
  const sampler = await model.createSampler({ temperature: 0 }, new Int32Array());
  const tokens = await model.tokenize('word '.repeat(80), true, true);
  const { tokens: sampled } = await step(context, [{ sequence: 0, from: 0, tokens, sampler }]);
  const allowed = readdirSync('/proc/self/task').map((id) => /^Cpus_allowed_list:\\s*(.*)$/m.exec(readFileSync('/proc/self/task/' + id + '/status', 'utf8'))[1]);
  console.log(JSON.stringify({ several, again: ${strategy ? `addon.setNuma(${JSON.stringify(strategy)})` : 'undefined'}, refused, sampled: [...sampled], allowed }));`;

interface Told {
  several?: boolean;
  again?: boolean;
  refused?: { code: string; message: string };
  sampled: number[];
  allowed: string[];
}

function run(strategy: string, before: readonly string[] = []): Told {
  const [command, ...args] = [...before, process.execPath, '--input-type=module', '-e', body(strategy)];
  const { status, stdout, stderr } = spawnSync(command!, args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(stderr.slice(-1000));
  return JSON.parse(stdout) as Told;
}

/** "0,2-4" → the listed cores. */
const cores = (list: string): number[] => list.trim().split(',').flatMap((part) => {
  const [from, to = from] = part.split('-').map(Number);
  return Array.from({ length: to! - from! + 1 }, (_, i) => from! + i);
});

/** The cores this process may use. */
const usable = (): number[] => cores(/^Cpus_allowed_list:(.*)$/m.exec(readFileSync('/proc/self/status', 'utf8'))![1]!);

/** A folder of nodes: the first has one core, the second the others. */
function twoNodes(folder: string, all: readonly number[]): readonly string[] {
  for (const [i, core] of all.entries()) mkdirSync(join(folder, i === 0 ? 'node0' : 'node1', `cpu${core}`), { recursive: true });
  return ['unshare', '--map-root-user', '--mount', 'sh', '-c', 'mount --bind "$0" /sys/devices/system/node && exec "$@"', folder];
}

const oneNode = !existsSync('/sys/devices/system/node/node1');
const skip = process.platform !== 'linux' ? 'only Linux tells its nodes' : gpuLayers !== 0 && 'threads on a processor are meant';

t.test('a strategy is chosen once per process, and changes nothing on one node', { skip }, (t) => {
  const plain = run('');
  for (const strategy of ['distribute', 'numactl']) {
    const told = run(strategy);
    t.equal(told.several, !oneNode);
    t.equal(told.again, told.several);
    t.match(told.refused, { code: 'invalid_argument', message: new RegExp(`already places its threads by NUMA strategy ${strategy}.*isolate`) });
    t.same(told.sampled, plain.sampled);
  }
  t.end();
});

t.test('with two nodes, threads are bound to theirs', { skip }, (t) => {
  const all = usable();
  const before = twoNodes(t.testdir(), all);
  const [command, ...args] = [...before, 'true'];
  if (all.length < 2 || spawnSync(command!, args).status !== 0) {
    t.pass('threads on two nodes', { skip: 'no mount namespaces here, or a single core' });
    return t.end();
  }
  const told = run('distribute', before);
  t.equal(told.several, true);
  const others = all.slice(1).join();
  t.ok(told.allowed.some((list) => cores(list).join() === others), `a thread is bound to the second node: ${told.allowed.join('; ')}`);
  const alone = run('isolate', before);
  t.equal(alone.several, true);
  t.same(alone.sampled, told.sampled);
  t.end();
});

t.test('the command line says when a strategy has no effect, and refuses an unknown one', { skip }, (t) => {
  const chat = (strategy: string) => spawnSync(process.execPath, [main, 'run', 'builtin', '-p', 'Hello', '-n', '1', '--numa', strategy], { encoding: 'utf8' });
  const wrong = chat('spread');
  t.equal(wrong.status, 2);
  t.match(wrong.stderr, /Expected one of none, distribute, isolate, numactl for --numa, got "spread"/);
  const some = chat('distribute');
  t.equal(some.status, 0);
  if (oneNode) t.match(some.stderr, /Note: --numa distribute has no effect: llama.cpp finds no second memory node/);
  const none = chat('none');
  t.equal(none.status, 0);
  t.notMatch(none.stderr, /numa/);
  t.end();
});
