import t from 'tap';
import type { Test } from 'tap';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseArguments } from '#recua/cli/flags/arguments.js';
import { allPlaces } from '#recua/cli/command-tree.js';
import { otherVariables } from '#recua/cli/flags/environment.js';
import { flagWord, settingNames, variableNames } from '#recua/cli/flags/flags.js';
import { configExample } from '#recua/cli/help.js';
import { FlagSettings, configPath } from '#recua/cli/flags/settings.js';
import { allCommands } from '#recua/cli/table.js';
import { makeHome } from '../home.js';
import { recua } from '../recua.js';

const all = await allCommands();

/** The arguments of a command with a config file and variables. */
async function read(t: Test, command: string, argv: string[], config: unknown, variables: Record<string, string> = {}) {
  const path = join(t.testdir(), 'config.json');
  writeFileSync(path, typeof config === 'string' ? config : JSON.stringify(config));
  const settings = await FlagSettings.read(allCommands, { RECUA_CONFIG: path, ...variables });
  return { path, ...parseArguments(command, allPlaces(all).find((one) => one.path === command)!.command.flags, argv, settings) };
}

t.test('a flag overrides a variable, a variable the file, a section of the file its general part, and all of them the default', async (t) => {
  const file = { port: 1, temp: 0.1, threads: 11, 'ctx-size': 100, api: { temp: 0.2, threads: 12, 'ctx-size': 200 } };
  const { values, origins, given, path } = await read(t, 'api', ['-c', '400'], file, { RECUA_THREADS: '13', RECUA_CTX_SIZE: '300' });
  t.match(values, { port: 1, temperature: 0.2, threads: 13, contextSize: 400, host: '127.0.0.1' });
  t.match(origins, {
    port: { from: 'file', path, section: '', key: 'port' }, temperature: { from: 'file', path, section: 'api', key: 'temp' },
    threads: { from: 'variable', name: 'RECUA_THREADS' }, contextSize: { from: 'flag' }, host: { from: 'default' },
  });
  t.same([...given].sort(), ['contextSize', 'port', 'temperature', 'threads']);
});

t.test('a section applies to its command only', async (t) => {
  const file = { api: { port: 9000 }, 'serve start': { port: 9001 } };
  t.match((await read(t, 'api', [], file)).values, { port: 9000 });
  t.match((await read(t, 'serve start', [], file)).values, { port: 9001 });
});

t.test('switches are true or false, off switches are named by what they switch off, and the command line reverses both', async (t) => {
  t.match((await read(t, 'api', [], { mmap: false, mlock: true })).values, { mmap: false, mlock: true });
  t.match((await read(t, 'api', [], { mmap: true, mlock: false })).values, { mmap: true, mlock: false });
  t.match((await read(t, 'api', [], {}, { RECUA_MMAP: '0', RECUA_MLOCK: '1' })).values, { mmap: false, mlock: true });
  t.match((await read(t, 'api', [], { mmap: false }, { RECUA_MMAP: 'true' })).values, { mmap: true });
  t.match((await read(t, 'api', ['--no-mmap=false', '--mlock=false'], { mmap: false, mlock: true })).values, { mmap: true, mlock: false });
});

t.test('other long names of a flag are keys and variables, too, and an empty variable counts as unset', async (t) => {
  t.match((await read(t, 'api', [], { 'n-gpu-layers': 3 })).values, { gpuLayers: 3 });
  t.match((await read(t, 'api', [], {}, { RECUA_N_GPU_LAYERS: '4' })).values, { gpuLayers: 4 });
  t.match((await read(t, 'api', [], { 'gpu-layers': 5 }, { RECUA_GPU_LAYERS: '' })).values, { gpuLayers: 5 });
});

