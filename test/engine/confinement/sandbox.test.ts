// What an engine process can do in its sandbox: a program that tries everything is started like an
// engine, and real engines are inspected from outside.
import t, { type Test } from 'tap';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { homedir, tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { confine, whatHolds } from '#recua/engine/confinement/launch.js';
import { launchArguments, rulesOf, suffices } from '#recua/engine/confinement/rules.js';
import { ownInstallation } from '#recua/system/installation.js';
import { turnFile } from '#recua/system/turn-file.js';
import { startEngine, type ClientSettings } from '#recua/engine/gateway/client.js';
import type { EngineOptions } from '#recua/engine/protocol.js';
import { builtinPath } from '#recua/models/store.js';
import { until } from '../../cli/home.js';
import { chat, options } from '../requests.js';

const attempts = fileURLToPath(new URL('attempts.js', import.meta.url));
const load: EngineOptions = { ...options, modelPath: builtinPath, contextSize: 256 };

/** What this kernel can enforce, or why there is nothing to test. */
const here = process.platform === 'linux' ? probe() : 'the sandbox is for Linux';

function probe(): { landlock: number } | string {
  const { program, arguments: words } = confine({ reads: [], writes: [], gpu: false }, false)!;
  const { stdout } = spawnSync(program, [...words, '-p', 'process.env.RECUA_CONFINED'], { encoding: 'utf8' });
  const landlock = Number(/landlock:(\d)/.exec(stdout)?.[1] ?? 0);
  return landlock === 0 ? `this kernel has no Landlock: ${stdout.trim()}` : { landlock };
}

const skip = typeof here === 'string' ? here : false;

/** A folder of the user that the engine cannot see. */
function home(t: Test): string {
  const folder = mkdtempSync(join(homedir(), '.recua-sandbox-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

function start(t: Test, more: Partial<EngineOptions>, settings: ClientSettings = {}) {
  const engine = startEngine({ ...load, ...more }, settings);
  t.teardown(() => engine.close(0));
  return engine;
}

/** The status of a process as the kernel reports it. */
function statusOf(pid: number): Record<string, string> {
  return Object.fromEntries(readFileSync(`/proc/${pid}/status`, 'utf8').split('\n').filter(Boolean).map((line) => line.split(/:\s*/) as [string, string]));
}

t.test('a confined process can read its model and write states, and every other attempt fails', { skip }, async (t) => {
  const folder = home(t);
  const model = join(folder, 'model.gguf');
  const secret = join(folder, 'secret');
  const writable = join(folder, 'states');
  mkdirSync(writable);
  copyFileSync(builtinPath, model);
  writeFileSync(secret, 'text');
  const socketPath = join(mkdtempSync(join(tmpdir(), 'recua-sandbox-')), 'socket');
  const servers = [createServer().listen(0, '127.0.0.1'), createServer().listen(socketPath)];
  t.teardown(() => servers.forEach((server) => server.close()));
  await Promise.all(servers.map((server) => once(server, 'listening')));
  const { port } = servers[0]!.address() as AddressInfo;

  const tried = async (command: string, words: string[]) => {
    for (const name of readdirSync(writable)) rmSync(join(writable, name), { recursive: true });
    const child = spawn(command, [...words, attempts, model, secret, writable, String(port), socketPath], { stdio: ['ignore', 'pipe', 'inherit'] });
    return JSON.parse((await child.stdout.toArray()).join('')) as { sandbox?: string; found: Record<string, string> };
  };
  const { program, arguments: words } = confine({ reads: [model], writes: [writable], gpu: false }, true)!;
  const { sandbox, found } = await tried(program, words);
  t.match(sandbox, /^landlock:\d,seccomp$/);
  const { readModel, writeState, folderOfStates, ...others } = found;
  t.strictSame({ readModel, writeState, folderOfStates }, { readModel: 'done', writeState: 'done', folderOfStates: 'done' });
  const { landlock } = here as { landlock: number };
  // Landlock blocks signals since version 6.
  if (landlock < 6) delete others['signalParent'];
  for (const [name, came] of Object.entries(others)) t.match(came, /^(EACCES|EPERM)$/, name);
  t.equal(found['shell'], 'EPERM', 'there is not even a process for it, which could outlive this one');

  const free = await tried(process.execPath, []);
  const { becomeAnother, ...attempted } = free.found;
  t.strictSame([...new Set(Object.values(attempted))], ['done'], 'without it all of these succeed');
  t.match(becomeAnother, /^(done|EPERM)$/);
});

t.test('an engine in the sandbox has none of the secrets in the environment', { skip }, async (t) => {
  const secrets = { RECUA_API_KEY: 'sesame', HF_TOKEN: 'hf_sesame', AWS_SECRET_ACCESS_KEY: 'sesame', NVIDIA_API_KEY: 'sesame', HTTPS_PROXY: 'http://user:sesame@proxy', DATABASE_URL: 'sesame' };
  const kept = { GGML_SESAME: 'seen', LC_ALL: 'C.UTF-8' };
  t.intercept(process, 'env', { value: { ...process.env, ...secrets, ...kept } });
  const engine = start(t, { sandbox: 'on' });
  await engine.ready();
  const own = readFileSync(`/proc/${engine.pid}/environ`, 'utf8').split('\0');
  t.notOk(own.some((one) => one.includes('sesame')));
  t.strictSame(own.filter((one) => /^GGML_SES|^LC_ALL/.test(one)).sort(), ['GGML_SESAME=seen', 'LC_ALL=C.UTF-8']);
  t.ok(own.some((one) => one.startsWith('PATH=')));
});

t.test('private keys in /etc are not readable in the sandbox', { skip }, (t) => {
  const { rules } = confine({ reads: [], writes: [], gpu: false }, true)!;
  for (const folder of ['/etc/ssl', '/etc/ssl/private', '/etc/pki', '/etc/pki/tls', '/etc/pki/tls/private']) t.notOk(rules.read.includes(folder), folder);
  t.end();
});

const tools = ['/usr/bin/prlimit', '/usr/bin/fallocate'];

t.test('a confined process can end no other by limits, nor by shortening the file that all engines map', { skip: skip || (!tools.every(existsSync) && 'this system lacks prlimit or fallocate') }, (t) => {
  const before = process.env['XDG_RUNTIME_DIR'];
  t.teardown(() => {
    if (before === undefined) delete process.env['XDG_RUNTIME_DIR'];
    else process.env['XDG_RUNTIME_DIR'] = before;
  });
  process.env['XDG_RUNTIME_DIR'] = home(t);
  const file = turnFile();
  writeFileSync(file, 'text');
  const { program, rules } = confine({ reads: [], writes: [], gpu: false }, true)!;
  const run = (...words: string[]): string => {
    const { stdout, stderr } = spawnSync(program, [...launchArguments({ ...rules, run: [...rules.run, ...tools] }), '--', ...words], { encoding: 'utf8' });
    return stdout + stderr;
  };
  const attempt = (code: string): string => run(process.execPath, '-e', `try { fs.${code}; } catch ({ code }) { console.log(code); }`);
  t.match(run('/usr/bin/prlimit', '--pid', String(process.pid), '--core=0'), /not permitted/, 'a limit of processor time would kill it');
  t.equal(attempt(`appendFileSync(${JSON.stringify(file)}, ' more')`), '');
  writeFileSync(`${file}-2`, '');
  utimesSync(`${file}-2`, 1, 1);
  const module = import.meta.resolve('#recua/system/turn-file.js');
  t.equal(run(process.execPath, '--input-type=module', '-e', `import { touch } from ${JSON.stringify(module)}; await touch(${JSON.stringify(file)});`), '');
  t.ok(statSync(`${file}-2`).mtimeMs > 1_000, 'but it may show that the file is in use');
  // Landlock blocks this since version 3.
  if (Number(/landlock:(\d+)/.exec(whatHolds())?.[1]) < 3) return t.end();
  t.equal(attempt(`truncateSync(${JSON.stringify(file)})`), 'EACCES\n');
  t.equal(attempt(`unlinkSync(${JSON.stringify(file)})`), 'EACCES\n');
  t.match(run('/usr/bin/fallocate', '--collapse-range', '--length', '4096', file), /not permitted/);
  t.equal(readFileSync(file, 'utf8'), 'text more');
  t.end();
});

t.test('a real engine answers in the sandbox, and saves its states in its folder and nowhere else', { skip }, async (t) => {
  const folder = home(t);
  const stateFolder = join(folder, 'states');
  const engine = start(t, {}, { stateFolder });
  await engine.ready();
  t.match(statusOf(engine.pid!), { NoNewPrivs: '1', Seccomp: '2' });
  t.equal(BigInt(`0x${statusOf(engine.pid!)['CapEff']!}`) & ~0x80400en, 0n, 'no powers of a superuser but over files, memory and processors');
  await engine.chat(chat('hi', { maxTokens: 2 })).finished;
  t.ok((await engine.saveState(join(stateFolder, 'one'))).tokens > 0);
  t.ok((await engine.restoreState(join(stateFolder, 'one'))).tokens > 0);
  await t.rejects(engine.saveState(join(folder, 'other')), { code: /./ });
  t.equal((await engine.chat(chat('hi', { maxTokens: 2 })).finished).usage.completionTokens, 2, 'it lives on');
});

t.test('an engine in the sandbox that is stuck ends with a program that is killed', { skip }, async (t) => {
  const source = `import { startEngine } from ${JSON.stringify(import.meta.resolve('#recua/engine/gateway/client.js'))};
    const engine = startEngine(${JSON.stringify(load)});
    await engine.ready();
    console.log(engine.pid);`;
  const program = spawn(process.execPath, ['--input-type=module', '-e', source], { stdio: ['ignore', 'pipe', 'inherit'] });
  const pid = Number(((await once(program.stdout, 'data')) as [Buffer])[0].toString());
  process.kill(pid, 'SIGSTOP');
  t.teardown(() => {
    try { process.kill(pid, 'SIGKILL'); } catch { /* It has ended. */ }
  });
  program.kill('SIGKILL');
  await until(() => !existsSync(`/proc/${pid}`) || statusOf(pid)['State']!.startsWith('Z'));
  t.pass('it has ended');
});

t.test('off disables the sandbox, and auto disables it for a GPU and for the program of a library user', { skip }, async (t) => {
  for (const [more, settings] of [[{ sandbox: 'off' }, {}], [{ gpuLayers: 'auto' }, {}], [{}, { autoSandbox: false }]] as [Partial<EngineOptions>, ClientSettings][]) {
    const engine = start(t, more, settings);
    await engine.ready();
    t.match(statusOf(engine.pid!), { NoNewPrivs: '0', Seccomp: '0' }, JSON.stringify([more, settings]));
  }
  const engine = start(t, { sandbox: 'on' }, { autoSandbox: false });
  await engine.ready();
  t.match(statusOf(engine.pid!), { NoNewPrivs: '1' });
});

function useAddon(t: Test, path: string): void {
  const before = process.env['RECUA_ADDON'];
  t.teardown(() => {
    if (before === undefined) delete process.env['RECUA_ADDON'];
    else process.env['RECUA_ADDON'] = before;
  });
  process.env['RECUA_ADDON'] = path;
}

t.test('a launcher that cannot be found for a moment leaves no engine without a sandbox', { skip: process.platform !== 'linux' && 'the sandbox is for Linux' }, (t) => {
  const folder = t.testdir({ 'recua.node': '', 'recua-launch': '' });
  const program = join(folder, 'recua-launch');
  chmodSync(program, 0o755);
  useAddon(t, join(folder, 'recua.node'));
  for (const there of [true, false]) {
    if (!there) rmSync(program);
    t.match(confine({ reads: [], writes: [], gpu: false }, false), { program });
  }
  t.end();
});

t.test('on without a launcher is refused with what to do', async (t) => {
  useAddon(t, join(t.testdir({ 'recua.node': '' }), 'recua.node'));
  const engine = start(t, { sandbox: 'on' });
  await t.rejects(engine.ready(), { code: 'sandbox_unavailable', message: /--sandbox on/ });
  t.equal(engine.state.state, 'failed');
  t.equal(confine({ reads: [], writes: [], gpu: false }, false), undefined, 'auto goes without');
});

t.test('a home outside of /home is not readable either', { skip }, (t) => {
  const read = (HOME: string): string[] => rulesOf({ reads: [], writes: [], gpu: false }, { ...process.env, HOME }).read;
  const system = readdirSync('/usr').filter((name) => name !== 'share').map((name) => `/usr/${name}`);
  t.ok(read('/').includes('/usr'));
  t.notOk(read('/usr/share').some((path) => path === '/usr' || path.startsWith('/usr/share')));
  t.ok(system.every((path) => read('/usr/share').includes(path)), 'all the rest of it is');
  const top = new Set([ownInstallation().root.slice(1), 'bin', 'etc', 'gnu', 'nix', 'opt', 'proc', 'run', 'sbin', 'snap', 'sys', 'usr']);
  const strange = readdirSync('/').filter((name) => !top.has(name) && !name.startsWith('lib')).map((name) => `/${name}`);
  t.strictSame(read('/home/me').filter((path) => strange.includes(path)), [], 'no other folder at the top is readable as a whole');
  t.end();
});

t.test('a process started with fewer rights does not serve a request for more', { skip }, (t) => {
  const folder = home(t);
  mkdirSync(join(folder, 'hub'));
  for (const name of ['a-00001-of-00002.gguf', 'a-00002-of-00002.gguf']) writeFileSync(join(folder, 'hub', name), '');
  const { rules } = confine({ reads: [join(folder, 'hub')], writes: [], gpu: false }, false)!;
  t.ok(suffices(rules, { reads: [join(folder, 'hub', 'a-00001-of-00002.gguf')], writes: [], gpu: false }));
  t.notOk(suffices(rules, { reads: [join(folder, 'other.gguf')], writes: [], gpu: false }));
  t.notOk(suffices(rules, { reads: [], writes: [folder], gpu: false }));
  t.notOk(suffices(rules, { reads: [], writes: [], gpu: true }));
  const { rules: split } = confine({ reads: [join(folder, 'hub', 'a-00001-of-00002.gguf')], writes: [], gpu: false }, false)!;
  t.ok(split.read.includes(join(folder, 'hub', 'a-00002-of-00002.gguf')), 'all parts of a split model');
  t.end();
});

const hidden = ['--mount', 'sh', '-c', 'mount -t tmpfs none /proc && exec "$@"', 'sh'];
const canHide = skip === false && spawnSync('unshare', [...hidden, 'true']).status === 0;

t.test('a sandbox starts Node where there is no /proc', { skip: skip || (!canHide && 'no mount namespaces here') }, (t) => {
  const program = `import { whatHolds } from ${JSON.stringify(import.meta.resolve('#recua/engine/confinement/launch.js'))}; console.log(whatHolds());`;
  // Without /proc, Node knows only this word.
  const PATH = `${dirname(process.execPath)}:${process.env['PATH']}`;
  const { stdout } = spawnSync('unshare', [...hidden, basename(process.execPath), '--input-type=module', '-e', program], { encoding: 'utf8', env: { ...process.env, PATH } });
  t.match(stdout, /^landlock:/);
  t.end();
});
