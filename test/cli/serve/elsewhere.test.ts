// The record of a managed server whose process is not visible here, as after a container was
// replaced whose home another one has.
import t from 'tap';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { recordLock } from '#recua/cli/serve/state-file.js';
import { ownIdentity } from '#recua/system/process-identity.js';
import { makeHome, type Home } from '../home.js';
import { start } from '../recua.js';

const elsewhere = { pid: 1, started: '1', machine: 'elsewhere 1 2' };

function leaveRecord({ places }: Home, state: string): void {
  mkdirSync(places.folder, { recursive: true });
  const model = { name: 'builtin', path: 'builtin', id: 'builtin', names: ['builtin'] };
  writeFileSync(places.record, JSON.stringify({ identity: elsewhere, state, host: '127.0.0.1', port: 1, url: 'http://127.0.0.1:1', model, startedAt: new Date().toISOString(), version: '0', settings: {} }));
}

t.test('a server that no longer touches its lock has ended', async (t) => {
  for (const state of ['running', 'stopping']) {
    const home = makeHome(t);
    leaveRecord(home, state);
    t.match(await home.serve('status'), { code: 4, stdout: /^State +crashed$/m, stderr: /ended unexpectedly/ });
    t.match(await home.serve('start', 'builtin', '--port', '0', '--threads', '1'), { code: 0, stderr: /Recua serves builtin/ });
    t.match(await home.serve('stop'), { code: 0, stderr: /Stopped the server/ });
    leaveRecord(home, state);
    t.match(await home.serve('stop'), { code: 0, stderr: /ended unexpectedly/ });
  }
});

t.test('a start that waits for a server elsewhere ends on the first Ctrl-C', async (t) => {
  const home = makeHome(t);
  leaveRecord(home, 'stopping');
  writeFileSync(recordLock(home.places.record), JSON.stringify({ ...await ownIdentity(), machine: elsewhere.machine }));
  const starting = start(['serve', 'start', 'builtin'], { env: home.env });
  await starting.saw(/is stopping; waiting/);
  starting.child.kill('SIGINT');
  t.match(await starting.ended, { code: 130, stderr: /Stopped waiting/ });
  t.match(await home.serve('stop'), { code: 1, stderr: /another machine or in another container/ });
});

t.test('a server that runs without its state file is not called stopped', async (t) => {
  const home = makeHome(t);
  t.match(await home.serve('start', 'builtin', '--port', '0', '--threads', '1'), { code: 0 });
  const text = readFileSync(home.places.record, 'utf8');
  const still = new RegExp(`process ${home.record().identity.pid} still runs, but its state file .* is missing or damaged`);
  for (const damage of [() => rmSync(home.places.record), () => writeFileSync(home.places.record, text.slice(0, 100))]) {
    damage();
    t.match(await home.serve('status'), { code: 4, stdout: /^State +crashed$/m, stderr: still });
    t.match(await home.serve('stop'), { code: 1, stderr: still });
    t.match(await home.serve('start', 'builtin'), { code: 1, stderr: still });
    t.match(await home.serve('restart'), { code: 1, stderr: still });
  }
  writeFileSync(home.places.record, text);
  t.match(await home.serve('stop'), { code: 0, stderr: /Stopped the server/ });
  t.match(await home.serve('status'), { code: 3 });
});
