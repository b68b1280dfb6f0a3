// Recua's grammar automaton accepts the language of llama.cpp's grammars, token by token, as far as
// it is well-formed UTF-8: with flat logits a draw can land anywhere in the allowed set, so one
// token too many or too few shows as a different text.
import t from 'tap';
import type { Test } from 'tap';
import { readFileSync } from 'node:fs';
import type { NativeModel } from '#recua/addon/addon.js';
import { bothWays, loadRandom, tokensOf } from '../random-model.js';
import { addon, chatPrompt, contextOptions, loadBuiltin, step } from '../setup.js';

const vendored = (name: string) => readFileSync(new URL(`../../../vendor/llama.cpp/grammars/${name}.gbnf`, import.meta.url), 'utf8');

const grammars: Record<string, string> = {
  words: 'root ::= ("yes" | "no" | "yes and no")',
  digits: 'root ::= [0-9]{3,7} ("." [0-9]+)?',
  any: 'root ::= .*',
  anyButQuote: 'root ::= "\\"" [^"\\n]* "\\""',
  cjk: 'root ::= [一-龯]{4,12} "。"',
  emoji: 'root ::= ("👍" | "👎" | [😀-🙏])+',
  latin: 'root ::= [À-ÿ]{5,20}',
  nested: 'root ::= "(" root? ")" | "[" (root ("," root)*)? "]" | "x"',
  ambiguous: 'root ::= (a | b | c){3,9}\na ::= "x" | "xx"\nb ::= "x" "x"? \nc ::= "xxx"?  "y"',
  emptyAlternatives: 'root ::= a b? "end"\na ::= | "1" a\nb ::= "2" | ',
  whitespace: 'root ::= [ \\t\\n]+ "x" [ ]{0,40} "y"',
  counted: 'root ::= [a-z]{200,400}',
  // Refers to a rule through a chain, with alternatives that begin alike.
  alike: 'root ::= thing+\nthing ::= "the " noun " " | "then " | "there " noun\nnoun ::= "cat" | "car" | "cart" | "ca" [n-z]',
  json: vendored('json'),
  arithmetic: vendored('arithmetic'),
  list: vendored('list'),
  japanese: vendored('japanese'),
  chess: vendored('chess'),
};

/** Of these, draws that the grammar refused at first may land on any character. */
const negated: Record<string, string> = {
  ranges: 'root ::= [^a-zA-Z0-9 ]{2,9} [^\\x00-\\x7F]{1,4}',
  letters: 'root ::= "{" [^a-z]{3,20} "}"',
  text: 'root ::= "\\"" ([^"\\\\\\x7F\\x00-\\x1F] | "\\\\" ["\\\\nrt]){3,30} "\\""',
};

const schemas: object[] = [
  { type: 'object', properties: { name: { type: 'string' }, age: { type: 'integer' } }, required: ['name', 'age'] },
  { type: 'array', items: { type: 'number' }, minItems: 2, maxItems: 5 },
  { enum: ['red', 'green', 'a "quoted" one', 'grün', null, 3] },
  { type: 'object', properties: { at: { type: 'string', format: 'date-time' }, id: { type: 'string', format: 'uuid' } }, required: ['at', 'id'] },
  { type: 'string', pattern: '^[a-f0-9]{4}-[x-z]+$' },
  { anyOf: [{ type: 'boolean' }, { type: 'object', properties: { tags: { type: 'array', items: { type: 'string' } } } }] },
  { $ref: '#/$defs/tree', $defs: { tree: { type: 'object', properties: { value: { type: 'integer' }, children: { type: 'array', items: { $ref: '#/$defs/tree' } } }, required: ['value'] } } },
  { type: 'integer', minimum: -17, maximum: 4711 },
];

