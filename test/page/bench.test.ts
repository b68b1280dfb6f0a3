// `npm run bench -- page` works on the page as it is. Its times are not looked at.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import t from 'tap';
import { missing } from './browsers.js';

t.test('the page\'s benchmark prints every figure', { skip: missing('chromium') }, async (t) => {
  const { stdout } = await promisify(execFile)(process.execPath, ['bench/page.mjs']);
  for (const line of [/^First load.* kB in \d+ files/m, /^First paint \(goal.* ms/m, /^Scrolling 2000 messages/m, /^Streaming.* % of a core/m]) t.match(stdout, line);
});
