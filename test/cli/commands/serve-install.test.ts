// `recua serve install`: systemd's own checker reads the unit, and its command is started.
import { spawn, spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, lstatSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import t from 'tap';
import { launchdAgent, systemdUnit } from '#recua/cli/serve/service-file.js';
import { builtinPath } from '#recua/models/store.js';
import { recua } from '../recua.js';

const onLinux = { skip: process.platform === 'linux' ? false : 'needs Linux' };
const verify = (path: string, folder: string) => spawnSync('systemd-analyze', ['verify', '--user', '--man=no', path], { encoding: 'utf8', env: { ...process.env, XDG_RUNTIME_DIR: folder } });

/** Splits a line of quoted words as systemd does. */
function wordsOf(line: string): string[] {
  return Array.from(line.matchAll(/"((?:[^"\\]|\\.)*)"/g), ([, word]) => word!.replace(/\\(.)/g, (_, one: string) => (one === 'n' ? '\n' : one)).replaceAll('%%', '%').replaceAll('$$', () => '$'));
}

t.test('serve install writes a unit that starts the server with these models and flags', onLinux, async (t) => {
  const folder = join(t.testdir(), 'a b%c$d"e');
  mkdirSync(folder);
  copyFileSync(builtinPath, join(folder, 'my model.gguf'));
  writeFileSync(join(folder, 'keys'), 'a-secret-of-hers-0123\n');
  const env = { SERVICE_HOME: join(folder, 'home'), XDG_CONFIG_HOME: join(folder, 'config') };
  const path = join(env.XDG_CONFIG_HOME, 'systemd', 'user', 'recua.service');
  const install = (...words: string[]) => recua(['serve', 'install', './my model.gguf', '--port', '0', '--threads', '1', '--api-key-file', 'keys', ...words], '', { env, cwd: folder });
  const printed = await install('--print');
  t.match(printed, { code: 0, stdout: /^# Written by recua serve install/ });
  const written = await install();
  t.match(written, { code: 0, stderr: /systemctl --user enable --now recua/ });
  t.equal(readFileSync(path, 'utf8'), printed.stdout);
  t.equal(statSync(path).mode & 0o777, 0o600);
  const checked = verify(path, folder);
  if (!checked.error) t.notMatch(checked.stderr, /recua\.service:\d+|Unknown|not absolute/);
  t.match(await install(), { code: 0 }, 'the same again');
  t.match(await install('--parallel', '2'), { code: 1, stderr: /already exists.*--force/ });
  t.match(await install('--parallel', '2', '--force'), { code: 0, stderr: /^Replaced .*\n  systemctl --user daemon-reload\n  systemctl --user enable recua\n  systemctl --user restart recua\n/m });

  const unit = readFileSync(path, 'utf8');
  const [program, ...args] = wordsOf(/^ExecStart=(.*)$/m.exec(unit)![1]!);
  t.match(unit, 'TimeoutStopSec=45\n', 'the drain time, and what may come after it');
  t.ok(args.includes('--parallel=2') && args.includes(`--api-key-file=${join(folder, 'keys')}`));
  const variables = variablesOf(unit);
  t.equal(variables['SERVICE_HOME'], env.SERVICE_HOME);
  const server = spawn(program!, args, { cwd: /^WorkingDirectory=(.*)$/m.exec(unit)![1]!.replaceAll('%%', '%'), env: { ...process.env, ...variables } });
  let said = '';
  server.stderr.setEncoding('utf8').on('data', (text: string) => (said += text));
  const url = await new Promise<string>((resolve) => server.stderr.on('data', () => { const found = /listens on (http:\S+)/.exec(said); if (found) resolve(found[1]!); }));
  t.equal((await fetch(`${url}/v1/models`)).status, 401);
  t.equal((await fetch(`${url}/v1/models`, { headers: { authorization: 'Bearer a-secret-of-hers-0123' } })).status, 200);
  server.kill('SIGTERM');
  await new Promise((resolve) => server.once('close', resolve));

  const uninstall = () => recua(['serve', 'uninstall'], '', { env });
  const link = join(env.XDG_CONFIG_HOME, 'systemd', 'user', 'default.target.wants', 'recua.service');
  mkdirSync(dirname(link));
  symlinkSync(path, link);
  t.match(await uninstall(), { code: 0, stderr: /Removed .*recua\.service[^]*systemctl --user stop recua/ });
  t.same([path, link].filter((one) => lstatSync(one, { throwIfNoEntry: false })), [], 'it is no longer enabled');
  t.match(await uninstall(), { code: 0, stderr: /There is no / });
  writeFileSync(path, '[Unit]\nDescription=mine\n');
  writeFileSync(link, 'mine');
  t.match(await uninstall(), { code: 1, stderr: /recua\.service was not written by recua serve install\. If you do not need it, remove it yourself\./ });
  t.equal(readFileSync(path, 'utf8'), '[Unit]\nDescription=mine\n');
});

/** The variables that a unit sets. */
function variablesOf(unit: string): Record<string, string> {
  return Object.fromEntries([...unit.matchAll(/^Environment=(.*)$/gm)].map(([, line]) => wordsOf(line!)[0]!.split(/=(.*)/s).slice(0, 2) as [string, string]));
}

t.test('the unit gets the variables for folders, as absolute paths, and for the hub, but no secret', onLinux, async (t) => {
  const folder = t.testdir();
  const none = Object.fromEntries(['HF_HOME', 'HUB_HOME', 'XDG_CACHE_HOME', 'HTTP_PROXY', 'http_proxy', 'ALL_PROXY', 'all_proxy', 'no_proxy', 'https_proxy', 'HF_TOKEN'].map((name) => [name, '']));
  const env = {
    ...none, HOME: folder, SERVICE_HOME: '~/mine', HF_HUB_CACHE: '~/hub', HF_TOKEN_PATH: 'token', XDG_CONFIG_HOME: '~/config', XDG_DATA_HOME: 'data',
    HF_ENDPOINT: 'https://hub.example', HF_HUB_OFFLINE: '1', HUB_TOKEN: 'hf_open-sesame', HTTPS_PROXY: 'http://me:open-sesame@proxy:1', NO_PROXY: 'a.example,b.example',
  };
  const { code, stdout, stderr } = await recua(['serve', 'install', 'builtin', '--print'], '', { env, cwd: folder });
  t.equal(code, 0, stderr);
  const { NODE_EXTRA_CA_CERTS, RECUA_ADDON, ...variables } = variablesOf(stdout);
  t.strictSame(variables, {
    SERVICE_HOME: join(folder, 'mine'), HF_HUB_CACHE: join(folder, 'hub'), HF_TOKEN_PATH: join(folder, 'token'), XDG_CONFIG_HOME: join(folder, 'config'),
    HF_ENDPOINT: env.HF_ENDPOINT, HF_HUB_OFFLINE: '1', NO_PROXY: env.NO_PROXY,
  });
  t.notMatch(stdout + stderr, 'open-sesame');
  t.match(stderr, `Note: without HUB_TOKEN, HTTPS_PROXY, since secrets do not belong in such a file. The token for the hub can be in ${join(folder, 'token')}.`);
  t.strictSame(['hub', 'mine/sessions'].filter((one) => existsSync(join(folder, one))), [], '--print makes no folders');
});

t.test('the commands for launchd quote the path of the agent', async (t) => {
  const HOME = join(t.testdir(), "Ada's home");
  const asMac = `--import=data:text/javascript,Object.defineProperty(process,'platform',{value:'darwin'})`;
  const { code, stderr } = await recua(['serve', 'install', 'builtin'], '', { env: { HOME, NODE_OPTIONS: asMac } });
  t.equal(code, 0, stderr);
  t.match(stderr, `launchctl bootstrap gui/$(id -u) '${HOME.replace("'", `'\\''`)}/Library/LaunchAgents/com.recua.server.plist'\n`);
});

t.test('serve install names a folder that it cannot make', onLinux, async (t) => {
  const file = join(t.testdir({ file: '' }), 'file');
  const { code, stderr } = await recua(['serve', 'install', 'builtin'], '', { env: { SERVICE_HOME: join(file, 'home'), XDG_CONFIG_HOME: t.testdirName } });
  t.equal(code, 1);
  t.match(stderr, /^recua: The server's folder .*\/file\/home.* cannot be made: ENOTDIR/);
  t.notMatch(stderr, /    at /, 'without a stack');
});

t.test('serve install refuses a missing model, a key in plain sight and an unknown flag', onLinux, async (t) => {
  const env = { SERVICE_HOME: t.testdir(), XDG_CONFIG_HOME: t.testdirName };
  t.match(await recua(['serve', 'install', 'no-such-model'], '', { env }), { code: 1, stderr: /no-such-model/ });
  t.match(await recua(['serve', 'install', 'builtin', '--api-key', 'secret-0123456789'], '', { env }), { code: 2, stderr: /--api-key-file/ });
  t.match(await recua(['serve', 'install', '--no-such'], '', { env }), { code: 2 });
});

t.test('serve install refuses a folder whose name would be settings of the unit', onLinux, async (t) => {
  for (const name of ['a\nExecStartPre=touch b', 'a\rExecStartPre=touch b', 'a\\', 'a ']) {
    const folder = join(t.testdir(), name);
    mkdirSync(folder);
    const printed = await recua(['serve', 'install', 'builtin', '--print'], '', { env: { SERVICE_HOME: t.testdirName }, cwd: folder });
    t.match(printed, { code: 2, stdout: '', stderr: /cannot hold the path/ }, JSON.stringify(name));
  }
});

t.test('words survive quoting in both kinds of file', async (t) => {
  const evil = ['/bin/no de', 'a"b\\c%d$e', 'é<&>', "it's"];
  const service = { command: evil, folder: '/a b', variables: { NAME: '50% "x" $HOME' }, stopSeconds: 35, bounds: [['ReadWritePaths', '/a b', '/50%'], ['LockPersonality', 'true']] as const };
  const unit = systemdUnit(service);
  t.strictSame(wordsOf(/^ExecStart=(.*)$/m.exec(unit)![1]!), evil);
  t.match(unit, 'Environment="NAME=50%% \\"x\\" $HOME"\n', 'no variables there');
  t.match(unit, 'ReadWritePaths="/a b" "/50%%"\nLockPersonality=true\n');
  const agent = launchdAgent(service, 'com.recua.server', '/log');
  t.match(agent, '<string>é&lt;&amp;&gt;</string>');
  t.match(agent, '<string>a"b\\c%d$e</string>');
  t.match(agent, '<key>NAME</key>\n    <string>50% "x" $HOME</string>');
});