let model: NativeModel;
let prompt: Int32Array;
/** Excludes the tokens after which llama.cpp allows malformed UTF-8, and Recua does not. */
let wellFormed: { token: number; bias: number }[];
t.before(async () => {
  model = await loadRandom(t);
  prompt = await model.tokenize('Say something', true, true);
  // Which bytes may follow one of these depends on more than their number.
  const open = /[\xC0\xC1\xF5-\xFF]|[\xE0\xED\xF0\xF4]$/;
  const { flags } = await model.pieces(false);
  wellFormed = [...flags.keys()].filter((token) => open.test(Buffer.from(model.piece(token, true)).toString('latin1'))).map((token) => ({ token, bias: -Infinity }));
  t.ok(wellFormed.length > 4 && wellFormed.length < 40, `${wellFormed.length}`);
});
t.teardown(() => model.close());

const shapes = [{ temperature: 1 }, { temperature: 0 }, { temperature: 0.9, topK: 40, topP: 0.95, minP: 0.05 }];

async function compare(t: { strictSame(a: unknown, b: unknown, message: string): void }, name: string, grammar: string, tokens = 12) {
  for (const [seed, shape] of shapes.entries()) {
    const { own, chain } = await bothWays(model, { ...shape, seed: 77 + seed, grammar, grammarKind: 'user' }, prompt, tokens);
    t.strictSame(own, chain, `${name}, ${JSON.stringify(shape)}`);
  }
}

/** For grammars by which llama.cpp allows malformed UTF-8, too. */
async function compareWellFormed(t: Test, name: string, grammar: string) {
  let same = 0;
  for (let seed = 0; seed < 8; seed++) {
    const { own, chain } = await bothWays(model, { temperature: 1, seed, grammar, grammarKind: 'user', logitBias: wellFormed }, prompt, 12);
    if (own.join() === chain.join()) same++;
  }
  // With biases, the two round differently, which shows in about one of fifty texts. A token too
  // many or too few shows in nearly all.
  t.ok(same >= 5, `${name}: ${same} of 8 texts are equal`);
}

t.test('grammars', async (t) => {
  for (const [name, grammar] of Object.entries(grammars)) await compare(t, name, grammar);
  for (const [name, grammar] of Object.entries(negated)) await compareWellFormed(t, name, grammar);
});

t.test('JSON schemas', async (t) => {
  for (const schema of schemas) {
    const text = JSON.stringify(schema);
    await compare(t, text, (await addon.compileSchema(text)).grammar, 20);
  }
  for (const schema of [{ type: 'object' }, { type: 'string', minLength: 3, maxLength: 30 }]) {
    const text = JSON.stringify(schema);
    await compareWellFormed(t, text, (await addon.compileSchema(text)).grammar);
  }
});

t.test('a lazy grammar is inactive until its trigger, then holds', async (t) => {
  const tools = JSON.stringify([{ type: 'function', function: { name: 'weather', description: 'x', parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } } }]);
  const trained = await loadBuiltin();
  t.teardown(() => trained.close());
  const chat = await chatPrompt(model, 'What is the weather in Lima?', { tools, template: trained.chatTemplate() });
  t.ok(chat.grammarLazy, 'tools with choice auto give a lazy grammar');
  const options = { temperature: 1, shape: chat.shape };
  const idle = await bothWays(model, { ...options, seed: 5 }, prompt, 20);
  t.strictSame(idle.own, idle.chain, 'no trigger: nothing is constrained');
  const triggers = JSON.parse(chat.triggers) as { type: number; value: string }[];
  t.ok(triggers.length > 0);
  for (const seed of [1, 2, 3]) {
    const [first] = await model.tokenize(triggers.find(({ type }) => type !== 2)?.value ?? '<tool_call>', false, true);
    const forced = await bothWays(model, { ...options, seed, logitBias: [{ token: first!, bias: 30 }] }, prompt, 16);
    t.strictSame(forced.own, forced.chain, `trigger, seed ${seed}`);
  }
});

