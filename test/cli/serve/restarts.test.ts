// Restarts of the managed server at the same time.
import t from 'tap';
import { existsSync } from 'node:fs';
import { makeHome, until } from '../home.js';

t.test('a restart that waited for another one keeps what that one set, and the port', async (t) => {
  const home = makeHome(t);
  t.match(await home.serve('start', 'builtin', '--port', '0', '--threads', '1', '--parallel', '2'), { code: 0 });
  const { port } = home.record();
  const first = home.serve('restart', '--max-tokens', '77');
  await until(() => existsSync(home.places.startLock));
  t.match(await home.serve('restart', '--parallel', '1'), { code: 0, stderr: /Stopped the server/ });
  t.match(await first, { code: 0 });
  t.match(home.record(), { port, settings: { 'max-tokens': 77, parallel: 1 } });
  t.match(await home.serve('stop'), { code: 0 });
});
