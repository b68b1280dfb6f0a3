// The end of a process with the addon and a backend library: JavaScript decides the exit code, and
// no signal ends it.
import t from 'tap';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { fakeBackend } from './fake-backend.js';

const skip = process.platform !== 'linux';
const rounds = Number(process.env['RECUA_EXIT_ROUNDS'] ?? 3);
/**
 * The library is built against the build's ggml, so the build's addon loads it, whichever addon is
 * tested. It has no other GPU.
 */
const env = { ...process.env, RECUA_ADDON: '', TEST_GPU_LAYERS: '' };
const setup = JSON.stringify(new URL('./setup.js', import.meta.url).href);

const body = (ending: string): string => `
  const { builtin, contextOptions, step, addon } = await import(${setup});
  addon.loadBackend(${JSON.stringify(fakeBackend({ devices: 1 }))});
  const load = () => addon.loadModel({ path: builtin, gpuLayers: -1, devices: ['FAKE0'], mmap: true, mlock: false });
  const model = await load().promise;
  const context = await model.createContext(contextOptions());
  const sampler = await model.createSampler({ temperature: 0 }, new Int32Array());
  const tokens = await model.tokenize('word '.repeat(80), true, true);
  const once = () => step(context, [{ sequence: 0, from: 0, tokens, sampler }]);
  ${ending}`;

t.test('a process with a loaded backend ends with its own exit code, whatever it is doing', { skip }, (t) => {
  const endings: [ending: string, code: number][] = [
    ['', 0], ['await once()', 0], ['await once(); await context.close(); await model.close()', 0],
    ['process.exit(0)', 0], ['void once(); process.exit(7)', 7], ['void once(); setTimeout(() => process.exit(0), 2)', 0],
    ['void load().promise; process.exit(0)', 0], ['void load().promise; setImmediate(() => process.exit(0))', 0],
    ['throw new Error("mine")', 1], ['void once(); setTimeout(() => { throw new Error("mine") }, 2)', 1], ['void once(); void Promise.reject(new Error("mine"))', 1],
    ['void model.close(); process.exit(0)', 0], ['process.on("exit", () => { process.exitCode = 3; }); void once()', 3],
  ];
  for (let round = 0; round < rounds; round++) {
    for (const [ending, code] of endings) {
      const { status, signal, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', body(ending)], { encoding: 'utf8', env });
      t.equal(status, code, `${ending || 'falls off the end'}: signal ${signal} ${stderr.slice(-300)}`);
      if (code === 1) t.match(stderr, /Error: mine/);
    }
  }
  t.end();
});

t.test('SIGINT ends a process that handles it with its exit code, and any other by the signal', { skip }, async (t) => {
  for (let round = 0; round < rounds; round++) {
    for (const [handler, expected] of [['process.on("SIGINT", () => process.exit(130));', '130'], ['', 'SIGINT']] as const) {
      const child = spawn(process.execPath, ['--input-type=module', '-e', body(`${handler} console.log('ready'); for (;;) { await once(); await context.removeSequence(0, 0, -1); }`)], { env, stdio: ['ignore', 'pipe', 'pipe'] });
      let stderr = '';
      child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
      const closed = once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>;
      await Promise.race([once(child.stdout, 'data'), closed]);
      child.kill('SIGINT');
      const [code, signal] = await closed;
      t.equal(`${signal ?? code}`, expected, stderr);
    }
  }
});
