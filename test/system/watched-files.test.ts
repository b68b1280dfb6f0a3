// The watcher of files that others write while the server runs.
import t from 'tap';
import { join } from 'node:path';
import { watchFiles } from '#recua/system/watched-files.js';
import { until } from '../cli/home.js';

t.test('a look that never ends is reported, once', async (t) => {
  const path = join(t.testdir({ file: '' }), 'file');
  let stuck = 0;
  const stop = watchFiles([path], () => void stuck++, () => new Promise(() => { /* Never. */ }), 2);
  await until(() => stuck > 0);
  await new Promise((resolve) => setTimeout(resolve, 100));
  stop();
  t.equal(stuck, 1);
});

t.test('a change that could not be read is read later, although the file stays the same', async (t) => {
  const path = join(t.testdir({ file: '' }), 'file');
  let calls = 0;
  const stop = watchFiles([path], () => undefined, async () => {
    if (++calls < 3) throw new Error('EMFILE: too many open files');
  }, 2);
  await until(() => calls === 3);
  await new Promise((resolve) => setTimeout(resolve, 100));
  stop();
  t.equal(calls, 3);
});
