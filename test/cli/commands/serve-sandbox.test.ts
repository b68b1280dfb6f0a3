// The bounds that `recua serve install` puts into a unit. No test can use systemd's user manager,
// so a stand-in program sets them with namespaces: files are read-only except in the named folders,
// and /tmp is private.
import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { tmpdir } from 'node:os';
import t, { type Test } from 'tap';
import { plainBounds } from '#recua/cli/serve/sandbox.js';
import { afterDrainSeconds } from '#recua/settings/stop-time.js';
import { builtinPath } from '#recua/models/store.js';
import { recua } from '../recua.js';

const hasNamespaces = process.platform === 'linux' && spawnSync('unshare', ['-Urm', 'sh', '-c', 'mount -t tmpfs none /var/tmp && mount -o remount,bind,ro /']).status === 0;
/** A private /tmp would hide such a checkout, so its units have none. */
const isTemporary = /^\/(var\/)?tmp\//.test(`${process.cwd()}/`);
const needs = { skip: hasNamespaces ? false : 'needs namespaces for users' };

const standIn = `
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
const args = process.argv.slice(2);
const command = args.slice(args.indexOf('--') + 1);
const of = (name) => args.filter((one) => one.startsWith('--' + name + '=')).map((one) => one.slice(name.length + 3));
const bounds = Object.fromEntries(of('property').map((one) => one.split(/=(.*)/s)));
const words = (text) => Array.from((text ?? '').matchAll(/"((?:[^"\\\\]|\\\\.)*)"|(\\S+)/g), ([, quoted, plain]) => plain ?? quoted.replace(/\\\\(.)/g, '$1'));
const paths = words(bounds.ReadWritePaths).filter((path) => !path.startsWith('-') || existsSync(path.slice(1))).map((path) => path.replace(/^-/, ''));
const steps = [...paths.map((path) => ['mount', '--rbind', path, path]), ...(bounds.ProtectSystem === 'strict' ? [['mount', '-o', 'remount,bind,ro', '/']] : []),
  ...(bounds.PrivateTmp === 'true' ? [['mount', '-t', 'tmpfs', 'none', '/tmp'], ['mount', '-t', 'tmpfs', 'none', '/var/tmp']] : [])];
const quoted = (word) => "'" + word.replaceAll("'", "'\\\\''") + "'";
const script = [...steps.map((step) => step.map(quoted).join(' ') + ' || exit 226'), 'exec ' + command.map(quoted).join(' ')].join('\\n');
const env = { ...process.env, ...Object.fromEntries(of('setenv').map((one) => one.split(/=(.*)/s))) };
process.exit(spawnSync('unshare', ['-Urm', 'sh', '-c', script], { stdio: 'inherit', env }).status ?? 1);
`;

