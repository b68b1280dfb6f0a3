import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { NativeContext, NativeModel, SamplerOptions } from '#recua/addon/addon.js';
import { addon, builtin, chatPrompt, contextOptions, generate, loadBuiltin, step } from '../setup.js';

let model: NativeModel;
let context: NativeContext;
let prompt: Int32Array;
t.before(async () => {
  model = await loadBuiltin();
  context = await model.createContext(contextOptions({ scores: 64 }));
  prompt = await model.tokenize((await chatPrompt(model, 'Tell me a story')).prompt, true, true);
});
t.teardown(() => model.close());

/** Tokens after the prompt, each with what the sampler recorded. */
async function noted(options: SamplerOptions, count: number) {
  await context.removeSequence(0, 0, -1);
  const sampler = await model.createSampler({ ignoreEos: true, ...options }, prompt);
  const generated = await generate(context, sampler, prompt, count);
  const { tokens, values } = sampler.logprobs();
  t.equal(sampler.logprobs().values.length, 0, 'they are told once');
  sampler.close();
  t.equal(sampler.logprobs().values.length, 0, 'a closed sampler tells nothing');
  const top = options.logprobs!;
  return generated.map((token, i) => ({
    token,
    own: values[i * (1 + top)]!,
    top: Array.from(tokens.subarray(i * top, (i + 1) * top)),
    values: Array.from(values.subarray(i * (1 + top) + 1, (i + 1) * (1 + top))),
  }));
}

t.test('log probabilities are those of the whole distribution', async (t) => {
  const all = await noted({ temperature: 0, logprobs: model.info.vocabSize }, 6);
  const few = await noted({ temperature: 0, logprobs: 3 }, 6);
  for (const [i, { token, own, top, values }] of all.entries()) {
    const sum = values.reduce((total, value) => total + Math.exp(value), 0);
    t.ok(Math.abs(sum - 1) < 1e-4, `they add up to ${sum}`);
    t.ok(values.every((value, at) => at === 0 || value <= values[at - 1]!), 'the likeliest first');
    t.equal(new Set(top).size, model.info.vocabSize, 'each token once');
    t.equal(values[top.indexOf(token)], own);
    t.strictSame(few[i], { token, own, top: top.slice(0, 3), values: values.slice(0, 3) });
  }
});

t.test('biases, penalties and grammars change the token, not the reported probabilities', async (t) => {
  const [plain] = await noted({ temperature: 0, logprobs: 2 }, 1);
  const ways: Partial<SamplerOptions>[] = [
    { logitBias: [{ token: plain!.token, bias: -Infinity }] }, { minTokens: 3 }, { presencePenalty: 2, penaltyLastN: 64 }, { grammar: 'root ::= "qqq"+' },
    { temperature: 9, topK: 300, seed: 3 }, { temperature: 1, xtcProbability: 1, xtcThreshold: 0.01 },
  ];
  for (const way of ways) {
    const [found] = await noted({ temperature: 0, logprobs: 2, ...way }, 1);
    t.strictSame({ top: found!.top, values: found!.values }, { top: plain!.top, values: plain!.values }, JSON.stringify(way));
    t.ok(found!.own <= plain!.own);
  }
});

t.test('the chain of llama.cpp is reported in the same way', async (t) => {
  t.strictSame(await noted({ temperature: 0, logprobs: 2, chain: true }, 8), await noted({ temperature: 0, logprobs: 2 }, 8));
});

t.test('probabilities after sampling cover what the samplers left', async (t) => {
  for (const more of [{}, { grammar: 'root ::= [a-z ]+' }]) {
    for (const { token, own, top, values } of await noted(
      { temperature: 1, topK: 3, seed: 1, logprobs: 5, afterSampling: true, ...more },
      8,
    )) {
      t.equal(top[3], -1, 'three were left');
      t.ok(Math.abs(values.reduce((a, b) => a + b) - 1) < 1e-5);
      t.equal(values[top.indexOf(token)], own);
    }
  }
  const [greedy] = await noted({ temperature: 0, logprobs: 2, afterSampling: true }, 1);
  t.match(greedy, { own: 1, values: [1, 0] });
});

