// Closing is explicit, idempotent and safe at any moment, and frees memory. Tests that could crash
// the process run in a child process.
import { spawnSync } from 'node:child_process';
import t from 'tap';
import { addon, chatPrompt, contextOptions, loadBuiltin, step } from './setup.js';

t.test('200 loads and closes leave memory flat', async (t) => {
  const setup = new URL('./setup.js', import.meta.url).href;
  const body = `
    const { contextOptions, generate, loadBuiltin } = await import(${JSON.stringify(setup)});
    const once = async () => {
      const model = await loadBuiltin();
      const context = await model.createContext(contextOptions());
      const embedder = await model.createEmbedder({ contextSize: 64, sequences: 2, threads: 1, pooling: 'mean' });
      const sampler = await model.createSampler({ temperature: 0.5, topK: 40 }, new Int32Array());
      await generate(context, sampler, await model.tokenize('Hello', true, true), 3);
      await embedder.embed(Int32Array.of(5, 6), Int32Array.of(2));
      await model.close();
    };
    const residentMiB = () => { gc(); return process.memoryUsage().rss / 2 ** 20; };
    for (let i = 0; i < 230; i++) await once();
    const before = residentMiB();
    for (let i = 0; i < 200; i++) await once();
    console.log(residentMiB() - before);`;
  // glibc gives each thread its own arena and keeps freed memory there: noise of tens of MiB that
  // is not a leak.
  const env = { ...process.env, MALLOC_ARENA_MAX: '1', MALLOC_TRIM_THRESHOLD_: '131072' };
  const { stdout, stderr } = spawnSync(process.execPath, ['--expose-gc', '--input-type=module', '-e', body], { encoding: 'utf8', env });
  const grownMiB = Number(stdout);
  // A leaked context per round would be several hundred MiB, a sampler tens.
  t.ok(stdout !== '' && grownMiB < 6, `grew by ${grownMiB.toFixed(1)} MiB over 200 cycles ${stderr}`);
});

t.test('close() waits for a step in flight, and a second call returns the same promise', async (t) => {
  const model = await loadBuiltin();
  const context = await model.createContext(contextOptions());
  const sampler = await model.createSampler({ temperature: 0 }, new Int32Array());
  const tokens = await model.tokenize('word '.repeat(80), true, true);
  let stepped = false;
  const inFlight = step(context, [{ sequence: 0, from: 0, tokens, sampler }]).then(() => { stepped = true; });
  const closing = context.close();
  await Promise.all([closing, context.close(), model.close(), model.close()]);
  t.ok(stepped, 'the step was answered before close() was');
  await inFlight;
});

t.test('after close() every method rejects with closed', async (t) => {
  const model = await loadBuiltin();
  const context = await model.createContext(contextOptions());
  const embedder = await model.createEmbedder({ contextSize: 64, sequences: 2, threads: 1, pooling: 'mean' });
  await model.close();
  const closed = { code: 'closed' };
  await t.rejects(step(context, [{ sequence: 0, from: 0, tokens: [1], sampler: null }]), closed);
  await t.rejects(context.copySequence(0, 1, 1), closed);
  await t.rejects(context.removeSequence(0, 0, -1), closed);
  await t.rejects(context.stashSequence(0), closed);
  t.throws(() => context.createStash(1), closed);
  t.throws(() => context.readStash(1, 0, new Uint8Array(1)), closed);
  t.throws(() => context.writeStash(1, 0, new Uint8Array(1)), closed);
  await t.rejects(embedder.embed(Int32Array.of(1), Int32Array.of(1)), closed);
  context.abort();
  for (const call of [() => model.metadata(), () => model.chatTemplate(), () => model.piece(1, false)]) t.throws(call, closed);
  const promises: Promise<unknown>[] = [model.tokenize('a', true, true), model.detokenize(Int32Array.of(1), true), model.pieces(true), model.createContext(contextOptions()),
    model.createSampler({ temperature: 0 }, new Int32Array()), chatPrompt(model, 'Hi')];
  for (const promise of promises) {
    await t.rejects(promise, closed);
  }
});

t.test('a requested abort is no error in the log; a failure beside it is', async (t) => {
  const lines: string[] = [];
  addon.setLog((level, text) => lines.push(`${level} ${text}`));
  t.teardown(() => addon.setLog(null));
  const model = await loadBuiltin();
  const context = await model.createContext(contextOptions());
  const told = async (pattern: RegExp) => {
    while (!lines.some((line) => pattern.test(line))) await new Promise((resolve) => setTimeout(resolve, 5));
  };
  const errors = () => lines.filter((line) => /^(?:error|warn) /.test(line));
  const tokens = [...await model.tokenize('word '.repeat(80), true, true)];
  const interrupted = step(context, [{ sequence: 0, from: 0, tokens, sampler: null }]);
  context.abort();
  await t.rejects(interrupted, { code: 'cancelled' });
  await told(/failed to decode, ret = 2/);
  t.strictSame(errors(), []);
  // A failure of a step is reported, even if the step was to be aborted.
  await context.removeSequence(0, 0, -1);
  await step(context, [{ sequence: 0, from: 0, tokens: tokens.slice(0, 4), sampler: null }]);
  for (const aborts of [false, true]) {
    lines.length = 0;
    const wrong = step(context, [{ sequence: 0, from: 40, tokens: tokens.slice(0, 4), sampler: null }]);
    if (aborts) context.abort();
    await t.rejects(wrong, { code: 'generation_failed' });
    await told(/^error .*failed to decode, ret = -1/);
  }
  await model.close();
});

