import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import t from 'tap';
import { loadModel } from 'recua';
import { openTestAddon } from '../device.js';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;
const addon = await openTestAddon();

/**
 * What is given out and not given back, by malloc's account and V8's: unlike the process's pages it
 * does not depend on which thread's heap keeps what, and so not on what else the machine does.
 */
const heldBytes = () => {
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return addon.heap()!.usedBytes + heapUsed + external;
};

t.test('120 models are loaded, used and disposed of without growth', { skip: !addon.heap() && 'the C library does not tell what it has given out' }, async (t) => {
  const round = async () => {
    const model = await loadModel('builtin', { isolated: false, parallel: 2 });
    await Promise.all([model.chat('Hello!', { maxTokens: 5 }), model.embed('red roses'), model.tokenize('x'.repeat(1000))]);
    await model.dispose();
  };
  const rounds = async (count: number) => {
    const bytes: number[] = [];
    for (let i = 0; i < count; i++) {
      await round();
      bytes.push(heldBytes());
    }
    // What a thread is just about to give back comes and goes.
    return Math.min(...bytes);
  };
  // What stays after the first ones (code, pools, what each of libuv's threads keeps at hand) is no
  // growth.
  await rounds(20);
  const before = await rounds(10);
  await rounds(80);
  const grown = await rounds(10) - before;
  // A hundred tensors' names for each model would be more.
  t.ok(grown < 90 * 16 * 1024, `grew by ${Math.round(grown / 1024)} KiB`);
});

t.test('isolated engines leave no process and no handle', async (t) => {
  const handles = () => process.getActiveResourcesInfo().filter((kind) => /Process|Pipe/.test(kind)).length;
  const before = handles();
  for (let i = 0; i < 5; i++) {
    const model = await loadModel('builtin', { isolated: true });
    await model.chat('Hello!', { maxTokens: 5 });
    await model.dispose();
  }
  // The last one's pipe is closed some turns after its process has ended.
  for (let turns = 0; handles() > before && turns < 100; turns++) await new Promise((resolve) => setTimeout(resolve, 10));
  t.equal(handles(), before);
});
