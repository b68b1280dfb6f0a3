// Processes take turns at the cores: one that needs more than are free waits for the other's step,
// one that needs few does not, and nobody waits for a process that died or was stopped.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { createInterface, type Interface } from 'node:readline';
import t, { type Test } from 'tap';

const allCores = availableParallelism();
const skip = process.platform === 'linux' ? false : 'processes take turns on Linux only';

/** For each line on stdin it computes a few steps, then prints how often it has waited. */
const program = (url: string, turnFile: string, threads: number, rows: number): string => `
const { addon, builtin, contextOptions, step } = await import(${JSON.stringify(url)});
const model = await addon.loadModel({ path: builtin, gpuLayers: 0, mmap: true, mlock: false }).promise;
const context = await model.createContext(contextOptions({
  sequences: 1, threads: ${threads}, threadsBatch: ${threads}, turnFile: ${JSON.stringify(turnFile)},
}));
const sampler = await model.createSampler({ temperature: 0 }, new Int32Array());
console.log('ready');
let work = Promise.resolve();
const compute = async () => {
  for (let round = 0; round < 10; round++) {
    await context.removeSequence(0, 0, -1);
    await step(context, [{ sequence: 0, from: 0, tokens: Array.from({ length: ${rows} }, (_, i) => i + 5), sampler }]);
  }
  console.log(JSON.stringify(addon.turns()));
};
process.stdin.on('data', (text) => {
  for (const letter of String(text)) if (letter === '\\n') work = work.then(compute);
});
process.stdin.on('end', () => process.exit());
`;

interface Engine {
  child: ChildProcess;
  lines: AsyncIterator<string>;
}

async function start(t: Test, turnFile: string, threads: number, rows = 200): Promise<Engine> {
  const source = program(new URL('../setup.js', import.meta.url).href, turnFile, threads, rows);
  const child = spawn(process.execPath, ['--input-type=module', '-e', source], { stdio: ['pipe', 'pipe', 'inherit'] });
  t.teardown(() => void child.kill('SIGKILL'));
  const lines = (createInterface(child.stdout!) as Interface)[Symbol.asyncIterator]();
  t.equal((await lines.next()).value, 'ready');
  return { child, lines };
}

interface Turns {
  taken: number;
  waited: number;
  skipped: number;
}

async function compute({ child, lines }: Engine): Promise<Turns> {
  child.stdin!.write('go\n');
  return JSON.parse((await lines.next()).value as string) as Turns;
}

/** As machine_turn.cpp lays a row out: process, threads, ticket, whether it computes, its cores. */
const rowBytes = 152;
const rowsAt = 16;

function rowsOf(turnFile: string): { pid: number; ticket: bigint }[] {
  const bytes = readFileSync(`${turnFile}-2`);
  return Array.from({ length: (bytes.length - rowsAt) / rowBytes }, (_, i) => bytes.subarray(rowsAt + i * rowBytes)).map((row) => ({
    pid: row.readInt32LE(0),
    ticket: row.readBigUInt64LE(8),
  }));
}

/** How often two that compute at once may miss each other. */
const rounds = 100;

/** Computes until it had to wait for another; false if it never had to. */
async function waits(engine: Engine): Promise<boolean> {
  const { waited } = await compute(engine);
  for (let round = 0; round < rounds; round++) {
    if ((await compute(engine)).waited > waited) return true;
  }
  return false;
}

t.test('two processes that need all cores take turns', { skip }, async (t) => {
  const turnFile = join(t.testdir(), 'cores');
  const alone = await start(t, turnFile, allCores);
  t.match(await compute(alone), { waited: 0 }, 'one that is alone never waits');
  const other = await start(t, turnFile, allCores);
  let [one, two] = [{ waited: 0 }, { waited: 0 }];
  for (let round = 0; round < rounds && (one.waited === 0 || two.waited === 0); round++) {
    [one, two] = await Promise.all([compute(alone), compute(other)]);
  }
  t.ok(one.waited > 0 && two.waited > 0, 'both waited');
});

t.test('two processes that hand the cores over hundreds of times survive', { skip }, async (t) => {
  const turnFile = join(t.testdir(), 'cores');
  // Few enough rows for a short step, and enough for all threads.
  const two = await Promise.all([start(t, turnFile, allCores, 16), start(t, turnFile, allCores, 16)]);
  for (let round = 0; round < 30; round++) await Promise.all(two.map(compute));
  t.ok((await Promise.all(two.map(compute))).every(({ waited }) => waited > 0), 'both waited');
});

