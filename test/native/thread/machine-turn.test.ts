// Processes take turns at the cores: who needs more of them than there are waits for the other's
// step, who needs few does not, and nobody waits for one that died or was stopped.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { createInterface, type Interface } from 'node:readline';
import t, { type Test } from 'tap';


const allCores = availableParallelism();
const skip = process.platform === 'linux' ? false : 'processes take turns on Linux only';

/** Computes a few steps for each line that it reads, then prints how often it has waited. */
const program = (url: string, turnFile: string, threads: number): string => `
const { addon, builtin, contextOptions, step } = await import(${JSON.stringify(url)});
const model = await addon.loadModel({ path: builtin, gpuLayers: 0, mmap: true, mlock: false }).promise;
const context = await model.createContext(contextOptions({
  sequences: 1, threads: ${threads}, threadsBatch: ${threads}, turnFile: ${JSON.stringify(turnFile)},
}));
const sampler = await model.createSampler({ temperature: 0 }, new Int32Array());
console.log('ready');
process.stdin.on('data', async () => {
  for (let round = 0; round < 20; round++) {
    await context.removeSequence(0, 0, -1);
    await step(context, [{ sequence: 0, from: 0, tokens: Array.from({ length: 400 }, (_, i) => i + 5), sampler }]);
  }
  console.log(JSON.stringify(addon.turns()));
});
process.stdin.on('end', () => process.exit());
`;

interface Engine {
  child: ChildProcess;
  lines: AsyncIterator<string>;
}

async function start(t: Test, turnFile: string, threads: number): Promise<Engine> {
  const source = program(new URL('../setup.js', import.meta.url).href, turnFile, threads);
  const child = spawn(process.execPath, ['--input-type=module', '-e', source], { stdio: ['pipe', 'pipe', 'inherit'] });
  t.teardown(() => void child.kill('SIGKILL'));
  const lines = (createInterface(child.stdout!) as Interface)[Symbol.asyncIterator]();
  t.equal((await lines.next()).value, 'ready');
  return { child, lines };
}

interface Turns {
  taken: number;
  waited: number;
}

async function compute({ child, lines }: Engine): Promise<Turns> {
  child.stdin!.write('go\n');
  return JSON.parse((await lines.next()).value as string) as Turns;
}

t.test('two processes that need all cores wait for each other', { skip }, async (t) => {
  const turnFile = join(t.testdir(), 'cores');
  const alone = await start(t, turnFile, allCores);
  t.match(await compute(alone), { waited: 0 }, 'one that is alone never waits');
  const other = await start(t, turnFile, allCores);
  const waited = { alone: 0, other: 0 };
  while (waited.alone === 0 || waited.other === 0) {
    const [one, two] = await Promise.all([compute(alone), compute(other)]);
    t.ok(one.taken >= one.waited && two.taken >= two.waited);
    waited.alone = one.waited;
    waited.other = two.waited;
  }
});

t.test('processes that have cores enough do not wait', { skip: skip || (allCores < 2 && 'there is one core') }, async (t) => {
  const turnFile = join(t.testdir(), 'cores');
  const two = await Promise.all([start(t, turnFile, 1), start(t, turnFile, 1)]);
  t.strictSame((await Promise.all(two.map(compute))).map(({ waited }) => waited), [0, 0]);
});

t.test('nobody waits for a process that was killed or stopped in its step', { skip }, async (t) => {
  const turnFile = join(t.testdir(), 'cores');
  const [killed, stopped, lives] = await Promise.all([1, 2, 3].map(() => start(t, turnFile, allCores)));
  const busy = (engine: Engine): void => {
    for (let i = 0; i < 50; i++) engine.child.stdin!.write('go\n');
  };
  busy(killed!);
  while ((await compute(lives!)).waited === 0) { /* The other computes. */ }
  killed!.child.kill('SIGKILL');
  await once(killed!.child, 'exit');
  t.ok((await compute(lives!)).taken > 0);
  busy(stopped!);
  const before = (await compute(lives!)).waited;
  while ((await compute(lives!)).waited === before) { /* The other computes. */ }
  stopped!.child.kill('SIGSTOP');
  t.ok((await compute(lives!)).taken > 0);
});
