// The GBNF parser: it accepts llama.cpp's language, reports errors by line and column, and no text
// makes it hang, overflow the stack or take unbounded memory. Texts that would do so to llama.cpp's
// parser go only to ours.
import { execFileSync } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import type { NativeModel } from '#recua/addon/addon.js';
import { root } from '../fake-backend.js';
import { bothWays, loadRandom, tokensOf } from '../random-model.js';
import { addon, chatPrompt, loadBuiltin } from '../setup.js';

const vendored = (path: string) => new URL(`../../../vendor/llama.cpp/${path}`, import.meta.url);

let model: NativeModel;
t.before(async () => {
  model = await loadBuiltin();
});
t.teardown(() => model.close());

/** The error of a sampler with this grammar, or undefined. */
async function refusal(grammar: string, chain = false): Promise<string | undefined> {
  try {
    (await model.createSampler({ temperature: 0, grammar, chain }, new Int32Array())).close();
    return undefined;
  } catch (error) {
    t.equal((error as { code?: string }).code, 'invalid_grammar');
    return (error as Error).message;
  }
}

t.test('an error has its place, what was expected and what came', async (t) => {
  const wrong: [string, RegExp][] = [
    ['', /^$/],
    ['nothing', /line 1, column 8: expected "::=", got the end of the grammar/],
    ['root := "x"', /line 1, column 6: expected "::=", got ":"/],
    ['root ::= "x"\nb ::= "y" )', /line 2, column 11: expected an element of a rule, "\|" or the end of the line, got "\)"/],
    ['root ::= ("a" | "b"', /line 1, column 20: expected "\)" for the "\(" of line 1, column 10, got the end of the grammar/],
    ['root ::= "abc', /column 14: expected " at the end of the text that began at line 1, column 10/],
    ['root ::= [a-z', /expected "\]" at the end of the set that began at line 1, column 10/],
    ['root ::= [b-dz-a]', /line 1, column 14: expected a range up to a later character, got z-a/],
    ['root ::= [^\\x7a-a]', /line 1, column 12: expected a range up to a later character, got \\x7a-a/],
    ['root ::= "é\\q"', /line 1, column 13: expected one of .*, got "q"/],
    ['root ::= "\\u12g4"', /column 15: expected 4 hexadecimal digits, got "g"/],
    ['root ::= [^\\U00110000]', /column 22: expected a character up to \\U0010FFFF/],
    ['root ::= * "a"', /column 10: expected something to repeat before it, got "\*"/],
    ['root ::= "a"{x}', /column 14: expected a number of repetitions, got "x"/],
    ['root ::= "a"{5,3}', /column 13: expected a largest number of repetitions of at least the smallest, got \{5,3\}/],
    ['root ::= "a"{99999999999}', /column 13: expected at most 1073741824 repetitions/],
    ['root ::= "a"\n  missing | other', /line 2, column 3: expected the name of a rule|line 2, column 11: expected "::="/],
    ['root ::= a\na ::= "x" missing', /line 2, column 11: expected a rule that the grammar defines, got "missing"/],
    ['a ::= "x"', /expected a rule named "root"/],
    ['root ::= "a\0b"', /line 1, column 12: expected text without NUL bytes .*, got a NUL byte/],
    ['root ::= "yes"\0 | "no"', /column 15: .*NUL/],
    ['root ::= <[99999999]>', /column 10: expected a token from 0 to \d+, got 99999999/],
    ['root ::= <no such token>', /column 10: expected the name of one token/],
    ['%llguidance {}', /llguidance/],
  ];
  for (const [grammar, message] of wrong.slice(1)) t.match(await refusal(grammar), message, JSON.stringify(grammar));
});

t.test('left-recursive rules are refused, however well hidden', async (t) => {
  const recursive = [
    'root ::= root "a" | "b"',
    'root ::= root',
    'root ::= a\na ::= b "x" | "y"\nb ::= a "z" | "w"',
    'root ::= a\na ::= e a "x" | "y"\ne ::= "1" | ""',
    // The first item can be empty only through other rules.
    'root ::= a\na ::= e a "x" | "y"\ne ::= f f\nf ::= g?\ng ::= "1"*',
    'root ::= "ok"\nunused ::= ("" | "x")* unused "y"',
  ];
  for (const grammar of recursive) t.match(await refusal(grammar), /"(root|a|b|unused)" \(line \d+, column \d+\) can begin with itself \(left recursion\)/, grammar);
  t.equal(await refusal('root ::= ("a"? "b"?)* "c"'), undefined, 'a repetition of what may be empty is none');
});

t.test('no text takes long, nests deep or grows large', async (t) => {
  const times = (count: number, text: (i: number) => string, between = '') => Array.from({ length: count }, (_, i) => text(i)).join(between);
  const hostile: [string, string, RegExp | undefined][] = [
    ['two ways at each of 60 levels', `root ::= a0\n${times(60, (i) => `a${i} ::= a${i + 1} | a${i + 1}`, '\n')}\na60 ::= "x"`, undefined],
    ['two nullable ways at each of 60 levels', `root ::= a0 "."\n${times(60, (i) => `a${i} ::= a${i + 1} a${i + 1} | ""`, '\n')}\na60 ::= "x"`, undefined],
    ['left recursion behind 60 such levels', `root ::= a0\n${times(60, (i) => `a${i} ::= a${i + 1} | a${i + 1}`, '\n')}\na60 ::= root "x"`, /left recursion/],
    ['brackets within texts', `root ::= ${times(18_750, () => '")"(')}`, /expected "\)"/],
    ['a comment full of brackets', `# ${')'.repeat(100_000)}${'('.repeat(100_000)}\nroot ::= "x"`, undefined],
    ['100,000 parentheses in one another', `root ::= ${'('.repeat(100_000)}"x"${')'.repeat(100_000)}`, undefined],
    ['parentheses that stay open', `root ::= ${'('.repeat(500_000)}`, /expected "\)"/],
    ['more parentheses than there may be', `root ::= ${'('.repeat(1_200_000)}`, /at most 1048576 rules/],
    ['a chain of 100,000 rules', `root ::= r0\n${times(100_000, (i) => `r${i} ::= r${i + 1} "x"?`, '\n')}\nr100000 ::= "y"`, undefined],
    ['400,000 alternatives', `root ::= ${times(400_000, (i) => `"${i}"`, ' | ')}`, undefined],
    ['400,000 alternatives that are one', `root ::= ${times(400_000, () => '"same"', ' | ')}`, undefined],
    ['repetitions of repetitions', 'root ::= (("a"{1000} | "b"){1000} "c"{0,2000}){1000}{1000}', undefined],
    ['a text that is repeated too often to be written out', `root ::= "${'x'.repeat(10_000)}"{1000000}{1000000,}`, undefined],
    ['texts of five million characters', `root ::= "${'x'.repeat(5_000_000)}"`, /at most 4194304 characters/],
    ['70,000 classes of characters', `root ::= [${times(70_000, (i) => String.fromCodePoint(0x10000 + 2 * i))}]+`, undefined],
    ['a name without end', `root ::= ${'a'.repeat(1_000_000)}`, /expected a rule that the grammar defines/],
    ['a token without end', `root ::= <${'a'.repeat(1_000_000)}>`, /the name of a token/],
  ];
  for (const [name, grammar, message] of hostile) {
    const refused = await refusal(grammar);
    if (message) t.match(refused, message, name);
    else t.equal(refused, undefined, name);
  }
});

t.test('names of tokens are looked up once each, and counted', { skip: process.platform === 'win32' && 'needs c++' }, (t) => {
  const program = join(t.testdir(), 'check');
  const native = join(root, 'native');
  const parser = readdirSync(join(native, 'grammar')).filter((name) => /^gbnf.*\.cpp$/.test(name)).map((name) => join(native, 'grammar', name));
  execFileSync(process.env['CXX'] || 'c++', ['-std=c++17', '-O1', `-I${native}`, join(root, 'test', 'native', 'grammar', 'token-names.cpp'), ...parser, '-o', program],
    { stdio: ['ignore', 'inherit', 'inherit'] });
  const { ofOne, refused, ofMany } = JSON.parse(execFileSync(program, { encoding: 'utf8' })) as { ofOne: number; refused: boolean; ofMany: number };
  t.equal(ofOne, 1);
  t.ok(refused && ofMany < 21_000, `refused after ${ofMany} of 100,000 names`);
  t.end();
});

t.test('the largest repetition counts are counted', async (t) => {
  const large = await loadRandom(t);
  t.teardown(() => large.close());
  const prompt = Int32Array.of(5);
  for (const [least, most] of [[7, 7], [3, 5000], [5000, 5000], [2, 1e9]] as const) {
    // Single letters, so that each token is one repetition. The end comes as soon as it is allowed.
    const [x, dot] = [...await large.tokenize('x', false, true), ...await large.tokenize('.', false, true)];
    const logitBias = [{ token: x!, bias: 20 }, { token: dot!, bias: 40 }];
    const tokens = await tokensOf(large, { temperature: 0, grammar: `root ::= "x"{${least},${most}} "."`, logitBias }, prompt, 40);
    const expected = Math.min(least, 40);
    t.strictSame(tokens.slice(0, expected), Array.from({ length: expected }, () => x), `${least} at least`);
    t.equal(tokens[least], least < 40 ? dot : undefined);
    // And with a preference for continuing.
    const on = await tokensOf(large, { temperature: 0, grammar: `root ::= "x"{0,${Math.min(most, 33)}} "."`, logitBias: [logitBias[0]!] }, prompt, 40);
    t.equal(on.indexOf(dot!), Math.min(most, 33), `${most} at most`);
  }
});

t.test("all grammars of llama.cpp's tests and examples get the verdict of llama.cpp", async (t) => {
  const given = readdirSync(vendored('grammars/')).filter((name) => name.endsWith('.gbnf')).map((name) => readFileSync(vendored(`grammars/${name}`), 'utf8'));
  for (const name of ['test-grammar-integration', 'test-grammar-parser', 'test-llama-grammar', 'test-json-schema-to-grammar']) {
    const source = readFileSync(vendored(`tests/${name}.cpp`), 'utf8');
    for (const [, text] of source.matchAll(/R"""\(([^]*?)\)"""/g)) if (text!.includes('::=')) given.push(text!.trim().replaceAll(/^ +(?=\S+ +::=)/gm, ''));
  }
  t.ok(given.length > 100, `${given.length} grammars`);
  for (const grammar of given) {
    // llama.cpp supports at most 2,000 repetitions.
    if (/\{5000|(?:\{0,99\}\)){2}/.test(grammar)) continue;
    const own = await refusal(grammar);
    if (own !== undefined && /left recursion|a token/.test(own)) continue;
    t.equal(own === undefined, (await refusal(grammar, true)) === undefined, `${grammar}\n${own}`);
  }
});

/** Repeatable random numbers below a bound. */
function random(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/**
 * Five rules whose alternatives begin with distinct characters: an ambiguous grammar may take
 * llama.cpp forever.
 */
function randomGrammar(below: (bound: number) => number): string {
  const names = ['root', 'a', 'b', 'c', 'd'];
  const repetitions = ['', '', '*', '+', '?', '{2}', '{0,2}', '{1,}'];
  const item = (depth: number): string => {
    const which = below(depth > 1 ? 4 : 6);
    if (which < 3) return `${['"u"', '"vu"', '[u-w]'][which]}${repetitions[below(8)]}`;
    if (which === 3) return names[below(5)]!;
    return `(${alternatives(depth + 1)})${repetitions[below(3)]}`;
  };
  const alternatives = (depth: number): string => Array.from({ length: 1 + below(3) }, (_, i) =>
    [`"${'pqr'[i]}"`, ...Array.from({ length: below(3) }, () => item(depth))].join(' ')).join(' | ');
  return names.map((name) => `${name} ::= ${alternatives(0)}${below(3) === 0 ? ' | ""' : ''}`).join('\n');
}

t.test('random grammars accept the same language as in llama.cpp', async (t) => {
  let compared = 0;
  for (let seed = 1; compared < 40 && seed < 400; seed++) {
    const grammar = randomGrammar(random(seed));
    // llama.cpp's parser must not get texts that may hang it.
    if ((await refusal(grammar)) !== undefined) continue;
    compared++;
    t.equal(await refusal(grammar, true), undefined, grammar);
    const { own, chain } = await bothWays(model, { temperature: 5, seed, grammar, grammarKind: 'user' }, Int32Array.of(5), 10);
    t.strictSame(own, chain, `seed ${seed}\n${grammar}`);
  }
  t.equal(compared, 40);
});

t.test('tokens may be named by number and by name, and excluded', async (t) => {
  const large = await loadRandom(t);
  t.teardown(() => large.close());
  const [end] = await large.tokenize('<|im_start|>', false, true);
  const cases: [string, (tokens: number[]) => boolean][] = [
    ['root ::= <[100]> "a" <[200]>', ([one, , three]) => one === 100 && three === 200],
    ['root ::= <|im_start|> !<[300]> "."', ([one, two]) => one === end && two !== 300],
    ['root ::= (<[100]> | <[101]>)+ <[9]>', ([one]) => one === 100 || one === 101],
  ];
  for (const [grammar, fits] of cases) {
    for (const temperature of [0, 1]) {
      const own = await tokensOf(large, { temperature, seed: 5, grammar }, Int32Array.of(5), 3);
      t.ok(own.every((token) => token >= 0) && fits(own), `${grammar}, temperature ${temperature}: ${own.join()}`);
    }
  }
});

t.test("samplers of llama.cpp's chain draw from what the grammar allows", async (t) => {
  const large = await loadRandom(t);
  t.teardown(() => large.close());
  const grammar = readFileSync(vendored('grammars/json.gbnf'), 'utf8');
  for (const more of [
    { mirostat: 2 as const, mirostatTau: 5, mirostatEta: 0.1 },
    { typicalP: 0.9 },
    { xtcProbability: 0.5, xtcThreshold: 0.1 },
    { topNSigma: 2 },
  ]) {
    const { own, chain } = await bothWays(large, { temperature: 1, seed: 8, grammar, ...more }, Int32Array.of(5), 8);
    t.strictSame(own, chain, JSON.stringify(more));
  }
});

t.test('a vocabulary that puts a space before the first token takes schemas with any template', async (t) => {
  const spm = await addon.loadModel({ path: fileURLToPath(vendored('models/ggml-vocab-llama-spm.gguf')), gpuLayers: 0, mmap: true, mlock: false, vocabOnly: true }).promise;
  t.teardown(() => spm.close());
  const template = '{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}';
  const chat = await chatPrompt(spm, 'Hi', { template, jsonSchema: '{"type":"object","properties":{"a":{"type":"integer"}}}' });
  t.not(chat.generationPrompt, '');
  (await spm.createSampler({
    temperature: 0, grammar: chat.grammar, grammarKind: chat.grammarKind, generationPrompt: chat.generationPrompt,
  }, new Int32Array())).close();
});

t.test('a long name of a rule is kept once, not for each of its parts', async (t) => {
  const grammar = `${'a'.repeat(20_000)} ::= ${'"x"{0,1000} '.repeat(50)}\nroot ::= "y"`;
  const before = process.resourceUsage().maxRSS;
  (await model.createSampler({ temperature: 0, grammar, grammarKind: 'user' }, new Int32Array())).close();
  const grownMib = (process.resourceUsage().maxRSS - before) / 1024;
  t.ok(grownMib < 300, `${grownMib.toFixed(0)} MiB for ${grammar.length} bytes`);
});