t.test('processes with enough cores do not wait', { skip: skip || (allCores < 2 && 'there is one core') }, async (t) => {
  const turnFile = join(t.testdir(), 'cores');
  const two = await Promise.all([start(t, turnFile, 1), start(t, turnFile, 1)]);
  t.strictSame((await Promise.all(two.map(compute))).map(({ waited }) => waited), [0, 0]);
});

t.test('nothing waits for a process that was killed or stopped in its step', { skip }, async (t) => {
  const turnFile = join(t.testdir(), 'cores');
  const [killed, stopped, lives] = await Promise.all([1, 2, 3].map(() => start(t, turnFile, allCores)));
  const busy = (engine: Engine): void => {
    engine.child.stdin!.write('go\n'.repeat(200));
  };
  busy(killed!);
  t.ok(await waits(lives!), 'the other computes');
  const ended = once(killed!.child, 'exit');
  killed!.child.kill('SIGKILL');
  await ended;
  t.ok((await compute(lives!)).taken > 0);
  busy(stopped!);
  t.ok(await waits(lives!), 'the other computes');
  // It may be stopped between two steps.
  let skipped = 0;
  for (let round = 0; round < rounds && skipped === 0; round++) {
    stopped!.child.kill('SIGCONT');
    stopped!.child.kill('SIGSTOP');
    ({ skipped } = await compute(lives!));
  }
  t.ok(skipped > 0, 'its step is waited for no longer');
});

t.test('nor for one whose parent has not noticed its death', { skip }, async (t) => {
  const turnFile = join(t.testdir(), 'cores');
  const source = program(new URL('../setup.js', import.meta.url).href, turnFile, allCores, 200);
  // Its parent becomes a program that waits for no child.
  const parent = spawn('sh', ['-c', 'exec 3<&0; "$0" "$@" <&3 & echo $!; exec sleep 600', process.execPath, '--input-type=module', '-e', source], { stdio: ['pipe', 'pipe', 'inherit'] });
  t.teardown(() => void parent.kill('SIGKILL'));
  const lines = (createInterface(parent.stdout) as Interface)[Symbol.asyncIterator]();
  const pid = Number((await lines.next()).value);
  t.equal((await lines.next()).value, 'ready');
  const lives = await start(t, turnFile, allCores);
  parent.stdin.write('go\n'.repeat(200));
  t.ok(await waits(lives), 'the other computes');
  process.kill(pid, 'SIGKILL');
  await compute(lives);
  t.notOk(rowsOf(turnFile).some((row) => row.pid === pid && row.ticket > 0n), 'its step no longer counts');
});

t.test('whenever a process is stopped, nobody waits for it', { skip }, async (t) => {
  const turnFile = join(t.testdir(), 'cores');
  // Short steps, so that many of the stops meet a process that takes or ends its turn.
  const [stopped, lives, third] = await Promise.all([1, 2, 3].map(() => start(t, turnFile, allCores, 16)));
  third!.child.stdin!.write('go\n'.repeat(5_000));
  let ended = false;
  const busy = (async () => {
    while (!ended) await compute(stopped!);
  })();
  for (let round = 0; round < 40; round++) {
    await compute(lives!);
    stopped!.child.kill('SIGSTOP');
    t.ok((await compute(lives!)).taken > 0);
    stopped!.child.kill('SIGCONT');
  }
  ended = true;
  await busy;
});

t.test('nobody waits for a process that was stopped while it took a ticket', { skip }, async (t) => {
  const turnFile = join(t.testdir(), 'cores');
  const lives = await start(t, turnFile, allCores);
  const other = spawn('sleep', ['600']);
  t.teardown(() => void other.kill('SIGKILL'));
  other.kill('SIGSTOP');
  const row = Buffer.alloc(rowBytes, 0xff);
  row.writeInt32LE(other.pid!, 0);
  row.writeInt32LE(allCores, 4);
  row.writeInt32LE(0, 16);
  const file = openSync(`${turnFile}-2`, 'r+');
  writeSync(file, row, 0, row.length, rowsAt + 40 * row.length);
  closeSync(file);
  t.match(await compute(lives), { waited: 1, skipped: 1 });
});
