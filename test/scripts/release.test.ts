import t from 'tap';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { scripts } from './checkout.js';

const root = fileURLToPath(new URL('../../', import.meta.url));
const release = await import(`${scripts}release.mjs`);
const { table } = await import(`${scripts}package-texts.mjs`);
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

t.test('a release builds every target once, and installs on every kind of machine that has a base package', (t) => {
  const { build, test } = release.matrices();
  t.strictSame(build.include.map(({ target }: any) => target), Object.keys(table));
  for (const job of build.include) t.match(job, { runner: /^(ubuntu|macos|windows)-/, container: /^$|^[\w./:-]+$/, tools: /^(|debian|redhat|vulkan-sdk|cuda)$/ }, job.target);
  const machines = Object.values<any>(table).filter(({ isBase }) => isBase).map(({ ci }) => ci.runner);
  t.strictSame([...new Set(test.include.map(({ runner }: any) => runner))], machines);
  t.end();
});

t.test('the workflow asks only for tools that it knows how to get', (t) => {
  const workflow = readFileSync(join(root, '.github', 'workflows', 'release.yml'), 'utf8');
  for (const tools of new Set(Object.values<any>(table).map(({ ci }) => ci.tools).filter(Boolean))) t.match(workflow, `if: matrix.tools == '${tools}'`);
  for (const [, script] of workflow.matchAll(/node scripts\/([\w-]+\.mjs)/g)) t.ok(readFileSync(join(root, 'scripts', script!)), script);
  t.end();
});

t.test('a tag is the version with a v before it', (t) => {
  release.checkTag(`v${version}`);
  t.throws(() => release.checkTag(version), { message: `The tag is ${version}, but package.json says ${version}: expected v${version}.` });
  t.end();
});

t.test('recua is published last, after all packages it names', (t) => {
  const names = release.releaseArchives().map(({ name }: any) => name);
  t.equal(names.at(-1), 'recua');
  t.strictSame(names.slice(0, -1), Object.keys(table).map((name) => `@recua/${name}`));
  t.ok(release.releaseArchives()[0].path.endsWith(join('npm', 'dist', `recua-linux-x64-${version}.tgz`)), 'as npm pack names it');
  t.end();
});

t.test('the check on a GPU refuses unknown arguments before it builds', async (t) => {
  const { parseOptions, distance } = await import(`${scripts}gpu-check.mjs`);
  t.match(parseOptions([]), { device: 'cuda', clients: [1, 8, 32, 128], rounds: 3, skip: [] });
  t.match(parseOptions(['--device', 'cpu', '--clients', '1,8', '--skip', 'tests,bench']), { device: 'cpu', clients: [1, 8], skip: ['tests', 'bench'] });
  t.throws(() => parseOptions(['--device', 'tpu']), { message: '--device takes cuda, vulkan, cpu, not tpu.' });
  t.throws(() => parseOptions(['--clients', '1,7']), { message: /not 1,7\.$/ });
  t.throws(() => parseOptions(['--rounds', '0']), { message: /at least 1/ });
  t.throws(() => parseOptions(['--skip', 'all']), { message: /build,tests,answers,bench, not all\.$/ });
  t.strictSame(distance([-1, -2], [-1, -2]), { mean: 0, most: 0 });
  t.strictSame(distance([-1, -2], [-1.5, -2]), { mean: 0.25, most: 0.5 });
  t.strictSame(distance([-1, -2], [-1, undefined]), { mean: 0.5, most: 1 }, 'a token that is not among the likeliest');
});

t.test('npm shows the token to the registry that it is configured for', async (t) => {
  const seen: (string | undefined)[] = [];
  const registry = createServer((request, response) => {
    seen.push(request.headers.authorization);
    response.writeHead(200, { 'content-type': 'application/json' }).end('{"username":"somebody"}');
  }).listen(0, '127.0.0.1');
  await once(registry, 'listening');
  t.teardown(() => registry.close());
  const url = `http://127.0.0.1:${(registry.address() as AddressInfo).port}/npm/`;
  const { npm } = await import(`${scripts}process.mjs`);
  const { command, args, shell } = npm(['whoami', '--registry', url]);
  const child = spawn(command, args, { shell, stdio: 'ignore', env: release.publishEnvironment(url, 'a-token') });
  t.strictSame(await once(child, 'close'), [0, null]);
  t.strictSame(seen, ['Bearer a-token']);
  t.equal(release.publishEnvironment(url, undefined), process.env, 'without a token npm has its own');
});

t.test('no file of the repository names a host of a package registry', (t) => {
  const { stdout } = spawnSync('git', ['ls-files', '-z'], { cwd: root, encoding: 'utf8' });
  const named = stdout.split('\0').filter((path) => path !== '' && existsSync(join(root, path))).filter((path) => {
    const text = readFileSync(join(root, path), 'latin1');
    return /(registry\.|www\.)?(npm[j]s|yarnp[k]g)\.(org|com)|deb\.debian\.[o]rg/.test(text) || (path.endsWith('package-lock.json') && text.includes('"resolved"'));
  });
  t.ok(stdout === '' || stdout.includes('package.json'), 'a checkout of git, or no checkout at all');
  t.strictSame(named, []);
  t.end();
});
