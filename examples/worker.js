// A model inside a worker thread, without its own process: the main thread only passes messages.
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { loadModel } from 'recua';

if (isMainThread) {
  const worker = new Worker(new URL(import.meta.url), { workerData: process.argv[2] ?? 'builtin' });
  worker.on('message', (answer) => console.log(answer));
  for (const question of ['Hello!', 'Who are you?']) worker.postMessage(question);
  worker.postMessage(null);
} else {
  const model = await loadModel(workerData, { isolated: false });
  for await (const question of questions()) parentPort.postMessage((await model.chat(question, { temperature: 0 })).content);
  await model.dispose();
}

/** Messages from the main thread, until null. */
async function* questions() {
  const { on } = await import('node:events');
  for await (const [question] of on(parentPort, 'message')) {
    if (question === null) return;
    yield question;
  }
}
