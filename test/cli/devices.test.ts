// Devices on the command line: the CPU of this machine, and a fake GPU
// (test/native/fake-backend.cpp) with llama.cpp's own offloading.
import t from 'tap';
import type { Test } from 'tap';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { realpathSync } from 'node:fs';
import { join } from 'node:path';
import { fakeBackend } from '../native/fake-backend.js';
import type { FakeKind } from '../native/fake-backend.js';
import { base, basePackage, flatLayout } from '../native/installed.js';
import { makeHome } from './home.js';
import { recua, root } from './recua.js';
import type { Result } from './recua.js';

const skip = process.platform !== 'linux';
const greedy = ['--temp', '0', '-c', '512', '--threads', '1', '-n', '8'];

interface Installed {
  main: string;
  run(...args: string[]): Promise<Result>;
}

/** Recua with a GPU package and its own home. */
function install(t: Test, kind: FakeKind): Installed {
  const { env } = makeHome(t);
  const folder = flatLayout(realpathSync(t.testdir()), [basePackage, { name: `${base}-fake`, backend: 'fake', library: fakeBackend(kind) }]);
  const main = join(folder, 'dist', 'cli', 'main.js');
  return {
    main,
    async run(...args) {
      const child = spawn(process.execPath, [main, ...args], { env: { ...process.env, RECUA_ADDON: '', ...env }, cwd: root, stdio: ['ignore', 'pipe', 'pipe'] });
      const result: Result = { code: null, signal: null, stdout: '', stderr: '' };
      child.stdout.setEncoding('utf8').on('data', (text: string) => (result.stdout += text));
      child.stderr.setEncoding('utf8').on('data', (text: string) => (result.stderr += text));
      const [code, signal] = await once(child, 'close') as [number | null, NodeJS.Signals | null];
      return { ...result, code, signal };
    },
  };
}

const plain = recua(['run', 'builtin', '-p', 'Hello', '-q', ...greedy]);

t.test('--list-devices prints a table or JSON, and needs no model', async (t) => {
  const table = await recua(['run', '--list-devices']);
  t.match(table, { code: 0, stderr: '', stdout: /^NAME +KIND +MEMORY +FREE +DESCRIPTION\nCPU +cpu +[\d.]+ GiB/ });
  for (const command of [['run'], ['chat'], ['api'], ['serve', 'start']]) {
    const { code, stdout } = await recua([...command, '--list-devices', '--json']);
    t.equal(code, 0);
    const listed = JSON.parse(stdout) as { devices: { memory_total_bytes: number; memory_free_bytes: number }[] };
    t.match(listed, { devices: [{ name: 'CPU', kind: 'cpu', backend: 'CPU', memory_total_bytes: Number, memory_free_bytes: Number }], skipped: [] });
    t.ok(listed.devices[0]!.memory_free_bytes < listed.devices[0]!.memory_total_bytes, 'other programs take some');
  }
});

