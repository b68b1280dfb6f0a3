import t from 'tap';
import { spawnSync } from 'node:child_process';
import { mkdirSync, realpathSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fakeBackend } from '../../native/fake-backend.js';
import { base, basePackage, flatLayout, ownVersion } from '../../native/installed.js';
import { packagedAddon } from '../../engine/proof/faulty.js';
import { makeHome } from '../home.js';
import { recua, root } from '../recua.js';

/** Runs the doctor of another installation. */
function doctor(folder: string, env: Record<string, string>, ...args: string[]): { status: number | null; stdout: string; stderr: string } {
  return spawnSync(process.execPath, [join(folder, 'dist', 'cli', 'main.js'), 'doctor', ...args], { encoding: 'utf8', cwd: root, env: { ...process.env, RECUA_ADDON: '', ...env } });
}

t.test('doctor reports what it finds, and exits 0 if all is well', async (t) => {
  const { env, folder } = makeHome(t);
  const { code, stdout, stderr } = await recua(['doctor'], '', { env });
  t.equal(code, 0, stdout + stderr);
  for (const line of [
    new RegExp(`^Recua +${ownVersion} in ${root.replace(/\/$/, '')}$`, 'm'), /^Node +v\d+.*(linux|darwin|win32)-\w+/m, /^llama\.cpp +v\d[\d.]+$/m, /^Addon +\S.*recua\.node \(built here, backends compiled in\)$/m,
    /^Backend +CPU: \w/m, /^Processor +libggml-cpu\.\w+ passed its test \(\d\d families of kernels in \d+ ms\)$/m, /^Device +CPU: .* GiB free$/m, /^Graphics +\S/m, new RegExp(`^Model store +${folder}/models/hub \\(not made yet\\), writable, .* free$`, 'm'),
    new RegExp(`^Config file +${folder}/config/recua/config\\.json: there is none, so the defaults apply$`, 'm'), /^recua serve +not running$/m,
  ]) t.match(stdout, line);
  t.match(stdout, /(Nothing is wrong\.|Recua can work\.)\n$/);
  t.equal(stderr, '');
});

t.test('doctor tells a valid config file from a missing one', async (t) => {
  const { env, folder } = makeHome(t);
  mkdirSync(join(folder, 'config', 'recua'), { recursive: true });
  const path = join(folder, 'config', 'recua', 'config.json');
  writeFileSync(path, '{"port": 9000}');
  t.match((await recua(['doctor'], '', { env })).stdout, /config\.json: in order$/m);
  writeFileSync(path, '{"port": "abc", "run": {"temp": "hot"}}');
  const wrong = await recua(['doctor'], '', { env: { ...env, RECUA_THREADS: 'x' } });
  t.equal(wrong.code, 1);
  t.match(wrong.stdout, /config\.json: not in order$/m);
  for (const one of [/key "port": Expected a whole number .* got "abc"/, /section "run", key "temp": Expected a number .* got "hot"/, /variable RECUA_THREADS: Expected .* got "x"/]) {
    t.equal(wrong.stdout.match(new RegExp(one, 'g'))?.length, 1, String(one));
  }
});

t.test('doctor --json reports the same for programs', async (t) => {
  const { env } = makeHome(t);
  const { code, stdout } = await recua(['doctor', '--json'], '', { env });
  t.equal(code, 0);
  t.match(JSON.parse(stdout), {
    ok: true, version: ownVersion, node: process.versions.node, machine: { platform: process.platform, arch: process.arch },
    addon: { source: 'build', linked: true }, attempts: [], backends: [{ name: 'CPU', loaded: true, reason: null }], devices: [{ name: 'CPU' }],
    processor: { library: /ggml-cpu/, families: Number, checked: true, refused: [] },
    store: { exists: false, writable: true, free_bytes: Number }, config: { exists: false, error: null }, server: { state: 'stopped' }, findings: Array,
  });
  t.match(await recua(['doctor', 'now'], '', { env }), { code: 2, stderr: /Expected no argument/ });
});

t.test('doctor continues past anything broken, and exits 1', async (t) => {
  const { env, folder } = makeHome(t);
  mkdirSync(join(folder, 'config', 'recua'), { recursive: true });
  writeFileSync(join(folder, 'config', 'recua', 'config.json'), '{"prot": 1}');
  writeFileSync(join(folder, 'models'), 'a file where the store should be');
  const { code, stdout } = await recua(['doctor'], '', { env: { ...env, RECUA_ADDON: join(folder, 'none.node'), RECUA_GPU_LAYER: '3' } });
  t.equal(code, 1);
  t.match(stdout, /^Addon +none that loads$/m);
  t.match(stdout, /^Sandbox +not known without the addon$/m);
  t.match(stdout, /Recua cannot work until this is fixed\n/);
  t.match(stdout, /^- Expected the native addon of Recua.*\n {4}\S+none\.node: there is no such file\n {2}RECUA_ADDON names the file/m);
  t.match(stdout, /^- The model store \S+ cannot be written/m);
  t.match(stdout, /^- .*config\.json, key "prot": .*Did you mean port\?/m);
  const object = JSON.parse((await recua(['doctor', '--json'], '', { env: { ...env, RECUA_ADDON: join(folder, 'none.node') } })).stdout) as { findings: { level: string }[] };
  t.match(object, { ok: false, addon: null, devices: [], store: { writable: false }, config: { error: /prot/ } });
  t.equal(object.findings.filter(({ level }) => level === 'fatal').length, 2);
});