/** Beside the checkout, which is visible with a private /tmp, too. */
function folderOf(t: Test, at = process.cwd()): string {
  const folder = mkdtempSync(join(at, '.sandbox test %d-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

function withManager(folder: string, text: string, answers = true): Record<string, string> {
  const bin = join(folder, 'bin');
  mkdirSync(bin);
  const isShell = text.startsWith('#!');
  writeFileSync(join(bin, 'systemd-run'), isShell ? text : `#!/bin/sh\nexec '${process.execPath}' "$0.mjs" "$@"\n`);
  if (!isShell) writeFileSync(join(bin, 'systemd-run.mjs'), text);
  chmodSync(join(bin, 'systemd-run'), 0o755);
  writeFileSync(join(bin, 'systemctl'), `#!/bin/sh\nexit ${answers ? 0 : 1}\n`, { mode: 0o755 });
  mkdirSync(join(folder, 'run'), { mode: 0o700 });
  return { PATH: `${bin}${delimiter}${process.env['PATH']}`, SERVICE_HOME: join(folder, 'home'), XDG_CONFIG_HOME: join(folder, 'config'), XDG_RUNTIME_DIR: join(folder, 'run'), HOME: folder, NODE_OPTIONS: '' };
}

/** The only child of the stand-in, which has become the server. */
const childOf = (pid: number): number | undefined => Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ')[0]) || undefined;

const lineOf = (unit: string, name: string): string | undefined => new RegExp(`^${name}=(.*)$`, 'm').exec(unit)?.[1]?.replaceAll('%%', '%');
/** Where the server may write. A dash lets the service start without the folder. */
const pathsOf = (unit: string): string[] => wordsOf(lineOf(unit, 'ReadWritePaths')!).map((word) => word.replace(/^-/, ''));
const wordsOf = (line: string): string[] => Array.from(line.matchAll(/"([^"]*)"|(\S+)/g), ([, quoted, plain]) => plain ?? quoted!);

t.test('with user namespaces, the server can write only to its own folders, and works', isTemporary ? { skip: 'needs a checkout outside /tmp' } : needs, async (t) => {
  const folder = folderOf(t);
  const env = withManager(folder, standIn);
  for (const name of ['slots', '.nv']) mkdirSync(join(folder, name));
  const { code, stdout, stderr } = await recua(['serve', 'install', 'builtin', '--port', '0', '--threads', '1', '--slot-save-path', join(folder, 'slots'), '--log-file', join(folder, 'logs', 'a.log'), '--cache-disk', '64', '--print'], '', { env });
  t.equal(code, 0, stderr);
  const own = [join(folder, 'home', 'hub'), join(folder, 'home', 'sessions'), join(folder, 'logs')];
  t.match(stderr, `Note: create these folders before the service starts: ${own.map((one) => `'${one}'`).join(' ')}`);
  for (const one of own) mkdirSync(one, { recursive: true });
  t.equal(lineOf(stdout, 'ProtectSystem'), 'strict');
  t.equal(lineOf(stdout, 'PrivateTmp'), 'true');
  const writable = pathsOf(stdout);
  const caches = ['.nv', '.cache/mesa_shader_cache', '.cache/nvidia'].map((name) => join(folder, name));
  t.strictSame(writable.sort(), [...['hub', 'recua', 'sessions'].map((name) => join(folder, 'home', name)), join(folder, 'slots'), join(folder, 'logs'), join(folder, 'run'), ...caches].sort());
  t.notMatch(stdout, /MemoryDenyWriteExecute|PrivateDevices|DevicePolicy|ProtectClock/, 'V8 writes code, and GPUs are devices');

  const verified = join(folder, 'recua.service');
  writeFileSync(verified, stdout);
  const checked = spawnSync('systemd-analyze', ['verify', '--user', '--man=no', verified], { encoding: 'utf8', env: { ...process.env, XDG_RUNTIME_DIR: env['XDG_RUNTIME_DIR'] } });
  if (!checked.error) t.notMatch(checked.stderr, /recua\.service:\d+|Unknown/);

  rmSync(join(folder, '.nv'), { recursive: true });
  const bounds = ['ProtectSystem', 'ReadWritePaths', 'PrivateTmp'].map((name) => `--property=${name}=${lineOf(stdout, name)!}`);
  const within = (...command: string[]) => [join(folder, 'bin', 'systemd-run'), [...bounds, '--', ...command]] as const;
  t.not(spawnSync(...within('touch', join(folder, 'elsewhere'))).status, 0, 'the bounds hold');
  t.notOk(existsSync(join(folder, 'elsewhere')));
  // tap's module would write beside the tests when the server ends.
  const server = spawn(...within('env', '-u', 'NODE_OPTIONS', ...wordsOf(lineOf(stdout, 'ExecStart')!)), { env: { ...process.env, ...env } });
  t.teardown(() => {
    const left = server.exitCode === null ? childOf(server.pid!) : undefined;
    if (left) process.kill(left, 'SIGKILL');
  });
  let said = '';
  const url = await new Promise<string>((resolve, reject) => {
    server.stderr.setEncoding('utf8').on('data', (text: string) => {
      said += text;
      const found = /listens on (http:\S+)/.exec(said);
      if (found) resolve(found[1]!);
    });
    server.once('close', () => reject(new Error(said)));
  });
  const post = async (path: string, body: object): Promise<number> => (await fetch(url + path, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })).status;
  t.equal(await post('/v1/chat/completions', { messages: [{ role: 'user', content: 'Hello' }], max_tokens: 8 }), 200);
  t.equal(await post('/v1/responses', { input: 'Hello', max_output_tokens: 8 }), 200);
  t.equal(await post('/slots/0?action=save', { filename: 'one' }), 200);
  t.equal((await fetch(`${url}/v1/files`, { method: 'POST', body: (() => { const form = new FormData(); form.set('purpose', 'batch'); form.set('file', new Blob(['{}']), 'a.jsonl'); return form; })() })).status, 200);
  const { stdout: listed } = await recua(['ps'], '', { env });
  t.match(listed, /builtin/, 'commands outside find it');
  process.kill(childOf(server.pid!)!, 'SIGTERM');
  await new Promise((resolve) => server.once('close', resolve));
  t.notMatch(said + readFileSync(join(folder, 'logs', 'a.log'), 'utf8'), /EROFS|read-only|cannot be written|is not stored|not find this server/i, 'nothing that it writes is out of bounds');
});

t.test('the system unit in docs/deployment.md is valid, and confines more', { skip: process.platform === 'linux' ? false : 'needs Linux' }, (t) => {
  const page = readFileSync(new URL('../../../docs/deployment.md', import.meta.url), 'utf8');
  const [, text = ''] = /```ini\n(# \/etc\/systemd\/system\/recua\.service\n[^]*?)```/.exec(page) ?? [];
  const path = join(t.testdir(), 'recua.service');
  writeFileSync(path, text.replace('/usr/bin/recua', process.execPath));
  const checked = spawnSync('systemd-analyze', ['verify', '--man=no', path], { encoding: 'utf8' });
  if (!checked.error) t.notMatch(checked.stderr, /recua\.service:\d+|Unknown|Failed to parse/);
  for (const [name, ...words] of plainBounds) t.equal(lineOf(text, name), words.join(' '));
  const drain = Number(/--drain-timeout (\d+)/.exec(text)![1]);
  t.equal(lineOf(text, 'TimeoutStopSec'), String(drain + afterDrainSeconds));
  t.notMatch(text, /^(MemoryDenyWriteExecute|PrivateDevices|DevicePolicy|ProtectClock)=/m);
  t.end();
});

t.test('files in the common temporary folder stay visible to the server', needs, async (t) => {
  const folder = folderOf(t, tmpdir());
  const env = withManager(folder, standIn);
  const { code, stdout, stderr } = await recua(['serve', 'install', 'builtin', '--host', `unix:${join(folder, 'a.sock')}`, '--print'], '', { env });
  t.equal(code, 0, stderr);
  t.equal(lineOf(stdout, 'PrivateTmp'), undefined);
  t.ok(['/tmp', '/var/tmp', folder].every((path) => pathsOf(stdout).includes(path)));
});

t.test('so do those that only the models file names', isTemporary ? { skip: 'needs a checkout outside /tmp' } : needs, async (t) => {
  const [folder, other] = [folderOf(t), folderOf(t, tmpdir())];
  copyFileSync(builtinPath, join(other, 'mine.gguf'));
  writeFileSync(join(other, 'a.jinja'), '{{ messages }}');
  const env = withManager(folder, standIn);
  const models = join(folder, 'models.json');
  for (const [own, isHidden] of [[{ model: join(other, 'mine.gguf') }, false], [{ model: 'builtin', template: join(other, 'a.jinja') }, false], [{ model: 'builtin' }, true]] as const) {
    writeFileSync(models, JSON.stringify({ models: { own } }));
    const { code, stdout, stderr } = await recua(['serve', 'install', '--models', models, '--print'], '', { env });
    t.equal(code, 0, stderr);
    t.equal(lineOf(stdout, 'PrivateTmp'), isHidden ? 'true' : undefined, JSON.stringify(own));
  }
});

t.test('if the manager cannot set file bounds, or they hide a device, the unit has none, and that is reported', { skip: process.platform === 'linux' ? false : 'needs Linux' }, async (t) => {
  const hides = `#!/bin/sh\necho '{"devices": [], "skipped": []}'\n`;
  for (const [why, text] of [['it fails', '#!/bin/sh\nexit 226\n'], ['it hides devices', hides]] as const) {
    const { code, stdout, stderr } = await recua(['serve', 'install', 'builtin', '--print'], '', { env: withManager(folderOf(t), text) });
    t.equal(code, 0, why);
    t.notMatch(stdout, /ProtectSystem|ReadWritePaths|PrivateTmp/);
    t.match(stdout, /^NoNewPrivileges=true\nRestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK\n/m);
    t.match(stderr, /will be able to write to all your files, because systemd on this machine cannot restrict user services/);
  }
});

t.test('where no systemd runs for the user, install says that its commands will fail', { skip: process.platform === 'linux' ? false : 'needs Linux' }, async (t) => {
  const { code, stderr } = await recua(['serve', 'install', 'builtin', '--print'], '', { env: withManager(folderOf(t), '#!/bin/sh\nexit 1\n', false) });
  t.equal(code, 0);
  t.match(stderr, /^Warning: no systemd answers for this user, so systemctl --user will fail here\..*docs\/deployment\.md\.$/m);
  t.notMatch(stderr, /cannot restrict user services/);
});