const wrong: [string, unknown, RegExp][] = [
  ['an unknown key', { prot: 1 }, /key "prot": expected the long name of a flag.* Did you mean port\?/],
  ['an unknown key of a section', { run: { 'max-token': 1 } }, /section "run", key "max-token": .*flag of recua run.* Did you mean max-tokens\?/],
  ['a key of another command', { show: { port: 1 } }, /section "show", key "port"/],
  ['a command with something else than its settings', { chat: 5 }, /key "chat": expected an object with the settings of recua chat, as \{"chat": \{…\}\}, got 5\.$/],
  ['a setting with an object', { port: { a: 1 } }, /key "port": expected a number, got \{"a":1\}\.$/],
  ['an unknown section', { 'serve strat': {} }, /section "serve strat" is not named after a command with flags\. Did you mean serve start\?/],
  ['a section of several commands', { serve: { port: 9000 } }, /the section "serve" is not named after a command with flags\. Did you mean "serve start"\?/],
  ['a number as text', { port: '9000' }, /key "port": expected a number, got "9000"/],
  ['a text as number', { host: 1 }, /key "host": expected a text in quotes, got 1/],
  ['null', { host: null }, /key "host": expected a text in quotes, got null/],
  ['a list', { port: [1] }, /key "port": expected a number, got \[1\]/],
  ['a switch as text', { mlock: 'yes' }, /key "mlock": expected true or false, got "yes"/],
  ['a number out of range', { port: 70_000 }, /key "port": Expected a whole number from 0 to 65535 for --port, got "70000"/],
  ['an unknown choice', { 'log-level': 'loud' }, /key "log-level": Expected one of debug, info/],
  ['the name of the off switch', { 'no-mmap': true }, /key "no-mmap".* Write "mmap": false/],
  ['a key with dashes', { '--port': 1 }, /key "--port".* Did you mean port\?/],
  ['a flag for one call', { json: true }, /key "json": --json is for one call/],
  ['two names of one setting', { 'ctx-size': 1, 'context-size': 2 }, /key "ctx-size".*"context-size" too/],
  ['a list instead of an object', '[1]', /expected a JSON object, got \[1\]/],
  ['half of a character', '{"system": "a\\ud800"}', /Expected system to be text, got \\ud800 at character 2, which is half of a character/],
  ['bad JSON', '{\n  "port": 1,\n  x\n}', /is not valid JSON: .*line 3,? column 3/],
];
for (const [what, config, expected] of wrong) {
  t.test(`a config file with ${what} is refused with its path`, async (t) => {
    await t.rejects(read(t, 'api', [], config), { code: 'invalid_config', message: expected });
    await t.rejects(read(t, 'api', [], config), { message: /config\.json/ });
  });
}

t.test('no mistake in the config file shows an API key', async (t) => {
  const mistakes: [unknown, RegExp][] = [
    [{ 'api-key': ['hidden-1', 'hidden-2'] }, /key "api-key": expected a text in quotes, got something else\.$/],
    [{ api: { 'api-key': { ann: 'hidden-1' } } }, /section "api", key "api-key": expected a text in quotes, got something else\.$/],
    [{ 'api-key': { ann: 'hidden-1' } }, /key "api-key": expected a text in quotes, got something else\.$/],
    ['{"api-key": hidden-1}', /is not valid JSON: something is missing, left over or without quotes\.$/],
    ['{"api-key": "hidden-1" "port": 1}', /is not valid JSON: line 1,? column 24\.$/],
  ];
  for (const [config, expected] of mistakes) {
    const error = await read(t, 'api', [], config).then(() => undefined, (thrown: unknown) => thrown as Error);
    t.match(error?.message, expected);
    t.notMatch(error?.message, /hidden/);
  }
});

t.test('models in the config file work like the file that --models names', async (t) => {
  const models = { chat: { model: 'builtin' } };
  const { values, origins, path } = await read(t, 'api', [], { port: 1, models });
  t.match(values, { models: path, port: 1 });
  t.match(origins, { models: { from: 'file', path, section: '', key: 'models' } });
  t.match((await read(t, 'api', ['--models', 'other.json'], { models })).values, { models: 'other.json' });
  t.match((await read(t, 'api', [], { models: 'other.json' })).values, { models: 'other.json' });
  await t.rejects(read(t, 'api', [], { api: { models } }), { code: 'invalid_config', message: /section "api", key "models": expected a text in quotes/ });
});

