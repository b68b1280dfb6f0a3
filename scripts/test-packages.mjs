// `npm run test:packages [-- npm pnpm yarn --loads N --keep]`: installs the archives of npm/dist as
// users do, into empty folders with only Node in PATH, and uses the result: the command line, a
// server, and the addon many times over. Without names it tests all three installers; it fetches
// pnpm and yarn as packages. The last line is `N passed, N failed`. Run `npm run pack` first.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import os from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { startRegistry } from './local-registry.mjs';
import { packageName } from './package-texts.mjs';
import { root } from './place.mjs';
import { npm } from './process.mjs';
import { say } from './progress.mjs';
import { sbomName } from './sbom.mjs';
import { program } from './setup.mjs';

const base = `${process.platform}-${process.arch}`;
const onWindows = process.platform === 'win32';
const installers = ['npm', 'pnpm', 'yarn'];
const toolVersions = { pnpm: 'pnpm@10', yarn: 'yarn@1' };

const results = { passed: 0, failed: 0 };

async function check(title, work) {
  const start = Date.now();
  try {
    const note = await work();
    results.passed++;
    say(`ok      ${title} (${((Date.now() - start) / 1000).toFixed(1)} s${note ? `; ${note}` : ''})`);
  } catch (error) {
    results.failed++;
    say(`FAILED  ${title}\n${String(error.message).replace(/^/gm, '        ')}`);
  }
}

function expect(condition, message) {
  if (!condition) throw new Error(message);
}

/**
 * An environment with nothing of this machine but Node: an empty home, an empty PATH, no npm
 * settings, no RECUA_ variables.
 */
function makeWorld() {
  const folder = realpathSync(mkdtempSync(join(os.tmpdir(), 'recua packages-')));
  for (const name of ['home', 'bin', 'empty']) mkdirSync(join(folder, name));
  if (onWindows) writeFileSync(join(folder, 'bin', 'node.cmd'), `@"${process.execPath}" %*\r\n`);
  else symlinkSync(process.execPath, join(folder, 'bin', 'node'));
  const kept = ['SystemRoot', 'TEMP', 'TMP', 'NODE_EXTRA_CA_CERTS', 'HTTPS_PROXY', 'HTTP_PROXY', 'NO_PROXY', 'https_proxy', 'http_proxy', 'no_proxy'];
  const env = Object.fromEntries(kept.filter((name) => process.env[name]).map((name) => [name, process.env[name]]));
  const home = join(folder, 'home');
  Object.assign(env, { PATH: join(folder, 'bin'), HOME: home, USERPROFILE: home, APPDATA: home, LOCALAPPDATA: home, npm_config_cache: join(folder, 'cache'), CI: 'true' });
  return { folder, env, empty: join(folder, 'empty'), remove: () => rmSync(folder, { recursive: true, force: true }) };
}

/**
 * Runs a command in that environment, asynchronously because the registry runs in this process;
 * throws with its output if it fails.
 */
