// Faulty CPU libraries: real libraries, loaded by real engines.
import t from 'tap';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { builtWithout } from '#recua/engine/proof/built-without.js';
import { allFamilies, familiesOf } from '#recua/engine/proof/families.js';
import { knownRefused, proveNow, unusable } from '#recua/engine/proof/prove.js';
import { tensorTypes } from '#recua/models/gguf/tensor-types.js';
import { engineConfigSettings as engineSettings } from '#recua/settings/config.js';
import { kernelsOf } from '#recua/models/needs/kernels.js';
import { root } from '../../native/fake-backend.js';
import { packagedAddon } from './faulty.js';

const skip = process.platform === 'linux' ? false : 'the libraries of this test are for Linux';

interface Start {
  content?: string;
  code?: string;
  message?: string;
  /** Log lines about CPU libraries. */
  log: string[];
}

interface World {
  home: string;
  env: Record<string, string>;
}

function world(folder: string, addon: string): World {
  const home = join(folder, 'home');
  mkdirSync(home, { recursive: true });
  return { home, env: { RECUA_ADDON: addon, SERVICE_HOME: home, FAULTY_LOG: join(folder, 'inits') } };
}

const initsOf = ({ env }: World): number => (existsSync(env['FAULTY_LOG']!) ? readFileSync(env['FAULTY_LOG']!, 'utf8').trim().split('\n').length : 0);

/** A program that loads the built-in model and asks it a question. */
function start({ env }: World, options: object = {}, more: Record<string, string> = {}): Start {
  const body = `
    const { loadModel } = await import(${JSON.stringify(pathToFileURL(join(root, 'dist', 'index.js')).href)});
    const log = [];
    try {
      const model = await loadModel('builtin', { sandbox: 'off', gpuLayers: 0, ...${JSON.stringify(options)}, onLog: (level, text) => {
        if (/libggml-cpu|CPU library|attention (avx|plain|neon)/.test(text)) log.push(level + ' ' + text);
      } });
      const { content } = await model.chat('Hello!', { maxTokens: 8, temperature: 0 });
      await model.dispose();
      console.log(JSON.stringify({ content, log }));
    } catch (error) {
      console.log(JSON.stringify({ code: error.code, message: error.message, log }));
    }`;
  const { stdout, stderr, status } = spawnSync(process.execPath, ['--input-type=module', '-e', body], { encoding: 'utf8', cwd: '/', env: { ...process.env, ...env, ...more } });
  if (status !== 0 || stdout === '') throw new Error(`no outcome: ${stderr}`);
  return JSON.parse(stdout) as Start;
}

t.test('a library with an illegal instruction gives way to the next best, and that is remembered', { skip }, (t) => {
  const folder = t.testdir();
  const here = world(folder, packagedAddon(join(folder, 'bin'), [['best', 'illegal', 9], ['good', 'none', 5], ['worse', 'none', 1]]));
  const first = start(here);
  t.type(first.content, 'string');
  t.match(first.log, [/^debug libggml-cpu-good\.so passed its test: \d+ families/, /^warn libggml-cpu-best\.so failed its test on this processor and is not used: .*products of f16 weights: it ended the process \(signal SIGILL\)/]);
  t.equal(initsOf(here), 3, 'two checks and an engine');

  const second = start(here);
  t.equal(second.content, first.content);
  t.strictSame(second.log, [first.log[1]], 'nothing is checked, and the log says again what is not used');
  t.equal(initsOf(here), 4, 'no process but the engine');

  const file = join(here.home, 'recua', 'cpu-proof.json');
  t.equal(statSync(file).mode & 0o777, 0o600);
  const path = join(folder, 'bin', 'libggml-cpu-best.so');
  utimesSync(path, 1, 1);
  start(here);
  t.equal(initsOf(here), 7, 'another file is checked again');

  writeFileSync(file, '{"version": 1, "entries": [{"key": 7');
  start(here);
  t.equal(initsOf(here), 10, 'a damaged memory is an empty one');
  t.match(JSON.parse(readFileSync(file, 'utf8')), { version: 1, entries: [{ refused: { [path]: String } }] });
  t.end();
});

t.test('a wrong number is found, in the process and in the program alike', { skip }, (t) => {
  const folder = t.testdir();
  const here = world(folder, packagedAddon(join(folder, 'bin'), [['best', 'wrong', 9], ['good', 'none', 5]]));
  const refusal = /^warn libggml-cpu-best\.so failed its test on this processor and is not used: .*products of f16 weights: product of \d+ rows: value \d+ of row \d+ is \S+ instead of \S+$/;
  const isolated = start(here, {}, { SERVICE_HOME: join(folder, 'one') });
  t.type(isolated.content, 'string');
  t.match(isolated.log.at(-1), refusal);
  const local = start(here, { isolated: false }, { SERVICE_HOME: join(folder, 'two') });
  t.equal(local.content, isolated.content);
  t.match(local.log.at(-1), refusal);
  const confined = start(here, { sandbox: 'auto' }, { SERVICE_HOME: join(folder, 'three') });
  t.match(confined.log.at(-1), refusal);
  t.end();
});

