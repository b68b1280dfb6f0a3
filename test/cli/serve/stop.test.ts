import t from 'tap';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { servePlaces } from '#recua/cli/serve/state-file.js';
import { stopServer } from '#recua/cli/serve/stop.js';
import { identityOf } from '#recua/system/process-identity.js';
import { until } from '../home.js';

t.test('stop waits for a server that saves its conversations', { skip: process.platform === 'win32' && 'ends at once there' }, async (t) => {
  const source = `process.on('SIGTERM', () => console.log('asked')); process.stdin.on('end', () => process.exit()).resume(); console.log('runs');`;
  const server = spawn(process.execPath, ['-e', source], { stdio: ['pipe', 'pipe', 'inherit'] });
  t.teardown(() => server.kill('SIGKILL'));
  await once(server.stdout, 'data');
  const places = servePlaces(t.testdir());
  writeFileSync(places.record, JSON.stringify({
    identity: await identityOf(server.pid!), state: 'running', host: '127.0.0.1', port: 1, url: '', model: { name: '', path: '', id: 'a', names: [] },
    startedAt: new Date().toISOString(), version: '0', logFile: '', settings: { 'drain-timeout': 5, 'cache-disk': 64 },
  }));
  const { now } = performance;
  t.teardown(() => { performance.now = now; });
  const stopped = stopServer(places, { force: false, timeoutSeconds: 0 });
  stopped.catch(() => undefined);
  await once(server.stdout, 'data');
  // 5 s for answers, 1 s of last words, 22 s for the engine that saves, 5 s of traces.
  let looks = 0;
  performance.now = () => {
    looks++;
    return now.call(performance) + 33_000;
  };
  await until(() => looks > 1);
  server.stdin.end();
  t.equal(await stopped, 0);
});
