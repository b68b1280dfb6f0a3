// The engine process that is forked before its model is known, and how much a process logs: the
// real entry, with the real addon.
import t from 'tap';
import { startEngine } from '#recua/engine/gateway/client.js';
import { channelSocket, dropSpare, engineEntry, forkSpare, forkEngine } from '#recua/engine/gateway/spare-process.js';
import { builtinPath } from '#recua/models/store.js';
import { chat, options } from '../requests.js';

/** Waits until a child of this process has ended and Node knows it. */
async function gone(pid: number): Promise<void> {
  for (;;) {
    try {
      process.kill(pid, 0);
    } catch {
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

const load = { ...options, modelPath: builtinPath, contextSize: 256, sandbox: 'off' as const };

t.test('the spare process is given once, and loads and answers like any other', async (t) => {
  const pid = forkSpare(undefined);
  t.equal(forkSpare(undefined), pid, 'twice is once');
  const engine = startEngine(load);
  t.teardown(() => engine.close(0));
  // It may wait until the CPU library is proved.
  await engine.ready();
  t.equal(engine.pid, pid);
  const other = forkEngine(engineEntry, undefined);
  t.teardown(() => other.kill('SIGKILL'));
  t.not(other.pid, pid);
  t.match(await engine.ready(), { canGenerate: true });
  t.equal(engine.pid, pid, 'it has not been replaced');
  t.equal((await engine.chat(chat('hi', { maxTokens: 2 })).finished).usage.completionTokens, 2);
});

t.test('a spare that nobody takes is ended, and one that died is not given', async (t) => {
  const unused = forkSpare(undefined)!;
  dropSpare();
  await gone(unused);

  const dead = forkSpare(undefined)!;
  process.kill(dead, 'SIGKILL');
  await gone(dead);
  const given = forkEngine(engineEntry, undefined);
  t.teardown(() => given.kill('SIGKILL'));
  t.not(given.pid, dead);
  t.ok(channelSocket(given)?.writable);
});

t.test('a spare that does not suit the request is ended', async (t) => {
  const unfit = forkSpare({ reads: [], writes: [], gpu: false })!;
  const given = forkEngine(engineEntry, undefined);
  t.teardown(() => given.kill('SIGKILL'));
  t.not(given.pid, unfit);
  await gone(unfit);
});

t.test('an engine process sends no log line below the requested level', async (t) => {
  const linesOf = async (logLevel?: 'warn') => {
    const levels: string[] = [];
    const engine = startEngine(load, { log: (level) => levels.push(level), ...(logLevel ? { logLevel } : {}) });
    t.teardown(() => engine.close(0));
    await engine.ready();
    await engine.close();
    return levels;
  };
  const all = await linesOf();
  t.ok(all.filter((level) => level === 'debug').length > 20, 'llama.cpp tells of a load');
  // The last message of the process tells its parent that everything was sent.
  t.strictSame((await linesOf('warn')).filter((level) => level !== 'warn' && level !== 'error'), ['debug']);
});
