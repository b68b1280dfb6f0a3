import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { NativeContext, NativeModel, SamplerOptions } from '#recua/addon/addon.js';
import { text } from '../../models/gguf-bytes.js';
import { addon, builtin, chatPrompt, contextOptions, generate, loadBuiltin, step } from '../setup.js';

let model: NativeModel;
let context: NativeContext;
let prompt: Int32Array;
t.before(async () => {
  model = await loadBuiltin();
  context = await model.createContext(contextOptions());
  prompt = await model.tokenize((await chatPrompt(model, 'Tell me a story')).prompt, true, true);
});
t.teardown(() => model.close());

async function sampled(options: SamplerOptions, count = 24): Promise<string> {
  await context.removeSequence(0, 0, -1);
  const sampler = await model.createSampler(options, prompt);
  const tokens = await generate(context, sampler, prompt, count);
  sampler.close();
  return Buffer.from(await model.detokenize(Int32Array.from(tokens), false)).toString();
}

t.test('plain greedy equals the greedy of the whole chain', async (t) => {
  const plain = await sampled({ temperature: 0 });
  // A bias of zero changes no logit, but avoids the fast path.
  t.equal(await sampled({ temperature: 0, logitBias: [{ token: 1, bias: 0 }] }), plain);
  t.equal(await sampled({ temperature: 0, topK: 40, topP: 0.9, minP: 0.05 }), plain);
});

t.test('a sampler tells the memory of its grammar, and equal ones tell the same', async (t) => {
  const bytes = async (grammar: string): Promise<number> => {
    const sampler = await model.createSampler({ temperature: 0, grammar }, new Int32Array());
    const size = sampler.grammarBytes;
    sampler.close();
    return size;
  };
  const small = await bytes('root ::= "yes" | "no"');
  t.ok(small > 0 && small < 2 ** 16, `${small}`);
  // 1 kB of text.
  const large = `root ::= ${'("ab"){4000} '.repeat(80)}`;
  t.ok(await bytes(large) > 2 ** 20);
  t.equal(await bytes(large), await bytes(large));
  t.equal(await bytes(''), 0);
});

t.test('the same seed repeats, another seed differs', async (t) => {
  const hot = { temperature: 5, topK: 200 };
  const first = await sampled({ ...hot, seed: 7 });
  t.equal(await sampled({ ...hot, seed: 7 }), first);
  t.not(await sampled({ ...hot, seed: 8 }), first);
  const sampler = await model.createSampler({ temperature: 1 }, new Int32Array());
  t.ok(Number.isInteger(sampler.seed), 'the drawn seed is told');
});

t.test('every sampler option runs', async (t) => {
  const each: Partial<SamplerOptions>[] = [
    { topK: 5 },
    { topP: 0.5 },
    { minP: 0.3 },
    { typicalP: 0.5 },
    { topNSigma: 1 },
    { repeatPenalty: 1.3, penaltyLastN: -1 },
    { frequencyPenalty: 1, presencePenalty: 1, penaltyLastN: 64 },
    { dryMultiplier: 0.8, dryBase: 1.75, dryAllowedLength: 2, dryPenaltyLastN: -1 },
    { xtcProbability: 0.5, xtcThreshold: 0.1 },
    { mirostat: 1, mirostatTau: 5, mirostatEta: 0.1 },
    { mirostat: 2, mirostatTau: 5, mirostatEta: 0.1 },
  ];
  for (const options of each) t.ok((await sampled({ temperature: 1, seed: 1, ...options }, 6)).length > 0, JSON.stringify(options));
});

t.test('a banned token never comes, and ignoreEos continues past the end', async (t) => {
  const [first] = await model.tokenize((await sampled({ temperature: 0 }, 1)), false, false);
  const other = await sampled({ temperature: 0, logitBias: [{ token: first!, bias: -Infinity }] }, 1);
  t.not(other, Buffer.from(model.piece(first!, false)).toString());
  await context.removeSequence(0, 0, -1);
  const sampler = await model.createSampler({ temperature: 0, ignoreEos: true }, prompt);
  t.notOk((await generate(context, sampler, prompt, 200)).includes(model.info.eosToken));
});

t.test('a repeat penalty counts the prompt', async (t) => {
  await context.removeSequence(0, 0, -1);
  const free = await model.createSampler({ temperature: 0 }, new Int32Array());
  const [first] = await generate(context, free, prompt, 1);
  await context.removeSequence(0, 0, -1);
  const penalized = await model.createSampler({ temperature: 0, presencePenalty: 1000, penaltyLastN: 512 }, Int32Array.of(first!));
  const [second] = await generate(context, penalized, prompt, 1);
  t.not(second, first);
});