t.test('a bad variable is refused with its name', async (t) => {
  await t.rejects(read(t, 'api', [], {}, { RECUA_PORT: 'many' }), { code: 'invalid_config', message: /variable RECUA_PORT: Expected a whole number.*got "many"/ });
  await t.rejects(read(t, 'api', [], {}, { RECUA_MLOCK: 'perhaps' }), { code: 'invalid_config', message: /variable RECUA_MLOCK: expected true or false \(1 or 0\), got "perhaps"/ });
  await t.rejects(read(t, 'run', [], {}, { RECUA_PROMPT: 'x' }), { code: 'invalid_config', message: /RECUA_PROMPT cannot be used: --prompt is for one call/ });
  t.match((await read(t, 'api', ['--port', '1'], {}, { RECUA_PORT: 'many' })).values, { port: 1 }, 'one that does not count does no harm');
  const both = { RECUA_TEMP: '0.1', RECUA_TEMPERATURE: '0.2' };
  await t.rejects(read(t, 'api', [], {}, both), { code: 'invalid_config', message: /^The variable RECUA_TEMP: the same setting is given as RECUA_TEMPERATURE too\. Unset one of them\.$/ });
  t.match((await read(t, 'api', [], {}, { ...both, RECUA_TEMP: '' })).values, { temperature: 0.2 });
});

t.test('the config file is RECUA_CONFIG, else in XDG_CONFIG_HOME, else in ~/.config; only a named one must exist', async (t) => {
  t.equal(configPath({ RECUA_CONFIG: '/a/b.json', HOME: '/h' }), '/a/b.json');
  t.equal(configPath({ RECUA_CONFIG: '~/b.json', HOME: '/h' }), '/h/b.json');
  t.equal(configPath({ XDG_CONFIG_HOME: '/x', HOME: '/h' }), '/x/recua/config.json');
  t.equal(configPath({ HOME: '/h' }), '/h/.config/recua/config.json');
  const none = join(t.testdir(), 'none.json');
  await t.rejects(FlagSettings.read(allCommands, { RECUA_CONFIG: none }), { code: 'invalid_config', message: /cannot be read.*RECUA_CONFIG names it/ });
  await FlagSettings.read(allCommands, { HOME: none });
});

t.test('the example in help and docs is a valid config file', async (t) => {
  t.match((await read(t, 'serve start', [], configExample)).values, { port: 9000, mmap: false, threads: 4 });
});

t.test('flags for a single call have no setting', (t) => {
  const names = ['--prompt', '--json', '--file', '--force', '--yes', '--resume', '--continue', '--dry-run', '--tensors', '--all', '--follow', '--copy', '--symlink', '--grammar', '--grammar-file', '--json-schema', '--json-schema-file'];
  const settable = allPlaces(all).flatMap(({ command, path }) => Object.values(command.flags).filter((flag) => !flag.perCall && names.includes(flag.names[0])).map((flag) => `${path} ${flag.names[0]}`));
  t.same(settable, [], 'wrap these in perCall()');
  t.end();
});

t.test('no setting has the name of another variable', (t) => {
  const taken = new Set(otherVariables.map(([name]) => name));
  const flags = allPlaces(all).flatMap(({ command }) => Object.values(command.flags).filter((flag) => !flag.perCall));
  t.same(flags.flatMap(variableNames).filter((name) => taken.has(name)), []);
  t.ok(flags.flatMap(settingNames).every((name) => /^[a-z][a-z0-9-]*$/.test(name)));
  t.end();
});

