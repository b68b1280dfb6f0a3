// The bill of materials of each package: valid CycloneDX, complete, and true to the package
// contents.
import t, { type Test } from 'tap';
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Spec, Validation } from '@cyclonedx/cyclonedx-library';
import { scripts } from './checkout.js';

const root = fileURLToPath(new URL('../../', import.meta.url));
const { platformSbom } = await import(`${scripts}sbom.mjs`);
const { files, licenseTitles, table } = await import(`${scripts}package-texts.mjs`);
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
const pin = JSON.parse(readFileSync(join(root, 'vendor', 'llama.cpp.json'), 'utf8')) as { version: string; tree: string };

interface Component {
  'bom-ref': string;
  name: string;
  version?: string;
  type: string;
  purl?: string;
  scope?: string;
  hashes?: { alg: string; content: string }[];
  properties?: { name: string; value: string }[];
}

interface Sbom {
  metadata: { component: Component };
  components: Component[];
  dependencies: { ref: string; dependsOn?: string[] }[];
}

const validator = new Validation.JsonStrictValidator(Spec.Version.v1dot5);
const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

async function check(t: Test, text: string): Promise<Sbom> {
  t.equal(await validator.validate(text), null, 'it is CycloneDX 1.5');
  const sbom = JSON.parse(text) as Sbom;
  const refs = [sbom.metadata.component, ...sbom.components].map((one) => one['bom-ref']);
  t.equal(new Set(refs).size, refs.length, 'each has a name of its own');
  const named = sbom.dependencies.flatMap(({ ref, dependsOn = [] }) => [ref, ...dependsOn]);
  t.strictSame(named.filter((ref) => !refs.includes(ref)), [], 'dependencies are of what is listed');
  const reached = new Set<string>();
  const visit = (ref: string): void => {
    if (reached.has(ref)) return;
    reached.add(ref);
    for (const next of sbom.dependencies.find((one) => one.ref === ref)?.dependsOn ?? []) visit(next);
  };
  visit(refs[0]!);
  t.strictSame(refs.filter((ref) => !reached.has(ref)), [], 'nothing is listed that nothing needs');
  return sbom;
}

t.test('the archive of recua holds an SBOM, with everything that npm installs beside it', async (t) => {
  const to = t.testdir();
  const pack = `const { packRecua } = await import(${JSON.stringify(`${scripts}pack.mjs`)}); process.stdout.write('\\n' + (await packRecua(${JSON.stringify(to)})).file);`;
  const packed = spawnSync(process.execPath, ['--input-type=module', '-e', pack], { cwd: root, encoding: 'utf8' });
  t.equal(packed.status, 0, packed.stderr);
  const archive = join(to, packed.stdout.split('\n').at(-1)!);
  const text = spawnSync('tar', ['-xzOf', archive, 'package/sbom.cdx.json'], { encoding: 'utf8', maxBuffer: 1 << 26 }).stdout;
  const sbom = await check(t, text);
  t.match(sbom.metadata.component, { name: 'recua', version, purl: `pkg:npm/recua@${version}` });

  // npm's own list of installed packages without development dependencies.
  const { stdout } = spawnSync('npm', ['ls', '--omit=dev', '--all', '--json', '--silent'], { cwd: root, encoding: 'utf8', maxBuffer: 1 << 26, shell: process.platform === 'win32' });
  const wanted = new Set<string>();
  const collect = ({ dependencies = {} }: { dependencies?: Record<string, { version?: string; dependencies?: object }> }): void => {
    for (const [name, one] of Object.entries(dependencies)) {
      // An optional package that is not installed has no version.
      if (one.version !== undefined) wanted.add(`${name}@${one.version}`);
      collect(one as Parameters<typeof collect>[0]);
    }
  };
  collect(JSON.parse(stdout) as Parameters<typeof collect>[0]);
  const optional = /^@opentelemetry\/(?!api@)/;
  const listed = new Set(sbom.components.filter(({ 'bom-ref': ref, purl }) => purl?.startsWith('pkg:npm/') && !/^(web\/|@recua\/)/.test(ref)).map(({ name, version }) => `${name}@${version}`));
  t.ok(wanted.size > 100);
  t.strictSame([...wanted].filter((one) => !listed.has(one) && !optional.test(one)), [], 'none is missing');
  t.strictSame([...listed].filter((one) => !wanted.has(one)), [], 'none is too much');

  const of = (ref: string): Component | undefined => sbom.components.find((one) => one['bom-ref'] === ref);
  t.match(of('llama.cpp'), { version: pin.version, properties: [{ name: 'recua:git-tree', value: pin.tree }] });
  t.match(of('builtin/builtin.gguf')?.hashes, [{ alg: 'SHA-256', content: sha256(readFileSync(join(root, 'builtin', 'builtin.gguf'))) }]);
  t.match(of(`@recua/linux-x64@${version}`), { scope: 'optional' });
  t.strictSame(sbom.components.filter(({ 'bom-ref': ref }) => ref.startsWith('web/')).map(({ name }) => name).sort(), ['@highlightjs/cdn-assets', 'htm', 'marked', 'pdfjs-dist', 'preact', 'temml']);
});

t.test('each package with native code holds an SBOM, with llama.cpp and the hash of every file', async (t) => {
  const stage = t.testdir();
  for (const target of Object.values<any>(table)) {
    const folder = join(stage, target.name);
    const names = (files(target) as string[]).filter((name) => name.startsWith('bin/'));
    for (const [at, name] of names.entries()) {
      mkdirSync(dirname(join(folder, name)), { recursive: true });
      writeFileSync(join(folder, name), `${name} ${at}`);
    }
    t.ok(files(target).includes('sbom.cdx.json'), `${target.name}: pack refuses one without it`);
    const text = JSON.stringify(platformSbom(target, folder));
    t.equal(JSON.stringify(platformSbom(target, folder)), text, 'the same package has the same one');
    const sbom = await check(t, text);
    t.match(sbom.metadata.component, { group: '@recua', name: target.name, version, purl: `pkg:npm/%40recua/${target.name}@${version}` });
    t.match(sbom.components[0], { name: 'llama.cpp', version: pin.version, purl: `pkg:github/ggml-org/llama.cpp@${pin.version}`, properties: [{ value: pin.tree }] });
    t.strictSame(sbom.components.filter(({ type }) => type === 'file').map(({ name, hashes }) => [name, hashes]),
      names.map((name) => [name, [{ alg: 'SHA-256', content: sha256(readFileSync(join(folder, name))) }]]));
    t.equal(sbom.components.some(({ name }) => name === 'libgomp'), licenseTitles(target).includes('libgomp'), target.name);
    t.equal(sbom.components.some(({ name, version }) => name === 'cpp-httplib' && /^\d+\.\d+\.\d+$/.test(version!)), target.isBase);
    t.equal(sbom.components.some(({ name }) => name === 'cuda-runtime'), target.backend === 'cuda');
  }
});
