// `npm test`: one run at a time in a checkout.
import t from 'tap';
import { existsSync, mkdirSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeCheckout } from './checkout.js';

t.test('a second run is refused; what a killed one left is not in the way, even if its process id is in use', (t) => {
  const checkout = makeCheckout(t.testdir());
  checkout.pin([]);
  writeFileSync(join(checkout.folder, 'package-lock.json'), '{"packages":{}}');
  const running = join(checkout.folder, '.tap', 'running.pid');
  mkdirSync(join(running, '..'));
  writeFileSync(running, String(process.pid));
  // Set-up fails without tools.
  const run = (): string => checkout.run('test.mjs', { PATH: '' }).output;
  t.match(run(), new RegExp(`Tests run in this checkout already \\(process ${process.pid}\\)`));
  t.ok(existsSync(running), 'that of the other run');
  const before = new Date(Date.now() - 120_000);
  utimesSync(running, before, before);
  const output = run();
  t.notMatch(output, /already/);
  t.match(output, /Set-up: FAILED/);
  t.notOk(existsSync(running));
  t.end();
});
