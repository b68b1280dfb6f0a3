import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';
import t, { type Test } from 'tap';
import { loadModel } from 'recua';
import { endless } from './modes.js';

const root = fileURLToPath(new URL('../..', import.meta.url));
const question = 'Who are you?';

/**
 * A thread that loads the model and answers. With `endless` it never ends by itself, and says when
 * it has begun.
 */
function startThread(t: Test, isolated: boolean, forever = false): Worker {
  const source = `
    import { parentPort } from 'node:worker_threads';
    import { loadModel } from 'recua';
    const model = await loadModel('builtin', { isolated: ${isolated} });
    if (${forever}) for await (const { content } of model.chat('Tell me a story', { ignoreEos: true, maxTokens: 100_000 })) parentPort.postMessage(content);
    const { content } = await model.chat(${JSON.stringify(question)}, { temperature: 0 });
    await model.dispose();
    parentPort.postMessage(content);`;
  const worker = new Worker(new URL(`data:text/javascript,${encodeURIComponent(source.replace("from 'recua'", `from ${JSON.stringify(pathToFileURL(join(root, 'dist/index.js')).href)}`))}`));
  t.teardown(() => worker.terminate());
  return worker;
}

for (const isolated of [false, true]) {
  const mode = isolated ? 'isolated' : 'in process';
  t.test(`several threads load and answer beside the main one (${mode})`, async (t) => {
    const model = await loadModel('builtin', { isolated });
    t.teardown(() => model.dispose());
    const { content } = await model.chat(question, { temperature: 0 });
    const workers = [1, 2, 3].map(() => startThread(t, isolated));
    const ended = workers.map((worker) => once(worker, 'exit'));
    const [here, ...there] = await Promise.all([model.chat(question, { temperature: 0 }), ...workers.map(async (worker) => (await once(worker, 'message'))[0] as string)]);
    t.equal(here.content, content);
    t.same(there, [content, content, content]);
    t.same((await Promise.all(ended)).map(([code]) => code as number), [0, 0, 0]);
  });

  t.test(`a thread may be terminated during an answer or a load (${mode})`, async (t) => {
    const model = await loadModel('builtin', { isolated });
    t.teardown(() => model.dispose());
    for (let round = 0; round < 3; round++) {
      const answering = startThread(t, isolated, true);
      const loading = startThread(t, isolated);
      const reply = model.chat('Tell me a story', { ...endless, maxTokens: 200 });
      await once(answering, 'message');
      await Promise.all([answering.terminate(), loading.terminate()]);
      t.match(await reply, { finishReason: 'length' });
    }
    t.match(await model.chat(question, { temperature: 0 }), { finishReason: 'stop' });
  });
}

t.test('a process exits cleanly while threads answer', async (t) => {
  const source = `
    import { Worker } from 'node:worker_threads';
    const worker = new Worker(new URL(${JSON.stringify(`data:text/javascript,${encodeURIComponent(`
      import { parentPort } from 'node:worker_threads';
      import { loadModel } from ${JSON.stringify(pathToFileURL(join(root, 'dist/index.js')).href)};
      const model = await loadModel('builtin', { isolated: false });
      for await (const _ of model.chat('Tell', { ignoreEos: true, maxTokens: 100_000 })) parentPort.postMessage('');`)}`)}));
    worker.once('message', () => process.exit(5));`;
  const { status, signal, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', source], { encoding: 'utf8', timeout: 60_000 });
  t.strictSame({ status, signal, stderr }, { status: 5, signal: null, stderr: '' });
});

t.test('two copies of the library live in one process', async (t) => {
  const copy = join(t.testdir(), 'recua');
  mkdirSync(copy);
  for (const part of ['dist', 'builtin/builtin.gguf', 'package.json', 'vendor/llama.cpp.json', 'CMakeLists.txt', 'build/Release']) cpSync(join(root, part), join(copy, part), { recursive: true, verbatimSymlinks: true });
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'), 'dir');
  const other = await import(pathToFileURL(join(copy, 'dist/index.js')).href) as { loadModel: typeof loadModel; createServer(model: unknown): unknown };
  t.not(other.loadModel, loadModel);
  const [one, two] = await Promise.all([loadModel('builtin', { isolated: false }), other.loadModel('builtin', { isolated: false })]);
  const answers = await Promise.all([one, two].map((model) => model.chat(question, { temperature: 0 })));
  t.equal(answers[0].content, answers[1].content);
  t.throws(() => other.createServer(one), { code: 'invalid_type' }, 'a model belongs to its copy');
  await one.dispose();
  t.match(await two.chat(question, { temperature: 0 }), { finishReason: 'stop' });
  await two.dispose();
});