t.test('a token that ends thinking by force is the only one left after sampling', async (t) => {
  const template = '{% for m in messages %}{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n{% endif %}{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<think>\n{% endif %}';
  const { shape } = await chatPrompt(model, 'Hello', { template });
  const all = await noted({ temperature: 0, logprobs: 1, afterSampling: true, shape, thinkingBudget: 2 }, 5);
  const text = await model.detokenize(Int32Array.from(all.slice(2), ({ token }) => token), false);
  t.match(Buffer.from(text).toString(), /^<\/th/);
  for (const { token, own, top } of all) t.match({ own, top }, { own: 1, top: [token] });
});

t.test('tokens of a prompt are reported without sampling them', async (t) => {
  const rows = prompt.length;
  const scored = async (afterSampling: boolean) => {
    await context.removeSequence(0, 0, -1);
    const sampler = await model.createSampler({ temperature: 0, logprobs: 1, afterSampling }, prompt);
    const input = {
      tokens: prompt,
      positions: Int32Array.from(prompt, (_, i) => i),
      sequences: new Int32Array(rows),
      outputs: new Uint8Array(rows).fill(1),
      rows,
      samplers: Array.from(prompt, () => sampler),
      known: Int32Array.from(prompt, (_, i) => prompt[i + 1] ?? -1),
    };
    const [result] = await context.steps(input, 1, () => undefined);
    t.strictSame(Array.from(result!.tokens.subarray(0, -1)), Array.from({ length: rows - 1 }, () => -4));
    const { values } = sampler.logprobs();
    t.equal(values.length, 2 * rows);
    return values;
  };
  const values = await scored(false);
  // Probabilities after sampling: nothing samples these.
  const chances = await scored(true);
  t.ok(chances.subarray(0, -2).every((chance, i) => Math.abs(chance - Math.exp(values[i]!)) < 1e-6));
  t.strictSame(chances.slice(-2), Float32Array.of(1, 1));
  // One by one, with the same result.
  await context.removeSequence(1, 0, -1);
  const other = await model.createSampler({ temperature: 0, logprobs: 1, logitBias: [] }, prompt);
  for (let i = 0; i < rows - 1; i++) await step(context, [{ sequence: 1, from: i, tokens: prompt.subarray(i, i + 1), sampler: other }]);
  const single = other.logprobs().values;
  for (let i = 0; i < rows - 1; i++) t.ok(Math.abs(single[2 * i + 1]! - values[2 * i + 1]!) < 0.02, `${single[2 * i + 1]} and ${values[2 * i + 1]}`);
});

t.test('no end comes before the minimum of tokens, unless a grammar leaves nothing else', async (t) => {
  const bias = [{ token: model.info.eosToken, bias: 100 }];
  const ends = async (more: Partial<SamplerOptions>) => {
    await context.removeSequence(0, 0, -1);
    const sampler = await model.createSampler({ temperature: 0, logitBias: bias, ...more }, prompt);
    const tokens = await generate(context, sampler, prompt, 8);
    sampler.close();
    return tokens.indexOf(model.info.eosToken);
  };
  t.equal(await ends({}), 0);
  t.equal(await ends({ minTokens: 5 }), 5);
  t.equal(await ends({ minTokens: 5, chain: true }), 5);
  t.equal(await ends({ minTokens: 5, temperature: 1, typicalP: 0.9 }), 5);
  const grammar = 'root ::= "a"';
  await context.removeSequence(0, 0, -1);
  const sampler = await model.createSampler({ temperature: 0, minTokens: 5, grammar }, prompt);
  const tokens = await generate(context, sampler, prompt, 2);
  t.equal(tokens[1], model.info.eosToken, 'the text of the grammar is over');
  await context.removeSequence(0, 0, -1);
  const { flags } = await model.pieces(false);
  const logitBias = [...flags.keys()].filter((token) => (flags[token]! & 1) !== 0).map((token) => ({ token, bias: -Infinity }));
  const endless = await model.createSampler({ temperature: 0, minTokens: 5, grammar, logitBias }, prompt);
  const [, none] = await generate(context, endless, prompt, 2);
  t.ok(none! < 0, 'unless the end is excluded, too');
});

