// With a small address space (`ulimit -v`), a model either does not load and says why, or answers
// as many requests as it takes at once.
import t from 'tap';
import { readFileSync } from 'node:fs';
import { recua, start } from './recua.js';

const { platform } = process;
const command = ['api', 'builtin', '--port', '0', '--gpu-layers', '0', '-np', '4'];

/** Address space of the engine process after the load, before any request. */
async function sizeKib(): Promise<number> {
  const running = start(command);
  await running.saw(/Recua listens/);
  const { pid } = running.child;
  const [engine] = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ');
  const size = Number(/^VmSize:\s+(\d+)/m.exec(readFileSync(`/proc/${engine}/status`, 'utf8'))![1]);
  running.child.kill('SIGTERM');
  await running.ended;
  return size;
}

async function ask(url: string, route: string, body: object): Promise<number> {
  const response = await fetch(`${url}/v1/${route}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ model: 'builtin', ...body }) });
  await response.text();
  return response.status;
}

t.test('a model that loads in a small address space survives all requests at once', { skip: platform !== 'linux' && 'needs /proc and ulimit -v' }, async (t) => {
  const size = await sizeKib();
  let refused = 0;
  let served = 0;
  for (const more of [-100, 40, 120, 200, 400, 700]) {
    const running = start(command, { addressKib: size + more * 1024 });
    t.teardown(() => running.child.kill('SIGKILL'));
    const url = await running.saw(/Recua listens on (\S+)/).then(([, url]) => url!, () => undefined);
    if (url === undefined) {
      refused++;
      t.match((await running.ended).stderr, /too little memory|could not|failed to allocate|out of memory|\bOOM\b|bad_alloc/i, `${more} MiB more: it says why`);
      continue;
    }
    served++;
    const chat = { messages: [{ role: 'user', content: 'Tell me a long story.' }], max_tokens: 100 };
    const answers = await Promise.all([...Array.from({ length: 4 }, () => ask(url, 'chat/completions', chat)), ask(url, 'embeddings', { input: 'hi' })]);
    t.same(answers.slice(0, 4), [200, 200, 200, 200], `${more} MiB more`);
    running.child.kill('SIGTERM');
    t.notMatch((await running.ended).stderr, /process died/);
  }
  t.ok(refused > 0 && served > 0, `${refused} refused, ${served} served`);
});

t.test('an address space too small for the addon is told apart from a missing addon', { skip: platform !== 'linux' && 'needs ulimit -v' }, async (t) => {
  const { code, stderr } = await recua(['run', 'builtin', '-p', 'Hi'], '', { addressKib: 1_000_000 });
  t.equal(code, 1);
  t.match(stderr, /found none that loads\.\n[^]*This process may take no more memory or threads: `ulimit -a` shows its limits\.\n/);
  t.notMatch(stderr, /setup/);
});
