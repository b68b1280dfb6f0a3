import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import t from 'tap';
import { loadModel } from 'recua';
import { openTestAddon } from '../device.js';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;
const addon = await openTestAddon();

/**
 * Memory that is allocated and not freed, as malloc and V8 count it. Unlike the pages of the
 * process, this does not depend on which thread's heap keeps memory, nor on other load of the
 * machine.
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
    // Memory that a thread is just about to free varies.
    return Math.min(...bytes);
  };
  // Memory that stays after the first models (code, pools, per-thread buffers of libuv) is not
  // growth.
  await rounds(20);
  const before = await rounds(10);
  await rounds(80);
  const grown = await rounds(10) - before;
  // The tensor names of a hundred models would be more.
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
  // The pipe of the last one closes some turns after its process has ended.
  for (let turns = 0; handles() > before && turns < 100; turns++) await new Promise((resolve) => setTimeout(resolve, 10));
  t.equal(handles(), before);
});