t.test('a grammar holds the text to its language', async (t) => {
  const text = await sampled({ temperature: 1, seed: 3, grammar: 'root ::= ("yes" | "no") " " [0-9]{3}', grammarKind: 'user' }, 30).catch((error: Error) => error.message);
  t.match(text, /^(yes|no) \d{3}/);
});

t.test('a grammar that does not compile is refused', async (t) => {
  for (const grammar of ['root ::= missing', 'nothing', 'root ::= (', '%llguidance {}', `root ::= ${'('.repeat(100_000)}`, Array.from({ length: 100_000 }, (_, i) => `r${i} ::= r${i + 1}`).join('\n'), 'root ::= root "a"']) {
    await t.rejects(model.createSampler({ temperature: 0, grammar }, new Int32Array()), { code: 'invalid_grammar' }, grammar.slice(0, 30));
  }
});

t.test('a closed sampler fails its row only', async (t) => {
  await context.removeSequence(0, 0, -1);
  const sampler = await model.createSampler({ temperature: 0 }, new Int32Array());
  sampler.close();
  sampler.close();
  const [result] = await context.steps({
    tokens: prompt, positions: prompt.map((_, i) => i), sequences: new Int32Array(prompt.length),
    outputs: Uint8Array.from(prompt, (_, i) => (i === prompt.length - 1 ? 1 : 0)), rows: prompt.length, samplers: [sampler],
  }, 1, () => undefined);
  t.same([...result.tokens], [-2]);
  t.match(result.failures, [{ row: 0, message: /closed/ }]);
});

t.test('a grammar that no token can spell is refused; branches that no token can spell are not taken', async (t) => {
  for (const grammar of ['root ::= "\\x00"', 'root ::= "a" rest\nrest ::= [\\x00]+', 'root ::= ("b" | "a") "\\x00"']) {
    await t.rejects(model.createSampler({ temperature: 0, grammar }, new Int32Array()), { code: 'invalid_grammar', message: /all of its texts need U\+0000/ });
  }
  for (let seed = 0; seed < 8; seed++) {
    await context.removeSequence(0, 0, -1);
    const sampler = await model.createSampler({ temperature: 50, seed, grammar: 'root ::= "x" rest | "y"\nrest ::= "z\\x00"' }, new Int32Array());
    const { tokens } = await step(context, [{ sequence: 0, from: 0, tokens: prompt, sampler }]);
    t.equal(new TextDecoder().decode(await model.detokenize(Int32Array.from(tokens), false)).trim(), 'y');
  }
});

t.test('an empty alternative stays beside a branch that no token can spell', async (t) => {
  const takes = async (grammar: string, generationPrompt: string) =>
    model.createSampler({ temperature: 0, grammar, grammarKind: 'schema', generationPrompt }, new Int32Array()).then((sampler) => { sampler.close(); return true; }, () => false);
  for (const middle of ['( | "y")', '("y" | )', '( | "\\x00" | "y")']) {
    for (const rest of ['', ' | "\\x00"']) {
      const grammar = `root ::= "x" ${middle} "z"${rest}`;
      t.strictSame([await takes(grammar, 'xz'), await takes(grammar, 'xyz'), await takes(grammar, 'xyyz')], [true, true, false], grammar);
    }
  }
});

