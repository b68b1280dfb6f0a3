// What set-up does if the library it built computes wrong results.
import t, { type Test } from 'tap';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { faultyLinked } from '../engine/proof/faulty.js';
import { root } from '../native/fake-backend.js';
import { scripts } from './checkout.js';

interface Level {
  name: string;
}
interface Choice {
  name: string;
  reason: string;
}

const { levels, nextWithout, readChoice, withoutOptions, writeChoice } = await import(`${scripts}processor.mjs`) as {
  levels(arch: string, platform: string): Level[];
  nextWithout(features: object | undefined, without: readonly string[], levels: Level[]): Level | undefined;
  readChoice(path: string, key: () => object): Choice[];
  writeChoice(without: readonly Choice[], path: string, key: () => object): void;
  withoutOptions(names: readonly string[]): string[];
};
const x64 = levels('x64', 'linux');
const sapphireRapids = { AVX: '1', AVX2: '1', F16C: '1', FMA: '1', AVX512: '1', AVX512_VNNI: '1', AVX512_BF16: '1', AMX_INT8: '1' };

t.test('the newest instruction set of a library is left out first', (t) => {
  const order = (features: object | undefined): string[] => {
    const names: string[] = [];
    for (let next = nextWithout(features, names, x64); next; next = nextWithout(features, names, x64)) names.push(next.name);
    return names;
  };
  t.strictSame(order(sapphireRapids), ['amx', 'avx512-extensions', 'avx512', 'avx2']);
  t.strictSame(order({ AVX2: '1', FMA: '1' }), ['avx2']);
  t.strictSame(order({ AVX: '1' }), [], 'nothing is left');
  t.strictSame(order(undefined), ['amx', 'avx512-extensions', 'avx512', 'avx2'], 'one that breaks before it can tell');
  t.equal(nextWithout({ DOTPROD: '1' }, [], levels('arm64', 'linux'))?.name, 'native');
  t.strictSame(withoutOptions(['amx', 'avx512']), ['RECUA_CPU_WITHOUT=amx,avx512']);
  t.strictSame(withoutOptions([]), []);
  t.equal(withoutOptions(['native'])[0], 'GGML_NATIVE=OFF');
  t.end();
});

t.test('a choice applies to one processor, compiler and llama.cpp', (t) => {
  const path = join(t.testdir(), 'cpu-without.json');
  const choice = [{ name: 'amx', reason: 'products of q4_0 weights' }];
  writeChoice(choice, path, () => ({ processor: 'a' }));
  t.strictSame(readChoice(path, () => ({ processor: 'a' })), choice);
  t.strictSame(readChoice(path, () => ({ processor: 'b' })), []);
  writeFileSync(path, '{"without": [');
  t.strictSame(readChoice(path, () => ({ processor: 'a' })), []);
  writeChoice([], path, () => ({}));
  t.notOk(existsSync(path));
  t.end();
});

const noX64 = process.arch !== 'x64' || process.platform !== 'linux' ? 'this is about x86-64' : false;

t.test("the compiler flags on cmake's list turn those instruction sets off", { skip: noX64 }, (t) => {
  const text = readFileSync(join(root, 'cmake', 'cpu-backend.cmake'), 'utf8');
  const macros: Record<string, RegExp> = { amx: /__AMX_/, 'avx512-extensions': /__AVX512(VNNI|BF16|VBMI)__|__AVXVNNI__/, avx512: /__AVX512/, avx2: /__(AVX2|FMA|F16C)__/ };
  const defined = (options: readonly string[]): string => execFileSync('c++', ['-march=sapphirerapids', ...options, '-dM', '-E', '-x', 'c++', '/dev/null'], { encoding: 'utf8' });
  if (spawnSync('c++', ['-march=sapphirerapids', '-E', '-x', 'c++', '/dev/null']).status !== 0) return t.end();
  const all = defined([]);
  for (const { name } of x64) {
    const features = new RegExp(`^set\\(without_${name} (.*)\\)$`, 'm').exec(text)![1]!.split(' ');
    const known = features.map((feature) => `-mno-${feature}`).filter((option) => spawnSync('c++', [option, '-E', '-x', 'c++', '/dev/null']).status === 0);
    t.match(all, macros[name]!);
    t.notMatch(defined(known), macros[name]!, name);
  }
  t.end();
});

/** The last part of set-up, with the build of this checkout and a simulated rebuild. */
function settingUp(t: Test, fault: 'illegal' | 'wrong', mendedBy: string): { said: string[]; without: Choice[]; error?: string; note?: string } {
  const body = `
    const { proveProcessor } = await import(${JSON.stringify(`${scripts}processor-check.mjs`)});
    const { nextWithout } = await import(${JSON.stringify(`${scripts}processor.mjs`)});
    const { proveNow } = await import(${JSON.stringify(new URL(`file://${join(root, 'dist', 'engine', 'proof', 'prove.js')}`).href)});
    const said = [];
    let without = [];
    process.env.LD_PRELOAD = ${JSON.stringify(faultyLinked(t, fault))};
    const parts = {
      prove: async () => ({ ...await proveNow(['elements', 'products f16'], { anew: true, confined: 'if it can be', log() {} }), texts: [] }),
      read: () => without, write: (now) => { without = now; }, say: (text) => said.push(text), next: nextWithout,
      rebuild: async () => { if (without.some(({ name }) => name === ${JSON.stringify(mendedBy)})) delete process.env.LD_PRELOAD; },
    };
    const note = await proveProcessor(undefined, parts).catch((error) => ({ error: error.message }));
    console.log(JSON.stringify({ said, without, ...(typeof note === 'string' ? { note } : note) }));`;
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', body], { encoding: 'utf8', env: { ...process.env, SERVICE_HOME: t.testdir(), RECUA_ADDON: '' } });
  if (stdout === '') throw new Error(stderr);
  return JSON.parse(stdout) as ReturnType<typeof settingUp>;
}

t.test('the build is repeated until it computes correct results', { skip: noX64 }, (t) => {
  // The features of this checkout's library; the last of its levels is the lowest.
  const features = Object.keys(JSON.parse(execFileSync(process.execPath, ['--input-type=module', '-e', `
    const { openFile } = await import(${JSON.stringify(new URL(`file://${join(root, 'dist', 'addon', 'load.js')}`).href)});
    console.log(JSON.stringify(openFile({ path: ${JSON.stringify(join(root, 'build', 'Release', 'recua.node'))}, source: 'build' }).addon.backends()[0].features));`], { encoding: 'utf8' })) as object);
  const has = Object.fromEntries(features.map((name) => [name, '1']));
  const first = nextWithout(has, [], x64)!.name;
  const second = nextWithout(has, [first], x64)?.name ?? first;
  const { said, without, note } = settingUp(t, 'illegal', second);
  t.strictSame(without.map(({ name }) => name), [...new Set([first, second])]);
  t.match(without[0], { reason: /^products of f16 weights: it ended the process \(signal SIGILL\)/ });
  t.match(said, [/products of f16 weights/, /^ +The library uses .*; rebuilding without it\.$/]);
  t.equal(note, `without ${[...new Set([first, second])].join(', ')}`);

  const never = settingUp(t, 'wrong', 'nothing');
  t.match(never, { error: /even with the fewest instructions: products of f16 weights: product of \d+ rows.*RECUA_CPU_CHECK=off/ });
  t.equal(never.without.at(-1)!.name, 'avx2');
  t.end();
});