t.test('closing at any moment of a step ends well', async (t) => {
  for (let delay = 0; delay < 40; delay++) {
    const model = await loadBuiltin();
    const context = await model.createContext(contextOptions());
    const sampler = await model.createSampler({ temperature: 0.8, topK: 40, grammar: 'root ::= [a-z ]+' }, new Int32Array());
    const tokens = await model.tokenize('word '.repeat(60), true, true);
    const outcome = step(context, [{ sequence: 0, from: 0, tokens, sampler }]).then(() => 'stepped', (error: { code: string }) => error.code);
    const until = performance.now() + delay / 4;
    while (performance.now() < until) { /* the step is under way */ }
    if (delay % 3 === 0) sampler.close();
    if (delay % 3 === 1) context.abort();
    await model.close();
    t.match(await outcome, /^(stepped|closed|cancelled|generation_failed)$/);
  }
});

t.test('objects that are being created while the model closes reject with closed', async (t) => {
  const model = await loadBuiltin();
  const made: Promise<unknown>[] = [model.createContext(contextOptions()), model.createEmbedder({ contextSize: 64, sequences: 2, threads: 1, pooling: 'mean' })];
  const outcomes = Promise.allSettled(made);
  const closing = model.close();
  const until = performance.now() + 200;
  while (performance.now() < until) { /* the other threads finish meanwhile */ }
  await closing;
  t.match(await outcomes, made.map(() => ({ status: 'rejected', reason: { code: 'closed' } })));
});

t.test('work in every state at exit leaves exit code 0', async (t) => {
  const setup = new URL('./setup.js', import.meta.url).href;
  const body = (ending: string) => `
    const { loadBuiltin, contextOptions, step, addon } = await import(${JSON.stringify(setup)});
    addon.setLog(() => {});
    const model = await loadBuiltin();
    const context = await model.createContext(contextOptions());
    const sampler = await model.createSampler({ temperature: 0 }, new Int32Array());
    const tokens = await model.tokenize('word '.repeat(80), true, true);
    ${ending}`;
  for (const ending of [
    '', 'process.exit(0)',
    'void step(context, [{ sequence: 0, from: 0, tokens, sampler }]); process.exit(0)',
    'void step(context, [{ sequence: 0, from: 0, tokens, sampler }]); setTimeout(() => process.exit(0), 3)',
    'void loadBuiltin(); process.exit(0)', 'void model.pieces(true); void context.close(); process.exit(0)',
    'await step(context, [{ sequence: 0, from: 0, tokens, sampler }])',
  ]) {
    for (let round = 0; round < 5; round++) {
      const { status, signal, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', body(ending)], { encoding: 'utf8' });
      t.equal(status, 0, `${ending || 'falls off the end'}: signal ${signal} ${stderr.slice(0, 300)}`);
    }
  }
});

t.test('the addon works from worker threads, which may end at any moment', async (t) => {
  const setup = new URL('./setup.js', import.meta.url).href;
  const body = `
    import { Worker } from 'node:worker_threads';
    const code = ${JSON.stringify(`
      Promise.all([import('node:worker_threads'), import(${JSON.stringify(setup)})]).then(async ([{ parentPort }, { loadBuiltin, contextOptions, step }]) => {
        const model = await loadBuiltin();
        const context = await model.createContext(contextOptions());
        const sampler = await model.createSampler({ temperature: 0 }, new Int32Array());
        const tokens = await model.tokenize('word '.repeat(80), true, true);
        parentPort.postMessage('ready');
        for (let i = 0; i < 50; i++) { await step(context, [{ sequence: 0, from: 0, tokens, sampler }]); await context.removeSequence(0, 0, -1); }
      });`)};
    for (let i = 0; i < 6; i++) {
      const workers = [new Worker(code, { eval: true }), new Worker(code, { eval: true })];
      await Promise.all(workers.map((worker) => new Promise((resolve) => worker.once('message', resolve))));
      await new Promise((resolve) => setTimeout(resolve, i * 3));
      await Promise.all(workers.map((worker) => worker.terminate()));
    }`;
  const { status, signal, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', body], { encoding: 'utf8' });
  t.equal(status, 0, `signal ${signal} ${stderr.slice(0, 500)}`);
});

t.test('a model may close while a sampler reads what was generated before', async (t) => {
  const setup = new URL('./setup.js', import.meta.url).href;
  const body = `
    const { loadBuiltin } = await import(${JSON.stringify(setup)});
    const tokens = Int32Array.from({ length: 3_000_000 }, (_, index) => 3 + index % 1300);
    for (let round = 0; round < 6; round++) {
      const model = await loadBuiltin();
      const sampler = await model.createSampler({ temperature: 0.8, repeatPenalty: 1.1, penaltyLastN: 4096, draft: true, seed: 1 }, new Int32Array());
      const resumed = sampler.resume(tokens, 5).catch(({ code }) => code);
      await new Promise((resolve) => setTimeout(resolve, 5 + 7 * round));
      await model.close();
      await resumed;
    }
    console.log('closed');`;
  const { stdout, stderr, status } = spawnSync(process.execPath, ['--input-type=module', '-e', body], { encoding: 'utf8' });
  t.equal(stdout, 'closed\n', stderr);
  t.equal(status, 0);
});