t.test('a piece that ends inside a character continues only with bytes of that character', async (t) => {
  // Rare characters span several byte-level pieces.
  await compare(t, 'rare', 'root ::= [\u{1F9D9}-\u{1F9FF}]{2,5}', 10);
  await compare(t, 'rarer', 'root ::= [\u{10300}-\u{1031F}]{3}', 10);
});

t.test('an answer by a grammar is well-formed UTF-8', async (t) => {
  const pieces = (tokens: readonly number[]) => Buffer.concat(tokens.map((token) => Buffer.from(model.piece(token, true))));
  const rare = [0xE0, 0xED, 0xF0, 0xF4];
  // Makes characters of several tokens likely.
  const logitBias = [...(await model.pieces(false)).flags.keys()]
    .filter((token) => {
      const bytes = model.piece(token, true);
      return (bytes.length === 1 && bytes[0]! >= 0x80) || rare.includes(bytes.at(-1)!);
    })
    .map((token) => ({ token, bias: 15 }));
  let several = 0;
  for (const grammar of ['root ::= [^\\x00-\\x7F]{9}', 'root ::= [\\u0080-\\U0010FFFF]{9}', 'root ::= .{9}', 'root ::= [\\u0700-\\U00010100]{9}']) {
    for (let seed = 0; seed < 10; seed++) {
      const tokens = await tokensOf(model, { temperature: 1, seed, logitBias, grammar, grammarKind: 'user' }, prompt, 40);
      const last = tokens.pop()!;
      t.ok(last >= 0, `${grammar} ends`);
      const text = pieces(tokens);
      t.equal(Buffer.from(text.toString()).compare(text), 0, `${grammar}, seed ${seed}: ${text.toString('hex')}`);
      t.equal([...text.toString()].length, 9);
      if (tokens.length > 9) several++;
    }
  }
  t.ok(several > 20, `${several} answers had characters of several tokens`);
});

t.test('a class that matches no character is refused, unless the answer can do without', async (t) => {
  const nothing = /got one whose texts all need a class that matches no character/;
  const of = async (grammar: string) => await model.createSampler({ temperature: 1, seed: 1, grammar, grammarKind: 'user' }, prompt);
  for (const grammar of ['root ::= [^\\x00-\\U0010FFFF]', 'root ::= "a" none+\nnone ::= [^\\x00-\\uFFFF\\U00010000-\\U0010FFFF]']) await t.rejects(of(grammar), nothing, grammar);
  await t.rejects(of('root ::= [\\uD800-\\uDFFF]'), /all of its texts need U\+D800 or another character that no token has/);
  (await of('root ::= [^\\x00-\\U0010FFFF]? "b"')).close();
});

t.test('a grammar whose texts lead to new states without end restarts when it has grown large', async (t) => {
  // Each letter leaves a number for the end, so no two words lead to the same state: one run of
  // this exceeds the size at which a grammar restarts. A large grammar walks the vocabulary, then a
  // new one.
  const letters = ['a-e', 'f-j', 'k-o', 'p-t', 'u-z'];
  const grammar = `root ::= ${letters.map((range, at) => `[${range}] root "${at}"`).join(' | ')} | "."`;
  const options = { temperature: 1, seed: 1, grammar, grammarKind: 'user' } as const;
  const { own, chain } = await bothWays(model, options, prompt, 12);
  t.equal(own.length, 12);
  t.strictSame(own, chain);
  t.strictSame((await bothWays(model, { ...options, chain: false }, prompt, 12)).own, own, 'the new one says the same');
});

t.test('a grammar in which nearly every piece leads to a state of its own keeps working', async (t) => {
  // The states of the whole vocabulary would take more memory than a grammar may have.
  const letters = ['ab', 'cd', 'ef', 'gh', 'ij', 'kl', 'mn', 'op', 'qr', 'st', 'uv', 'wx', 'yz'];
  const grammar = `root ::= ${letters.map((pair, at) => `[${pair}] root "${String.fromCharCode(65 + at)}"`).join(' | ')} | "."`;
  const options = { temperature: 1, seed: 5, grammar, grammarKind: 'user' } as const;
  // After some ten tokens it has seen more states than fit in memory.
  const { own: many, chain } = await bothWays(model, options, Int32Array.of(5), 14);
  t.equal(many.length, 14);
  t.ok(many.every((token) => token >= 0), many.join());
  t.strictSame(many, chain);
});