t.test('samplers by name draw as in llama.cpp, in any order', async (t) => {
  const draw = (more: Partial<SamplerOptions>) =>
    noted({ temperature: 1.2, topK: 20, topP: 0.9, minP: 0.02, seed: 5, logprobs: 0, ...more }, 12).then((all) =>
      all.map(({ token }) => token),
    );
  const usual = ['penalties', 'dry', 'top_n_sigma', 'top_k', 'typ_p', 'top_p', 'min_p', 'xtc', 'temperature'];
  t.strictSame(await draw({ samplers: usual }), await draw({ chain: true }));
  t.strictSame(await draw({ samplers: ['top_k'], topK: 1 }), await draw({ temperature: 0 }));
  t.notSame(await draw({ samplers: ['temperature'], temperature: 5 }), await draw({ temperature: 0 }));
  for (const samplers of [['infill'], ['adaptive_p'], ['temperature', 'temperature'], ['dry', 'xtc', 'penalties']]) t.equal((await draw({ samplers, adaptiveTarget: 0.3 })).length, 12, samplers.join());
  t.equal((await draw({ dynatempRange: 0.5, dynatempExponent: 1.5 })).length, 12);
  t.strictSame(await draw({ samplers: ['top_k'], topK: 1, minKeep: 1 }), await draw({ temperature: 0 }));
});

t.test('the sampler infill works in a model without an end token', async (t) => {
  const bytes = readFileSync(builtin);
  for (const key of ['tokenizer.ggml.eos_token_id', 'tokenizer.ggml.eot_token_id']) bytes.writeUInt32LE(2 ** 32 - 1, bytes.indexOf(key) + key.length + 4);
  // The tokenizers of GPT-2 and Llama have an end token by default; llama.cpp finds others by text.
  bytes.write('bert', bytes.indexOf('gpt2', bytes.indexOf('tokenizer.ggml.model')));
  const tokens = bytes.indexOf('tokenizer.ggml.tokens');
  for (const text of ['<|im_end|>', '<|endoftext|>']) bytes.write('x', bytes.indexOf(text, tokens));
  const path = join(t.testdir({ 'endless.gguf': bytes }), 'endless.gguf');
  const endless = await addon.loadModel({ path, gpuLayers: 0, mmap: true, mlock: false }).promise;
  t.equal(endless.info.eosToken, -1);
  const context = await endless.createContext(contextOptions());
  const prompt = await endless.tokenize('abc', true, false);
  // So hot that no token is likely, which means the end.
  const sampler = await endless.createSampler({ temperature: 50, topK: 250, samplers: ['top_k', 'temperature', 'infill'], seed: 1 }, prompt);
  t.equal((await generate(context, sampler, prompt, 3)).length, 3);
  await context.close();
  await endless.close();
});

t.test('a prediction changes only how fast its tokens come', async (t) => {
  const drafting = await model.createContext({ ...contextOptions({ sequences: 2 }), predict: 8, draftAlways: true });
  const plain = (await noted({ temperature: 0, logprobs: 0 }, 24)).map(({ token }) => token);
  const sampler = await model.createSampler({ temperature: 0, ignoreEos: true, logprobs: 0, prediction: Int32Array.from(plain) }, prompt);
  const [result] = await drafting.steps(
    {
      tokens: prompt,
      positions: Int32Array.from(prompt, (_, i) => i),
      sequences: new Int32Array(prompt.length),
      samplers: [sampler],
      rows: prompt.length,
      outputs: Uint8Array.from(prompt, (_, i) => (i === prompt.length - 1 ? 1 : 0)),
      rooms: Int32Array.of(24),
    },
    1,
    () => undefined,
  );
  const tokens = Array.from(result!.tokens);
  const next = await drafting.steps(
    {
      tokens: Int32Array.of(tokens[0]!),
      positions: Int32Array.of(prompt.length),
      sequences: new Int32Array(1),
      samplers: [sampler],
      rows: 1,
      outputs: Uint8Array.of(1),
      rooms: Int32Array.of(23),
    },
    1,
    () => undefined,
  );
  t.match(next[0], { guesses: 8 });
  t.strictSame(Array.from(next[0]!.tokens), plain.slice(1, 10), 'eight guesses came true, and the token behind them');
  t.equal(sampler.logprobs().values.length, 10, 'one for each token');
});