t.test('without a GPU, flags that ask for one say so', async (t) => {
  t.match(await recua(['run', 'builtin', '-p', 'Hello', '--require-gpu', ...greedy]), { code: 1, stdout: '', stderr: /A GPU is required \(--require-gpu\), but none would compute: No GPU backend is installed; the devices are: CPU/ });
  t.match(await recua(['api', 'builtin', '--port', '0'], '', { env: { RECUA_REQUIRE_GPU: '1' } }), { code: 1, stderr: /A GPU is required/ });
  t.match(await recua(['run', 'builtin', '-p', 'Hello', '--device', 'cuda0', ...greedy]), { code: 1, stdout: '', stderr: /There is no device "cuda0"\. This machine has only: CPU \([^]*--device none/ });
  t.match(await recua(['run', 'builtin', '-p', 'Hello', '-ngl', '3', ...greedy]), { code: 0, stderr: /Layers were to go to a GPU \(3\)/, stdout: (await plain).stdout });
  t.match(await recua(['run', 'builtin', '-p', 'Hello', '-ngl', 'many']), { code: 2, stderr: /Expected a whole number from -1 to 100000, or one of auto, all, for --gpu-layers, got "many"/ });
});

t.test('a GPU is used on request, and the answer is the same', { skip }, async (t) => {
  const { run } = install(t, { devices: 1 });
  const used = await run('run', 'builtin', '-p', 'Hello', ...greedy, '--require-gpu');
  t.match(used, { code: 0, stdout: (await plain).stdout });
  t.notMatch(used.stderr, /Note|warn/);
  t.match(await run('run', 'builtin', '-p', 'Hello', ...greedy, '--device', 'none'), { code: 0, stdout: (await plain).stdout });
  t.match(await run('run', 'builtin', '-p', 'Hello', ...greedy), { code: 0, stdout: (await plain).stdout, stderr: /-fake is installed but not used, since --gpu-layers is 0/ });
  t.match(await run('run', 'builtin', '-p', 'Hello', ...greedy, '--device', 'Fake7'), { code: 1, stderr: /no device "Fake7"\. This machine has only: CPU \(.*\), FAKE0 \(A GPU that is none\)/ });
  t.match(await run('chat', '--list-devices'), { code: 0, stdout: /\nFAKE0 +gpu +8\.00 GiB +8\.00 GiB +A GPU that is none\n/ });
});

t.test('a server reports where it computes: at its start, as a model, in its status', { skip }, async (t) => {
  const { run } = install(t, { devices: 2 });
  const started = await run('serve', 'start', 'builtin', '--port', '0', '--device', 'fake1', '-ngl', '2', '-c', '256', '-fa', 'off', '--log-level', 'debug');
  t.equal(started.code, 0, started.stderr);
  const status = JSON.parse((await run('serve', 'status', '--json')).stdout) as { url: string; offload: { total_layers: number } };
  t.match(status.offload, { devices: ['FAKE1'], layers: 2, total_layers: Number });
  const total = status.offload.total_layers;
  t.match((await run('serve', 'status')).stdout, new RegExp(`\\nDevice +FAKE1 \\(2 of ${total} layers\\)\\n`));
  const models = await (await fetch(`${status.url}/v1/models`)).json() as { data: { meta: object }[] };
  t.match(models.data[0]?.meta, { devices: ['FAKE1'], device_memory_bytes: 2 ** 20, n_gpu_layers: 2, n_layers: total });
  t.match((await run('ps')).stdout, new RegExp(`FAKE1 \\(2 of ${total} layers, 1.00 MiB\\)`));
  t.match(await (await fetch(`${status.url}/metrics`)).text(), /^recua_model_device_memory_bytes\{model="builtin"\} 1048576$/m);
  const { stdout: log } = await run('serve', 'logs', '-n', '10000');
  t.match(log, new RegExp(`Computes on FAKE1 \\(A GPU that is none\\): 2 of ${total} layers`));
  t.match(log, /using device FAKE1 /, 'llama.cpp says the same');
  t.notMatch(log, /using device FAKE0 /);
  t.match(log, new RegExp(`offloaded 2/${total} layers to GPU`));
  t.match((await run('serve', 'stop')).code, 0);
});

t.test('auto takes as many layers as fit, and says how many', { skip }, async (t) => {
  const { run } = install(t, { devices: 1, memoryMib: 1 });
  t.match(await run('run', 'builtin', '-p', 'Hello', ...greedy, '-ngl', 'auto'), { code: 0, stdout: (await plain).stdout, stderr: /Note: FAKE0 \(A GPU that is none\): no layer fits into the free memory/ });
  t.match(await run('run', 'builtin', '-p', 'Hello', ...greedy, '--require-gpu'), { code: 1, stderr: /A GPU is required.*no layer fits/ });
  t.match(await run('run', 'builtin', '-p', 'Hello', ...greedy, '-ngl', 'all'), { code: 1, stdout: '', stderr: /: \d+ of \d+ layers do not fit into the memory of FAKE0 \(A GPU that is none\):\n {2}weights +[\d.]+ MiB\n {2}context .*\n {2}computing .*\n {2}together +[\d.]+ MiB, 1 MiB free\nA smaller --ctx-size/ });
});

t.test('a broken GPU backend gives a warning, and commands that need it fail with the reason', { skip }, async (t) => {
  const { run } = install(t, { fault: 'abort' });
  const told = /The fake backend \(@recua\/\S+-fake\) is not used: loading it ended the process \(signal SIGABRT\): fake driver: no such device, giving up\./;
  t.match(await run('run', 'builtin', '-p', 'Hello', ...greedy, '-ngl', 'auto'), { code: 0, stdout: (await plain).stdout, stderr: told });
  t.match(await run('run', 'builtin', '-p', 'Hello', ...greedy, '--require-gpu'), { code: 1, stdout: '', stderr: told });
  const without = await run('run', 'builtin', '-p', 'Hello', ...greedy, '--device', 'none');
  t.match(without, { code: 0, stdout: (await plain).stdout });
  t.notMatch(without.stderr, told, 'nobody asked for it');
  t.match(await run('api', '--list-devices'), { code: 0, stdout: /^NAME[^\n]*\nCPU[^\n]*\n$/, stderr: /The fake backend is not used: loading it ended/ });
});
