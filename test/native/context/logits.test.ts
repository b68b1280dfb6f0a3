// The logits a token is sampled from: those of its own row, however the rows of a step are
// arranged.
import t from 'tap';
import type { NativeContext, NativeModel, NativeSampler } from '#recua/addon/addon.js';
import { chatPrompt, contextOptions, generate, loadBuiltin, step } from '../setup.js';

const questions = ['Count to 30.', 'What is the capital of France?', 'Say hello.', 'Count to 12.'];
const length = 24;

let model: NativeModel;
let prompts: Int32Array[];
/** The answer to each question alone. */
let answers: number[][];

t.before(async () => {
  model = await loadBuiltin();
  const prepared = await Promise.all(questions.map((question) => chatPrompt(model, question)));
  prompts = await Promise.all(prepared.map(({ prompt }) => model.tokenize(prompt, false, true)));
  const context = await model.createContext(contextOptions());
  answers = [];
  for (const [i, prompt] of prompts.entries()) answers.push(await generate(context, await sampler(), prompt, length, i));
  await context.close();
});
t.teardown(() => model.close());

const sampler = (chain = false) => model.createSampler({ temperature: 0, ignoreEos: true, ...(chain ? { chain } : {}) }, new Int32Array());

/**
 * Answers all questions at once, each in the sequence of its number. `order` arranges the rows of
 * step `at`.
 */
async function together(context: NativeContext, samplers: NativeSampler[], order: (at: number) => number[]) {
  const given: number[][] = questions.map(() => []);
  for (const [i, prompt] of prompts.entries()) {
    const { tokens } = await step(context, [{ sequence: i, from: 0, tokens: prompt, sampler: samplers[i]! }]);
    given[i]!.push(tokens[0]!);
  }
  for (let at = 0; given.some(({ length: has }) => has < length); at++) {
    const rows = order(at).filter((i) => given[i]!.length < length);
    if (rows.length === 0) continue;
    const { tokens } = await step(context, rows.map((i) => ({
      sequence: i, from: prompts[i]!.length + given[i]!.length - 1, tokens: [given[i]!.at(-1)!], sampler: samplers[i]!,
    })));
    for (const [row, i] of rows.entries()) given[i]!.push(tokens[row]!);
  }
  return given;
}

const orders: [string, (at: number) => number[]][] = [
  ['in order', () => [0, 1, 2, 3]],
  ['in falling order', () => [3, 2, 1, 0]],
  ['in another order each time', (at) => [0, 1, 2, 3].map((i) => (i * 3 + at) % 4)],
  ['with gaps', (at) => (at % 2 ? [0, 2] : [1, 3])],
  ['of one sequence at a time', (at) => [at % 4]],
];

for (const microBatchSize of [512, 2]) {
  for (const [name, order] of orders) {
    t.test(`rows ${name}, ${microBatchSize} in a pass, are sampled from their own logits`, async (t) => {
      const context = await model.createContext(contextOptions({ microBatchSize }));
      t.same(await together(context, await Promise.all(questions.map(() => sampler())), order), answers);
      await context.close();
    });
  }
}

t.test("llama.cpp's chain finds the logits beside samplers that read them in place", async (t) => {
  const context = await model.createContext(contextOptions());
  const samplers = await Promise.all([true, false, true, false].map(sampler));
  t.same(await together(context, samplers, () => [0, 1, 2, 3]), answers);
  await context.close();
});

t.test('a prompt read beside decoding rows leaves their logits alone', async (t) => {
  const context = await model.createContext(contextOptions());
  const samplers = await Promise.all([sampler(), sampler()]);
  const first = await step(context, [{ sequence: 0, from: 0, tokens: prompts[0]!, sampler: samplers[0] }]);
  const both = await step(context, [
    { sequence: 0, from: prompts[0]!.length, tokens: first.tokens, sampler: samplers[0] },
    { sequence: 1, from: 0, tokens: prompts[1]!, sampler: samplers[1] },
  ]);
  t.same([first.tokens[0], both.tokens[0], both.tokens[1]], [answers[0]![0], answers[0]![1], answers[1]![0]]);
  await context.close();
});