t.test('an ambiguous grammar costs no more than another', async (t) => {
  // After n letters there are 2^n ways to end.
  const doubled = 'root ::= [a-z] root "1" | [a-z] root "2" | "."';
  // Every part may have any length: the ways to read n letters are a power of n.
  const split = 'root ::= (a b c)* "."\na ::= [a-z]+\nb ::= [a-z]+ a\nc ::= [a-z]* b | [a-z]+';
  const context = await model.createContext(contextOptions({ sequences: 1 }));
  t.teardown(() => context.close());
  for (const grammar of [doubled, split]) {
    await context.removeSequence(0, 0, -1);
    const sampler = await model.createSampler({ temperature: 1, seed: 1, grammar, grammarKind: 'user' }, prompt);
    let from = 0;
    for (let tokens: Int32Array = prompt, i = 0; i < 40; i++) {
      const result = await step(context, [{ sequence: 0, from, tokens, sampler }]);
      from += tokens.length;
      tokens = Int32Array.of(result.tokens[0]!);
      if (tokens[0]! < 0) return t.fail(`token ${i} is ${tokens[0]} (-3: it took more steps than the others may wait for) ${JSON.stringify(result.failures)}`);
    }
    t.pass(grammar);
    sampler.close();
  }
});

t.test('a token whose mask takes too much work is decided apart, and its neighbor does not wait', async (t) => {
  const letters = ['ab', 'cd', 'ef', 'gh', 'ij', 'kl', 'mn', 'op', 'qr', 'st', 'uv', 'wx', 'yz'];
  const grammar = `root ::= ${letters.map((pair, at) => `[${pair}] root "${String.fromCharCode(65 + at)}"`).join(' | ')} | "."`;
  const context = await model.createContext(contextOptions({ sequences: 2 }));
  t.teardown(() => context.close());
  const many = await model.createSampler({ temperature: 1, seed: 1, grammar, grammarKind: 'user' }, prompt);
  const one = await model.createSampler({ temperature: 0, grammar: 'root ::= "yes"', grammarKind: 'user' }, prompt);
  const both = [{ sequence: 0, from: 0, tokens: prompt, sampler: many }, { sequence: 1, from: 0, tokens: prompt, sampler: one }];
  const { tokens, failures } = await step(context, both);
  t.equal(failures, undefined);
  t.equal(tokens[0], -3);
  t.ok(tokens[1]! >= 0, 'its neighbor has its token');
  t.match(Buffer.from(model.piece(await many.decide(), true)).toString(), /^([a-z]+|\.)$/);
  await t.rejects(many.decide(), { code: 'closed' }, 'once for each such token');
  // Closed meanwhile. Another grammar: the masks of the first are known by now.
  const left = await model.createSampler({ temperature: 1, seed: 2, grammar: `${grammar} | "!"`, grammarKind: 'user' }, prompt);
  await context.removeSequence(0, 0, -1);
  t.equal((await step(context, [{ sequence: 0, from: 0, tokens: prompt, sampler: left }])).tokens[0], -3);
  const deciding = left.decide();
  left.close();
  await t.rejects(deciding);
  for (const sampler of [many, one]) sampler.close();
});

