// Threads of a program that end while the addon works for them. What is used after its end shows
// for certain only with an addon for it: npm run test:sanitized -- address test/native/thread.
import t from 'tap';
import { spawnSync } from 'node:child_process';
import { Worker } from 'node:worker_threads';

const setup = JSON.stringify(new URL('../setup.js', import.meta.url).href);

/** Starts a thread that runs `code`, and ends it `ms` after it says that it is ready. */
async function endThread(code: string, ms: number): Promise<void> {
  const thread = new Worker(`import('node:worker_threads').then(async ({ parentPort }) => { const { addon, loadBuiltin, contextOptions, step } = await import(${setup}); ${code} });`, { eval: true });
  await new Promise((resolve, reject) => thread.once('message', resolve).once('error', reject));
  await new Promise((resolve) => setTimeout(resolve, ms));
  await thread.terminate();
}

t.test('a context that is still to be created goes with its thread', async (t) => {
  for (let round = 0; round < 5; round++) {
    await endThread(`
      const model = await loadBuiltin();
      const context = await model.createContext(contextOptions({ contextSize: 4096, batchSize: 2048 }));
      const tokens = (await model.tokenize('word '.repeat(1500), true, true)).subarray(0, 1024);
      step(context, [{ sequence: 0, from: 0, tokens, sampler: null }]).catch(() => {});
      for (let i = 0; i < 3; i++) model.createContext(contextOptions()).catch(() => {});
      parentPort.postMessage('ready');`, 0);
  }
  t.pass('the program goes on');
});

t.test('a thread may end at any moment of its loads', async (t) => {
  for (let round = 0; round < 20; round++) {
    await endThread(`
      parentPort.postMessage('ready');
      for (;;) {
        for (let i = 0; i < 200; i++) addon.loadModel({ path: '/nonexistent', gpuLayers: 0, mmap: true, mlock: false }).promise.catch(() => {});
        await new Promise((resolve) => setTimeout(resolve, 1));
      }`, 5 + (round * 13) % 40);
  }
  t.pass('the program goes on');
});

t.test('a process to which the system gives too few threads ends, and says why', (t) => {
  const code = `const { loadBuiltin, contextOptions, step } = await import(${setup});
    const model = await loadBuiltin();
    const context = await model.createContext(contextOptions({ threads: 4, threadsBatch: 4 }));
    await step(context, [{ sequence: 0, from: 0, tokens: Array.from({ length: 64 }, (_, i) => i + 5), sampler: null }]);
    await model.close();`;
  // No thread can have a stack of a petabyte. Other runtimes than GNU's do not read it so.
  const { status, signal, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', code], { encoding: 'utf8', env: { ...process.env, OMP_STACKSIZE: '1000000G' }, timeout: 60_000 });
  if (status !== 0) t.match({ status, signal, stderr }, { status: 1, signal: null, stderr: /libgomp: Thread creation failed/ });
  t.end();
});
