import t from 'tap';
import { readFileSync } from 'node:fs';
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

t.test('recua is published last, after all it names', (t) => {
  const names = release.releaseArchives().map(({ name }: any) => name);
  t.equal(names.at(-1), 'recua');
  t.strictSame(names.slice(0, -1), Object.keys(table).map((name) => `@recua/${name}`));
  t.ok(release.releaseArchives()[0].path.endsWith(join('npm', 'dist', `recua-linux-x64-${version}.tgz`)), 'as npm pack names it');
  t.end();
});

t.test('the check on a GPU refuses what it does not know before it builds', async (t) => {
  const { parseOptions, agreement } = await import(`${scripts}gpu-check.mjs`);
  t.match(parseOptions([]), { device: 'cuda', clients: [1, 8, 32, 128], rounds: 3, skip: [] });
  t.match(parseOptions(['--device', 'cpu', '--clients', '1,8', '--skip', 'tests,bench']), { device: 'cpu', clients: [1, 8], skip: ['tests', 'bench'] });
  t.throws(() => parseOptions(['--device', 'tpu']), { message: '--device takes cuda, vulkan, cpu, not tpu.' });
  t.throws(() => parseOptions(['--clients', '1,7']), { message: /not 1,7\.$/ });
  t.throws(() => parseOptions(['--rounds', '0']), { message: /at least 1/ });
  t.throws(() => parseOptions(['--skip', 'all']), { message: /build,tests,answers,bench, not all\.$/ });
  t.equal(agreement('abcd', 'abcd'), 1);
  t.equal(agreement('', ''), 1);
  t.equal(agreement('abcd', 'abxd'), 0.5);
  t.equal(agreement('ab', 'abcd'), 0.5);
  t.equal(agreement('x', 'abcd'), 0);
});