t.test('behind right guesses, the draw for an undecided token is not counted yet', async (t) => {
  const letters = ['ab', 'cd', 'ef', 'gh', 'ij', 'kl', 'mn', 'op', 'qr', 'st', 'uv', 'wx', 'yz'];
  const named = Array.from({ length: 12 }, (_, at) => 300 + at);
  const grammar = `root ::= ${named.map((token) => `<[${token}]>`).join(' ')} many\nmany ::= ${letters.map((pair, at) => `[${pair}] many "${String.fromCharCode(97 + at)}"`).join(' | ')} | "."`;
  const context = await model.createContext({ ...contextOptions({ sequences: 1 }), predict: 8, draftAlways: true });
  t.teardown(() => context.close());
  const options = { temperature: 1, seed: 1, grammar, grammarKind: 'user' as const, prediction: Int32Array.from(named) };
  const sampler = await model.createSampler(options, prompt);
  const given: number[] = [];
  let told = 0;
  for (let tokens = prompt, from = 0; ; from += tokens.length, tokens = Int32Array.of(given.at(-1)!)) {
    const rows = tokens.length;
    const [result] = await context.steps(
      {
        tokens,
        positions: Int32Array.from(tokens, (_, i) => from + i),
        sequences: new Int32Array(rows),
        outputs: Uint8Array.from(tokens, (_, i) => (i === rows - 1 ? 1 : 0)),
        rows,
        samplers: [sampler],
        rooms: Int32Array.of(50),
        known: undefined,
      },
      1,
      () => undefined,
    );
    given.push(...result!.tokens.filter((token) => token >= 0));
    from += Math.max(0, result!.tokens.length - 1 - (result!.tokens.at(-1) === -3 ? 1 : 0));
    told = result!.draws![0]!;
    if (result!.tokens.at(-1) !== -3) continue;
    t.ok(result!.tokens.length > 1, 'guesses came true in the same step');
    break;
  }
  t.same(given, named);
  t.equal(told, named.length * 2, 'each token was drawn twice: the grammar refused the first');
  await sampler.decide();
  t.equal(sampler.draws(), told + 2);
  sampler.close();
});

t.test('a state that is too large for one step works in the next ones', async (t) => {
  const trained = await loadBuiltin();
  t.teardown(() => trained.close());
  const words = Array.from({ length: 140_000 }, (_, at) => `"${String.fromCodePoint(0x20000 + at)}"`);
  const options = { temperature: 0, grammar: `root ::= ${words.join(' | ')} | "yes"`, grammarKind: 'user' } as const;
  const context = await trained.createContext(contextOptions({ contextSize: 256 }));
  t.teardown(() => context.close());
  const said = await trained.tokenize('Say yes', true, true);
  const answers = [];
  for (let round = 0; round < 2; round++) {
    await context.removeSequence(0, 0, -1);
    const sampler = await trained.createSampler(options, said);
    const result = await step(context, [{ sequence: 0, from: 0, tokens: said, sampler }]);
    answers.push(result.tokens[0] === -3 ? await sampler.decide() : result.tokens[0]!);
    sampler.close();
  }
  t.ok(answers[0]! >= 0, `${answers[0]}`);
  t.equal(answers[1], answers[0]);
});

t.test('a schema with thousands of values and characters is usable', async (t) => {
  const schema = { enum: Array.from({ length: 3000 }, (_, i) => `value ${i} ${String.fromCodePoint(0x4e00 + i)}`) };
  const { grammar } = await addon.compileSchema(JSON.stringify(schema));
  const { own, chain } = await bothWays(model, { temperature: 1, seed: 9, grammar, grammarKind: 'user' }, prompt, 12);
  t.strictSame(own, chain);
});

t.test('a control token comes only where the grammar names it', async (t) => {
  const [id] = await model.tokenize('<|im_start|>', false, true);
  const draw = async (grammar: string) => await tokensOf(model, { temperature: 0, logitBias: [{ token: id!, bias: 100 }], grammar, grammarKind: 'user' }, prompt, 20);
  const spelled = await draw('root ::= "<|im_start|>x"');
  t.notOk(spelled.includes(id!));
  t.equal((await model.pieces(false)).flags[id!]! & 1, 0, 'it does not end an answer');
  t.equal((await draw(`root ::= <[${id}]> "x"`))[0], id);
});
