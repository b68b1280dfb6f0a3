import { readFileSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import t from 'tap';
import { loadModel } from 'recua';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/** What is the process's own: pages of the mapped model file come and go as the kernel likes. */
const ownBytes = () => {
  collect();
  return Number(/^RssAnon:\s+(\d+)/m.exec(readFileSync('/proc/self/status', 'utf8'))![1]) * 1024;
};

t.test('120 models are loaded, used and disposed of without growth', { skip: process.platform !== 'linux' && 'needs /proc' }, async (t) => {
  const round = async () => {
    const model = await loadModel('builtin', { isolated: false, parallel: 2 });
    await Promise.all([model.chat('Hello!', { maxTokens: 5 }), model.embed('red roses'), model.tokenize('x'.repeat(1000))]);
    await model.dispose();
  };
  const rounds = async (count: number) => {
    const bytes: number[] = [];
    for (let i = 0; i < count; i++) {
      await round();
      bytes.push(ownBytes());
    }
    // What threads' heaps keep comes and goes; the least tells what is really held.
    return Math.min(...bytes);
  };
  // What stays after the first ones (code, pools, an arena for each of libuv's threads) is no growth.
  await rounds(40);
  const before = await rounds(10);
  await rounds(60);
  const grown = await rounds(10) - before;
  // Half a MiB for each model would be more.
  t.ok(grown < 35 * 2 ** 20, `grew by ${Math.round(grown / 2 ** 20)} MiB`);
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