t.test('flagWord() reproduces the flag that was read', (t) => {
  for (const { command, path } of allPlaces(all)) {
    for (const [key, flag] of Object.entries(command.flags)) {
      if (flag.fallback === undefined) continue;
      const values = flag.value === '' ? [true, false] : [flag.fallback === '' ? 'x' : flag.fallback];
      for (const value of values) {
        const text = flagWord(flag, value);
        if (flag.value !== '' && typeof value !== 'string' && typeof value !== 'number') continue;
        if (flag.choices === undefined || flag.choices.includes(`${value as string}`)) t.equal((parseArguments(path, command.flags, [text]).values as any)[key], value, `${path} ${text}`);
      }
    }
  }
  t.end();
});

t.test('recua config shows values with their origins, and the places', async (t) => {
  const home = makeHome(t);
  const path = join(home.folder, 'config', 'recua', 'config.json');
  const plain = await recua(['config'], '', { env: home.env });
  t.match(plain, { code: 0, stdout: /config file +\S+config\.json +not there yet[^]*No config file or variable sets anything/ });
  t.equal((await recua(['config', 'path'], '', { env: home.env })).stdout, `${path}\n`);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, JSON.stringify({ port: 9000, api: { temp: 0.5 } }));
  const env = { ...home.env, RECUA_THREADS: '2', RECUA_THREDS: '3', RECUA_JSON: '1' };
  const set = await recua(['config'], '', { env });
  t.match(set.stdout, new RegExp(`^recua api\n  port +9000 +${path}\n  temp +0\\.5 +${path}, section api\n  threads +2 +variable RECUA_THREADS$`, 'm'));
  t.match(set.stderr, /Warning: RECUA_JSON sets nothing: --json is for one call\.\nWarning: RECUA_THREDS sets nothing\. Did you mean RECUA_THREADS\?/);
  t.match((await recua(['config', 'serve', 'start'], '', { env })).stdout, /^recua serve start\n[^]*host +127\.0\.0\.1 +default\n[^]*ctx-size +2048 +default/);
  const json = JSON.parse((await recua(['config', '--json'], '', { env })).stdout);
  t.match(json, {
    places: { config_file: { path, exists: true }, state: { path: join(home.env.SERVICE_HOME, 'recua'), exists: false } },
    commands: { api: { port: { value: 9000, origin: { from: 'file', path } }, host: { value: '127.0.0.1', origin: { from: 'default' } } }, 'serve start': { threads: { value: 2, origin: { from: 'variable' } } } },
    warnings: [/RECUA_JSON/, /RECUA_THREDS/],
  });
  t.match(await recua(['config', 'srve'], '', { env }), { code: 2, stderr: /Expected the name of a command, or path.*recua help environment.* Did you mean serve\?/ });
  writeFileSync(path, JSON.stringify({ models: { chat: { model: 'builtin' } } }));
  t.match((await recua(['config'], '', { env: home.env })).stdout, /^ +models +the models in the config file +/m);
  t.match(await recua(['config', 'nosuch'], '', { env }), { code: 2, stderr: /There is no command nosuch\. All of them: recua help\n$/ });
});

t.test('a broken config file stops a command before it does anything, but not help or version', async (t) => {
  const env = { RECUA_CONFIG: join(t.testdir({ 'bad.json': '{' }), 'bad.json') };
  t.match(await recua(['run', 'builtin', '-p', 'x'], '', { env }), { code: 2, stdout: '', stderr: /bad\.json is not valid JSON/ });
  t.match(await recua(['config'], '', { env }), { code: 2, stdout: /^Places\n +config file +\S*bad\.json/, stderr: /bad\.json is not valid JSON/ });
  t.match(await recua(['config', 'path'], '', { env }), { code: 0, stdout: `${env.RECUA_CONFIG}\n` });
  t.match(await recua(['version'], '', { env }), { code: 0 });
  t.match(await recua(['help', 'run'], '', { env }), { code: 0 });
  const inHome = { ...makeHome(t).env, RECUA_CONFIG: '/nowhere/config.json' };
  t.match(await recua(['serve', 'status'], '', { env: inHome }), { code: 3 });
  t.match(await recua(['serve', 'stop'], '', { env: inHome }), { code: 0 });
});