t.test('doctor names folders that cannot be written', async (t) => {
  const { env, folder } = makeHome(t);
  mkdirSync(join(folder, 'models'));
  writeFileSync(join(folder, 'models', 'recua'), 'a file where the state should be');
  writeFileSync(join(folder, 'models', 'sessions'), '');
  writeFileSync(join(folder, 'models', 'hub'), '');
  const { code, stdout } = await recua(['doctor'], '', { env });
  t.equal(code, 0);
  t.match(stdout, /^- The folder \S+models\/recua, for uploaded files, batches, kept responses and the background server, cannot be written/m);
  t.match(stdout, /^- The model store \S+models\/hub cannot be written, so models can neither be added nor removed\./m);
  t.match(stdout, /^- The folder \S+models\/sessions, for saved chats, cannot be written/m);
});

t.test('doctor reports a stray variable and a package of another version, which break nothing', async (t) => {
  const { env } = makeHome(t);
  const folder = flatLayout(realpathSync(t.testdir()), [basePackage, { name: `${base}-vulkan`, backend: 'vulkan', version: '0.0.1' }]);
  const { status, stdout } = doctor(folder, { ...env, RECUA_GPU_LAYER: '3' });
  t.equal(status, 0, stdout);
  t.match(stdout, /^Addon +\S.* \(from its package, backends compiled in\)$/m);
  t.match(stdout, new RegExp(`^Backend +vulkan from @recua/${base}-vulkan: not used, see below$`, 'm'));
  t.match(stdout, new RegExp(`^- The vulkan backend \\(@recua/${base}-vulkan\\) is not used: it is version 0\\.0\\.1, but this is Recua ${ownVersion}; \`npm install @recua/${base}-vulkan@${ownVersion}\``, 'm'));
  t.match(stdout, /^- RECUA_GPU_LAYER sets nothing\. Did you mean RECUA_GPU_LAYERS\?$/m);
  t.match(stdout, /\nRecua can work\.\n$/);
});

t.test('doctor tries GPU backends, and survives those that crash', { skip: process.platform !== 'linux' }, async (t) => {
  const { env } = makeHome(t);
  const packages = [basePackage, { name: `${base}-odd`, backend: 'odd', library: fakeBackend({ fault: 'abort' }) }, { name: `${base}-fake`, backend: 'fake', library: fakeBackend({ devices: 1 }) }];
  const { status, stdout } = doctor(flatLayout(realpathSync(t.testdir()), packages), env);
  t.equal(status, 0, stdout);
  t.match(stdout, /^Backend +FAKE from \S.*libggml-fake\.so$/m);
  t.match(stdout, /^Device +FAKE0: A GPU that is none, 8\.00 GiB, 8\.00 GiB free$/m);
  t.match(stdout, /^- The odd backend .* is not used: loading it ended the process \(signal SIGABRT\)/m);
});

t.test('doctor names a CPU library that computes wrong results, and says whether one is left', { skip: process.platform !== 'linux' }, async (t) => {
  const { env, folder } = makeHome(t);
  const RECUA_ADDON = packagedAddon(join(folder, 'bin'), [['best', 'q4_K', 9], ['good', 'none', 5]]);
  const { code, stdout } = await recua(['doctor'], '', { env: { ...env, RECUA_ADDON } });
  t.equal(code, 0, stdout);
  t.match(stdout, /^Processor +libggml-cpu-good\.so passed its test \(.*\); 1 not used, see below$/m);
  t.match(stdout, /^Backend +CPU from \S+libggml-cpu-good\.so/m);
  t.match(stdout, /^- Libggml-cpu-best\.so failed its test on this processor and is not used: products of q4_K weights: /im);
  t.match(await recua(['doctor'], '', { env: { ...env, RECUA_ADDON, RECUA_CPU_CHECK: 'off' } }), { code: 0, stdout: /^Processor +not checked: RECUA_CPU_CHECK=off$/m });

  const broken = packagedAddon(join(folder, 'other'), [['only', 'illegal', 9]]);
  const none = await recua(['doctor'], '', { env: { ...env, RECUA_ADDON: broken } });
  t.equal(none.code, 1);
  t.match(none.stdout, /^Processor +no CPU library could be checked, see below$/m);
  t.match(none.stdout, /^- Expected a CPU library that computes correctly on this processor, .*SIGILL/m);
});