async function inWorld(world, command, args, { cwd = world.empty, env = {}, limitMs = 300_000 } = {}) {
  const child = spawn(command, args, { cwd, env: { ...world.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'], timeout: limitMs, killSignal: 'SIGKILL' });
  let stdout = '';
  let stderr = '';
  let firstByteMs;
  const start = performance.now();
  child.stdout.on('data', (text) => { firstByteMs ??= performance.now() - start; stdout += text; });
  child.stderr.on('data', (text) => { stderr += text; });
  const [code, signal] = await once(child, 'close');
  expect(code === 0, `${command} ${args.join(' ')}\nended with ${signal ?? code}:\n${(stdout + stderr).slice(-3000)}`);
  return { stdout, stderr, firstByteMs };
}

/**
 * The installer's program, for `node` to run. Uses the installed npm; the others come from the
 * registry.
 */
async function installerProgram(world, name) {
  if (name === 'npm') {
    const { command, args } = npm([]);
    if (command === process.execPath) return args[0];
    const found = [join(process.execPath, '..', '..', 'lib', 'node_modules', 'npm', 'bin', 'npm-cli.js'), join(process.execPath, '..', 'node_modules', 'npm', 'bin', 'npm-cli.js')].find(existsSync);
    expect(found, 'npm is not beside this Node: run this by `npm run test:packages`');
    return found;
  }
  const prefix = join(world.folder, `tool-${name}`);
  const { command, args, shell } = npm(['install', '--prefix', prefix, '--no-audit', '--no-fund', '--ignore-scripts', toolVersions[name]]);
  const done = spawnSync(command, args, { cwd: world.empty, encoding: 'utf8', shell });
  expect(done.status === 0, `${name} cannot be fetched:\n${done.stderr}`);
  const folder = join(prefix, 'node_modules', name);
  const { bin } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  return join(folder, bin[name]);
}

/** Installs recua, with `more` packages, and returns its folder. */
async function install(world, name, program, registry, { scripts = false, more = [] } = {}) {
  const folder = join(world.folder, `${name}${scripts ? '-scripts' : ''}${more.length > 0 ? '-more' : ''}`);
  mkdirSync(folder);
  const noScripts = scripts ? [] : ['--ignore-scripts'];
  const run = (...args) => inWorld(world, process.execPath, [program, ...args], { cwd: folder });
  const names = ['recua', ...more];
  if (name === 'npm') {
    // Strict: Recua's `engines` must not admit a Node that one of its dependencies refuses.
    await run('install', '--global', '--engine-strict', '--prefix', folder, '--registry', registry.url, '--no-audit', '--no-fund', ...noScripts, ...names);
    expect(onWindows || existsSync(join(folder, 'share', 'man', 'man1', 'recua.1')), 'npm has not installed the manual page');
    return join(folder, onWindows ? '' : 'lib', 'node_modules', 'recua');
  }
  writeFileSync(join(folder, 'package.json'), '{"private":true}');
  if (name === 'pnpm') await run('add', '--registry', registry.url, '--store-dir', join(world.folder, 'pnpm-store'), ...noScripts, ...names);
  else await run('add', '--registry', registry.url, '--cache-folder', join(world.folder, 'yarn-cache'), '--non-interactive', ...noScripts, ...names);
  return join(folder, 'node_modules', 'recua');
}

const recua = (world, folder, args, options) => inWorld(world, process.execPath, [join(folder, 'dist', 'cli', 'main.js'), ...args], options);

async function checkInstalled(world, folder) {
  expect(!existsSync(join(realpathSync(folder), 'build')) && !existsSync(join(folder, 'binding.gyp')), 'there is something to build in the package');
  const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  expect(JSON.parse(readFileSync(join(folder, sbomName), 'utf8')).metadata.component.version === manifest.version, 'its bill of materials is of another version');
  const { stdout } = await recua(world, folder, ['version']);
  expect(stdout.startsWith(`recua ${manifest.version} (llama.cpp `), `recua version says ${stdout}`);
}

async function checkAnswer(world, folder) {
  const { stdout } = await recua(world, folder, ['run', 'builtin', '-p', 'Tell me a story', '-n', '24', '--temp', '0']);
  expect(stdout.trim().length > 20, `the answer is ${JSON.stringify(stdout)}`);
}

/**
 * Checks that ggml's libraries come only from the packages, above all not from the current folder.
 */
function checkMappings(pid, folder) {
  if (process.platform !== 'linux') return '';
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ');
  const maps = children.map((child) => readFileSync(`/proc/${child}/maps`, 'utf8')).join('\n');
  const libraries = [...new Set([...maps.matchAll(/\s(\/.*(?:ggml|gomp|recua\.node|llama).*)$/gm)].map(([, path]) => path))];
  const outside = libraries.filter((path) => !path.startsWith(`${folder}/`) && !path.endsWith('.gguf'));
  expect(libraries.some((path) => path.endsWith('recua.node')), 'no engine process has recua.node');
  expect(outside.length === 0, `mapped from outside the packages:\n${outside.join('\n')}`);
  return libraries.map((path) => /libggml-(cpu-.*)\.so$/.exec(path)?.[1]).find(Boolean);
}

async function checkServer(world, folder) {
  const decoys = join(world.folder, `decoys-${Date.now()}`);
  mkdirSync(decoys);
  for (const name of ['libggml-cpu-x64.so', 'libggml-cpu.so', 'libggml-vulkan.so', 'libggml-base.so', 'libgomp.so.1']) writeFileSync(join(decoys, name), 'not a library');
  const child = spawn(process.execPath, [join(folder, 'dist', 'cli', 'main.js'), 'api', 'builtin', '--port', '0'], { cwd: decoys, env: world.env, stdio: ['ignore', 'pipe', 'pipe'] });
  let talk = '';
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => { talk += text; });
  const gone = once(child, 'exit');
  try {
    let url;
    for (let left = 600; left > 0 && !url && child.exitCode === null; left--) {
      url = /http:\/\/[\d.]+:\d+/.exec(talk)?.[0];
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    expect(url, `no address in:\n${talk}`);
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST', headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ messages: [{ role: 'user', content: 'Tell me a story' }], max_tokens: 16, temperature: 0 }),
    });
    const body = await response.json();
    expect(response.status === 200 && body.choices[0].message.content.length > 10, JSON.stringify(body));
    return checkMappings(child.pid, realpathSync(world.folder));
  } finally {
    child.kill('SIGTERM');
    const [code] = await gone;
    expect(code === 0 || onWindows, `the server ended with ${code}:\n${talk}`);
  }
}

async function checkLives(world, folder, count) {
  const script = fileURLToPath(new URL('./load-use-exit.mjs', import.meta.url));
  for (let life = 0; life < count; life++) {
    await inWorld(world, process.execPath, [script, realpathSync(folder), life % 2 === 0 ? 'leave' : 'close'], { limitMs: 60_000 })
      .catch((error) => { throw new Error(`life ${life + 1} of ${count}: ${error.message}`); });
  }
}

/**
 * Time until the first piece of an answer is on stdout: the median of several starts. Reported
 * without a limit.
 */
async function measureStart(world, folder) {
  const times = [];
  for (let round = 0; round < 9; round++) times.push((await recua(world, folder, ['run', 'builtin', '-p', 'x', '-n', '4'])).firstByteMs);
  times.sort((a, b) => a - b);
  return `${times[4].toFixed(0)} ms, of ${times[0].toFixed(0)} to ${times[8].toFixed(0)}`;
}

await program(async () => {
  const { values, positionals } = parseArgs({ allowPositionals: true, options: { loads: { type: 'string', default: '20' }, keep: { type: 'boolean', default: false } } });
  const wrong = positionals.find((name) => !installers.includes(name));
  if (wrong) throw new Error(`There is no installer ${wrong}: npm, pnpm or yarn.`);
  const chosen = positionals.length > 0 ? positionals : installers;
  const registry = await startRegistry();
  const world = makeWorld();
  const gpus = registry.names.filter((name) => name.startsWith(`${packageName(base)}-`));
  try {
    if (!registry.names.includes('recua') || !registry.names.includes(packageName(base))) throw new Error(`npm/dist lacks recua or ${packageName(base)}. Run \`npm run pack\`.`);
    for (const name of chosen) {
      let folder;
      await check(`${name} installs without scripts, compiler or git`, async () => { folder = await install(world, name, await installerProgram(world, name), registry); });
      if (!folder) continue;
      await check(`${name}: the version is told`, () => checkInstalled(world, folder));
      await check(`${name}: a prompt is answered`, () => checkAnswer(world, folder));
      await check(`${name}: a server answers, with libraries of the packages only`, () => checkServer(world, folder));
      if (name !== 'npm') continue;
      await check('npm installs with scripts allowed, too', async () => {
        const other = await install(world, name, await installerProgram(world, name), registry, { scripts: true });
        await checkInstalled(world, other);
        await checkAnswer(world, other);
      });
      if (gpus.length > 0) {
        await check(`npm: ${gpus.join(' and ')} beside it, and a prompt is answered`, async () => {
          await checkAnswer(world, await install(world, name, await installerProgram(world, name), registry, { more: gpus }));
        });
      }
      await check(`the addon is loaded, used and left ${values.loads} times, each ending with 0`, () => checkLives(world, folder, Number(values.loads)));
      await check('from start to the first piece of an answer', () => measureStart(world, folder));
    }
  } finally {
    registry.close();
    if (values.keep) say(`kept: ${world.folder} (${readdirSync(world.folder).join(', ')}), for the packages of ${root}`);
    else world.remove();
  }
  console.log(`${results.passed} passed, ${results.failed} failed`);
  return results.failed === 0 ? 0 : 1;
});