t.test('a row that has no token left fails with the reason, and the process survives', async (t) => {
  const { flags } = await model.pieces(true);
  const ends = Array.from(flags.keys()).filter((token) => flags[token]! & 1).map((token) => ({ token, bias: -Infinity }));
  for (const options of [{ temperature: 0 }, { temperature: 1 }, { temperature: 1, topK: 1 }]) {
    await context.removeSequence(0, 0, -1);
    const banned = Array.from({ length: model.info.vocabSize }, (_, token) => ({ token, bias: -Infinity }));
    const cases: [object, RegExp][] = [
      [{ grammar: 'root ::= ""', logitBias: ends }, /grammar is at its end/],
      [{ grammar: 'root ::= "a"', logitBias: banned }, /every token that the answer's grammar allows/],
      [{ logitBias: banned }, /excludes them all/],
    ];
    for (const [more, message] of cases) {
      const sampler = await model.createSampler({ ...options, ...more }, new Int32Array());
      const { tokens, failures } = await step(context, [{ sequence: 0, from: 0, tokens: prompt, sampler }]);
      t.same([...tokens], [-2]);
      t.match(failures, [{ code: 'no_token_left', message }]);
      await context.removeSequence(0, 0, -1);
    }
  }
  await t.rejects(model.createSampler({ temperature: 0, ignoreEos: true, grammar: 'root ::= "a" [b-d]{2}' }, new Int32Array()), { code: 'invalid_grammar', message: /come to an end, which ignore_eos excludes/ });
  (await model.createSampler({ temperature: 0, ignoreEos: true, grammar: 'root ::= "a"+' }, new Int32Array())).close();
});

t.test('a token that is too much work to take fails its row, and is not decided again', async (t) => {
  // Another answer fills the grammar, so this deep one would have to be copied to a new one.
  await context.removeSequence(0, 0, -1);
  const [dot] = await model.tokenize('.', false, false);
  const begun = async (generationPrompt: string) => model.createSampler({
    temperature: 0, logitBias: [{ token: dot!, bias: 100 }], grammar: 'root ::= "[" root "]" | "{" root "}" | "."', grammarKind: 'schema', generationPrompt,
  }, new Int32Array());
  const sampler = await begun('['.repeat(120_000));
  await t.rejects(begun('{'.repeat(2_000_000)), { code: 'invalid_grammar', message: /too many possible continuations/ });
  const { tokens, failures } = await step(context, [{ sequence: 0, from: 0, tokens: prompt, sampler }]);
  t.same([...tokens], [-2]);
  t.match(failures, [{ row: 0, message: /too many possible continuations/ }]);
});

t.test('the beginning of an answer is read in steps proportional to its length', async (t) => {
  // This was once quadratic, and could not be cancelled: an hour.
  const sampler = await model.createSampler({ temperature: 0, grammar: 'root ::= (<|im_start|> "a")+', grammarKind: 'schema', generationPrompt: '<|im_start|>a'.repeat(400_000) }, new Int32Array());
  sampler.close();
  t.pass();
});

/** The built-in model, one of whose tokens is 60,000 spaces and letters that align the file. */
async function writeLongToken(path: string, token: number): Promise<void> {
  const { readPairs } = await import(new URL('../../../bench/random-model.mjs', import.meta.url).href) as { readPairs(path: string): { key: string; bytes: Buffer }[] };
  const { key, bytes } = readPairs(builtin).find((pair) => pair.key === 'tokenizer.ggml.tokens')!;
  const file = readFileSync(builtin);
  const lengthAt = (at: number) => Number(file.readBigUInt64LE(at));
  let at = file.indexOf(bytes) + 8 + key.length + 16;
  for (let i = 0; i < token; i++) at += 8 + lengthAt(at);
  const long = text('Ġ'.repeat(60_000) + 'a'.repeat(lengthAt(at) % 32));
  writeFileSync(path, Buffer.concat([file.subarray(0, at), long, file.subarray(at + 8 + lengthAt(at))]));
}

t.test('a very long token is just text while a grammar waits for its trigger', async (t) => {
  // Patterns use stack for each character that they read at once.
  const path = join(t.testdir(), 'long.gguf');
  const token = 1300;
  await writeLongToken(path, token);
  const long = await addon.loadModel({ path, gpuLayers: 0, mmap: false, mlock: false }).promise;
  t.teardown(() => long.close());
  const template = readFileSync(new URL('../../../vendor/llama.cpp/models/templates/openai-gpt-oss-120b.jinja', import.meta.url), 'utf8');
  const tools = JSON.stringify([{ type: 'function', function: { name: 'f', description: 'x', parameters: { type: 'object', properties: { a: { type: 'string' } } } } }]);
  const chat = await chatPrompt(long, 'Hello', { template, tools });
  t.equal(chat.grammarLazy, true);
  const sampler = await long.createSampler({ temperature: 0, shape: chat.shape, logitBias: [{ token, bias: 100 }] }, new Int32Array());
  t.same(await generate(await long.createContext(contextOptions()), sampler, Int32Array.of(1, 2, 3), 2), [token, token]);
});

t.test('infill ends no text whose end is excluded', async (t) => {
  // So hot that no token is likely, which means the end.
  const infill: SamplerOptions = { temperature: 50, topK: 200, samplers: ['top_k', 'temperature', 'infill'], seed: 1 };
  const first = async (options: Partial<SamplerOptions>): Promise<number> => {
    await context.removeSequence(0, 0, -1);
    const sampler = await model.createSampler({ ...infill, ...options }, prompt);
    const { tokens } = await step(context, [{ sequence: 0, from: 0, tokens: prompt, sampler }]);
    sampler.close();
    return tokens[0]!;
  };
  const { flags } = await model.pieces(false);
  const ends = (token: number): boolean => (flags[token]! & 1) !== 0;
  const bans = [...flags.keys()].filter(ends).map((token) => ({ token, bias: -Infinity }));
  t.ok(ends(await first({})));
  const excluding: Partial<SamplerOptions>[] = [
    { grammar: 'root ::= [a-z] " " root | "end"' }, { ignoreEos: true }, { minTokens: 1 }, { logitBias: bans },
    { grammar: 'root ::= "ab" root | "cd"', minTokens: 1 }, { grammar: 'root ::= [a-z]* "x"', logitBias: bans },
  ];
  for (const options of excluding) {
    const token = await first(options);
    t.ok(token >= 0 && !ends(token), `${token} ${Object.keys(options).join()}`);
  }
});
