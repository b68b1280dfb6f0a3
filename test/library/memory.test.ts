import { readFileSync } from 'node:fs';
import t from 'tap';
import { loadModel } from 'recua';

/** What is the process's own: pages of the mapped model file come and go as the kernel likes. */
const ownBytes = () => {
  (globalThis as { gc?: () => void }).gc?.();
  return Number(/^RssAnon:\s+(\d+)/m.exec(readFileSync('/proc/self/status', 'utf8'))![1]) * 1024;
};

t.test('50 models are loaded, used and disposed of without growth', { skip: process.platform !== 'linux' && 'needs /proc' }, async (t) => {
  const round = async () => {
    const model = await loadModel('builtin', { isolated: false, parallel: 2 });
    await Promise.all([model.chat('Hello!', { maxTokens: 5 }), model.embed('red roses'), model.tokenize('x'.repeat(1000))]);
    await model.dispose();
  };
  // What stays after the first ones (code, pools, heaps of threads) is no growth.
  for (let i = 0; i < 15; i++) await round();
  const before = ownBytes();
  for (let i = 0; i < 50; i++) await round();
  const grown = ownBytes() - before;
  // One model with its contexts takes more than this.
  t.ok(grown < 24 * 2 ** 20, `grew by ${Math.round(grown / 2 ** 20)} MiB`);
});

t.test('isolated engines leave no process and no handle', async (t) => {
  const handles = () => process.getActiveResourcesInfo().filter((kind) => /Process|Pipe/.test(kind)).length;
  const before = handles();
  for (let i = 0; i < 5; i++) {
    const model = await loadModel('builtin', { isolated: true });
    await model.chat('Hello!', { maxTokens: 5 });
    await model.dispose();
  }
  await new Promise(setImmediate);
  t.equal(handles(), before);
});