t.test('faults of loading, of attention, and of a type that only some models have are found, too', { skip }, (t) => {
  const folder = t.testdir();
  const of = (name: string, levels: Parameters<typeof packagedAddon>[1]): Start & { there: World } => {
    const there = world(join(folder, name), packagedAddon(join(folder, name, 'bin'), levels));
    return { ...start(there), there };
  };
  const loading = of('loading', [['best', 'load', 9], ['good', 'none', 5]]);
  t.type(loading.content, 'string');
  t.match(loading.log.at(-1), /libggml-cpu-best\.so failed its test on this processor and is not used: loading it: it ended the process \(signal SIGILL\)/);
  const attention = of('attention', [['best', 'attention', 9], ['good', 'none', 5]]);
  t.match(attention.log.at(-1), /libggml-cpu-best\.so failed its test on this processor and is not used: attention over f16 keys and f16 values: attention of \d+ rows/);
  // The built-in model has no such weights, so the library works for it.
  const other = of('q4_K', [['best', 'q4_K', 9], ['good', 'none', 5]]);
  t.match(other.log, [/^debug libggml-cpu-best\.so passed/]);
  t.end();
});

t.test("a faulty kernel of Recua's own attention is left out, and the library stays", { skip }, (t) => {
  const folder = t.testdir();
  const here = world(folder, packagedAddon(join(folder, 'bin'), [['only', 'own', 9]]));
  const { content, log } = start(here);
  t.type(content, 'string');
  t.match(log[0], /^debug libggml-cpu-only\.so passed/);
  const left = log.slice(1);
  t.match(left.at(-1), /^warn attention plain failed its test on this processor and is not used: .*Recua's attention \(plain\) over f16 keys and f16 values/);
  t.strictSame(left.filter((line) => !/^warn attention \w+ failed its test on this processor and is not used/.test(line)), [], 'each of them, until ggml attends');
  t.end();
});

t.test('if no library is left, the error says what to do', { skip }, (t) => {
  const folder = t.testdir();
  const here = world(folder, packagedAddon(join(folder, 'bin'), [['best', 'illegal', 9], ['worse', 'wrong', 5]]));
  for (const isolated of [true, false]) {
    t.match(start(here, { isolated }), { code: 'backend_unusable', message: /, found none: No CPU backend of .*SIGILL.*; .*instead of.*RECUA_ADDON names.*RECUA_CPU_CHECK=off/ });
  }
  const linked = { library: '/clone/build/Release/libggml-cpu.so', linked: true, features: {} };
  t.match(unusable({ kind: 'broken', chosen: linked, blamed: { library: linked.library }, family: 'elements', reason: 'why', late: false }, {}),
    /, but libggml-cpu\.so does not: why\. Run `npm run setup`, which rebuilds it/);
  t.end();
});

t.test('RECUA_CPU_CHECK=off checks nothing and records nothing', { skip }, (t) => {
  const folder = t.testdir();
  const here = world(folder, packagedAddon(join(folder, 'bin'), [['best', 'wrong', 9], ['good', 'none', 5]]));
  const off = start(here, {}, { RECUA_CPU_CHECK: 'off' });
  t.type(off.content, 'string');
  t.strictSame(off.log, []);
  t.equal(initsOf(here), 1);
  t.notOk(existsSync(join(here.home, 'recua', 'cpu-proof.json')));
  t.end();
});

t.test('a process that dies of an illegal instruction voids the recorded proof', { skip }, (t) => {
  const folder = t.testdir();
  const here = world(folder, packagedAddon(join(folder, 'bin'), [['best', 'illegal', 9], ['good', 'none', 5]]));
  const { content } = start(here);
  // As if the processor had changed: a machine that was migrated while it ran.
  const file = join(here.home, 'recua', 'cpu-proof.json');
  const memory = JSON.parse(readFileSync(file, 'utf8')) as { entries: { refused: object }[] };
  memory.entries[0]!.refused = {};
  writeFileSync(file, JSON.stringify(memory));
  const later = start(here);
  t.equal(later.content, content, 'the request goes on in the next process');
  t.match(later.log.at(-1), /^warn libggml-cpu-best\.so failed its test on this processor and is not used: .*SIGILL/);
  t.end();
});

t.test('every tensor type of GGUF belongs to a known family of kernels', async (t) => {
  for (const { name: type } of tensorTypes.values()) {
    const families = kernelsOf({ parts: [{ tensors: ['blk.0.ffn_up.weight', 'blk.0.ffn_up_exps.weight'].map((name) => ({ name, type })) }] } as never);
    if (/^(I\d+|F64|Q8_1|Q8_K)$/.test(type)) t.strictSame(families, [], type);
    else t.strictSame(families.filter((family) => !allFamilies.includes(family)), [], type);
  }
  t.strictSame(familiesOf({ kernels: ['products q4_K'], cacheTypeK: 'f16', cacheTypeV: 'q8_0' }), [
    'elements', 'products q4_K', 'products f16', 'products q8_0', 'attention f16 q8_0']);
  t.ok(allFamilies.every((family) => familiesOf({ cacheTypeK: 'f16', cacheTypeV: 'f16' }).includes(family) || family.startsWith('attention')));
  const { addon } = await import('../../native/setup.js');
  for (const [wrong, message] of [['products q4_9', /a type such as q4_K/], ['products i32', /No products of i32/], ['nothing', /family of kernels/]] as const) {
    t.throws(() => addon.proveCpu(wrong), { code: 'invalid_argument', message });
  }
  t.throws(() => addon.refuseAttention('none'), { code: 'invalid_argument' });
  // The cache types that --cache-type-k offers, which attention supports.
  const cacheTypes = engineSettings.cacheTypeK.choices;
  for (const k of cacheTypes) for (const v of cacheTypes) t.equal(addon.proveCpu(`attention ${k} ${v}`), '', `${k} ${v}`);
});

t.test('a process that could not try a library says nothing about it', { skip }, async (t) => {
  const folder = t.testdir();
  const { env, home } = world(folder, packagedAddon(join(folder, 'bin'), [['only', 'none', 9]]));
  const before = { ...process.env };
  // A signal ends Node, as a broken library might.
  Object.assign(process.env, env, { NODE_OPTIONS: '--max-old-space-size=1' });
  t.teardown(() => (process.env = before));
  const lines: string[] = [];
  const log = (level: string, text: string): void => void lines.push(`${level} ${text}`);
  t.match(await proveNow(['elements'], { confined: 'no', log }), { refused: {}, chosen: undefined });
  t.match(lines, [/^warn the CPU library could not be checked: the process that tries it ended \(signal SIG(ABRT|TRAP)\)/]);
  t.notOk(existsSync(join(home, 'recua', 'cpu-proof.json')));
});

t.test("instruction sets that a clone's build leaves out are reported", (t) => {
  const build = { 'cpu-without.json': JSON.stringify({ key: {}, without: [{ name: 'amx', reason: 'products of q4_0 weights: signal SIGILL' }] }) };
  const clone = { root: t.testdir({ 'CMakeLists.txt': '', build }), version: '1.0.0', llamaCpp: 'v1' };
  t.match(builtWithout(clone, {}), [/^the CPU library is built without amx, with which it failed its test .*: products of q4_0 weights: signal SIGILL$/]);
  t.strictSame(builtWithout(clone, { RECUA_ADDON: '/elsewhere/recua.node' }), []);
  writeFileSync(join(clone.root, 'build', 'cpu-without.json'), '{"without": 3}');
  t.strictSame(builtWithout(clone, {}), []);
  t.end();
});

t.test('a library that hangs twice is refused for a day', { skip }, async (t) => {
  const folder = t.testdir();
  const { env, home } = world(folder, packagedAddon(join(folder, 'bin'), [['best', 'hang', 9], ['good', 'none', 5]]));
  const before = { ...process.env };
  Object.assign(process.env, env);
  t.teardown(() => (process.env = before));
  const lines: string[] = [];
  const { refused, chosen } = await proveNow(['elements', 'products f16'], { confined: 'if it can be', limitMs: 6000, log: (level, text) => lines.push(`${level} ${text}`) });
  t.strictSame(refused, { [join(folder, 'bin', 'libggml-cpu-best.so')]: 'products of f16 weights: it did not end within 6 s' });
  t.equal(chosen?.library, join(folder, 'bin', 'libggml-cpu-good.so'));
  t.match(lines, [/^debug .*2 families/]);
  const file = join(home, 'recua', 'cpu-proof.json');
  const known = JSON.parse(readFileSync(file, 'utf8')) as { entries: { untilMs: number }[] };
  t.match(known, { entries: [{ proved: ['elements', 'products f16'], refused }] });
  t.strictSame(knownRefused(), refused);
  known.entries[0]!.untilMs -= 24 * 3_600_000;
  writeFileSync(file, JSON.stringify(known));
  t.strictSame(knownRefused(), {}, 'the machine may have been slow');

  const stop = new AbortController();
  const begun = performance.now();
  const stopped = proveNow(['products q4_0'], { confined: 'no', signal: stop.signal, log: () => {} });
  stop.abort();
  t.match(await stopped, { chosen: undefined });
  t.ok(performance.now() - begun < 15_000, 'who is stopped waits for nothing');
});

t.test('if the state folder cannot be written, each start checks', { skip }, (t) => {
  const folder = t.testdir({ home: { recua: 'a file where the folder would be' } });
  const here = world(folder, packagedAddon(join(folder, 'bin'), [['good', 'none', 5]]));
  for (const inits of [2, 4]) {
    t.match(start(here).log, [/could not be noted/, /^debug libggml-cpu-good\.so passed/]);
    t.equal(initsOf(here), inits);
  }
  t.end();
});