t.test('a model may be a setting, and the operand overrides it', async (t) => {
  t.match(await recua(['api'], '', { env: { RECUA_MODEL: 'none-of-it' } }), { code: 1, stderr: /no model none-of-it/ });
  t.match(await recua(['api', 'neither'], '', { env: { RECUA_MODEL: 'none-of-it' } }), { code: 1, stderr: /no model neither/ });
});

t.test('a mistyped variable gets one warning from commands that compute; those of scripts get none', async (t) => {
  const env = { ...makeHome(t).env, RECUA_THREDS: '3', RECUA_CHROMIUM: '/no/browser', RECUA_FUZZ_MODEL: 'x', RECUA_TEST_STALL_MS: '1' };
  const run = ['run', 'builtin', '-p', 'Hello', '-n', '1', '-c', '256', '--threads', '1'];
  const { code, stderr } = await recua(run, '', { env });
  t.equal(code, 0, stderr);
  t.same(stderr.split('\n').filter((line) => line.startsWith('Warning')), ['Warning: RECUA_THREDS sets nothing. Did you mean RECUA_THREADS?']);
  t.notMatch((await recua([...run, '--quiet'], '', { env })).stderr, /Warning/);
  const started = await recua(['serve', 'start', 'builtin', '--port', '0', '-c', '256', '--threads', '1'], '', { env });
  t.equal(started.code, 0, started.stderr);
  t.equal(started.stderr.split('RECUA_THREDS').length, 2, started.stderr);
  t.match(started.stderr, /\nIn a browser: http:\/\/127\.0\.0\.1:\d+\/\nTry: curl [^\n]*\nTo stop it: recua serve stop\n$/);
  t.equal((await recua(['serve', 'stop'], '', { env })).code, 0);
});

t.test('the variables of a service named recua, as Kubernetes sets them, set nothing', async (t) => {
  const links = {
    RECUA_PORT: 'tcp://10.0.0.1:8080', RECUA_SERVICE_HOST: '10.0.0.1', RECUA_SERVICE_PORT: '8080', RECUA_SERVICE_PORT_HTTP: '8080',
    RECUA_PORT_8080_TCP: 'tcp://10.0.0.1:8080', RECUA_PORT_8080_TCP_PROTO: 'tcp', RECUA_PORT_8080_TCP_PORT: '8080', RECUA_PORT_8080_TCP_ADDR: '10.0.0.1',
  };
  t.match(await read(t, 'api', [], {}, links), { values: { port: 8080 }, origins: { port: { from: 'default' } } });
  t.match(await read(t, 'api', [], { port: 1 }, links), { values: { port: 1 }, origins: { port: { from: 'file' } } });
  const settings = await FlagSettings.read(allCommands, links);
  const told = ['RECUA_PORT sets nothing: Kubernetes or Docker gave it the address of a service named recua.'];
  t.strictSame(settings.mistypedVariables(), told);
  t.strictSame(settings.strayVariables(all), told);
  await t.rejects(read(t, 'api', [], {}, { RECUA_PORT: 'tcp://10.0.0.1' }), { code: 'invalid_config', message: /variable RECUA_PORT/ });
});

t.test('a default that depends on the machine or the model has no value', async (t) => {
  const env = { SERVICE_HOME: t.testdir() };
  t.match((await recua(['config', 'chat'], '', { env })).stdout, /context-size +– +default/);
  t.match(JSON.parse((await recua(['config', 'chat', '--json'], '', { env })).stdout), { commands: { chat: { 'context-size': { value: null } } } });
  t.match((await recua(['config', 'api'], '', { env })).stdout, /ctx-size +4096 +default/);
});
