// Steps that follow each other without JavaScript: the same tokens as one by one, whatever ends
// them.
import t from 'tap';
import type { NativeContext, NativeModel, StepResult } from '#recua/addon/addon.js';
import { contextOptions, generate, loadBuiltin, step } from './setup.js';

let model: NativeModel;
let context: NativeContext;
let prompt: Int32Array;
t.before(async () => {
  model = await loadBuiltin();
  prompt = await model.tokenize('<|im_start|>user\nCount to 100.<|im_end|>\n<|im_start|>assistant\n', true, true);
});
t.beforeEach(async () => { context = await model.createContext(contextOptions()); });
t.afterEach(() => context.close());
t.teardown(() => model.close());

const sampler = () => model.createSampler({ temperature: 0, ignoreEos: true }, new Int32Array());
const tokensOf = (results: StepResult[]) => results.flatMap(({ tokens }) => [...tokens]);

/**
 * Steps of sequence 0 after the prompt: the results delivered on the way, the final ones, and the
 * token that the prompt gave.
 */
async function run(most: number, told: (results: StepResult[]) => void = () => {}) {
  const greedy = await sampler();
  const { tokens } = await step(context, [{ sequence: 0, from: 0, tokens: prompt, sampler: greedy }]);
  const calls: StepResult[][] = [];
  const last = context.steps({
    tokens, positions: Int32Array.of(prompt.length), sequences: Int32Array.of(0), outputs: Uint8Array.of(1), rows: 1, samplers: [greedy],
  }, most, (results) => {
    calls.push(results);
    told(results);
  });
  return { first: tokens[0]!, calls, last };
}

t.test('chained steps give the tokens of single steps, each once and in order', async (t) => {
  const { first, calls, last } = await run(300);
  const rest = await last;
  const results = [...calls.flat(), ...rest];
  t.equal(results.length, 300);
  t.same([first, ...tokensOf(results)], await generate(context, await sampler(), prompt, 301, 1));
  t.ok(calls.length < 300, `${calls.length} calls for 300 steps`);
  t.ok(calls.every((told) => told.length > 0));
});

t.test('pause() ends the chain after the step in flight, and nothing is lost', async (t) => {
  let paused = false;
  const { first, calls, last } = await run(400, () => {
    paused = true;
    context.pause();
  });
  const rest = await last;
  const results = [...calls.flat(), ...rest];
  if (paused) t.ok(results.length < 400, `${results.length} steps`);
  const all = [first, ...tokensOf(results)];
  t.same(all, await generate(context, await sampler(), prompt, all.length, 1));
});

t.test('an abort rejects the chain after all earlier tokens were delivered', async (t) => {
  let timer: NodeJS.Timeout | undefined;
  const { first, calls, last } = await run(400, () => {
    // In the middle of a batch of results.
    timer ??= setTimeout(() => context.abort(), 8);
  });
  const error = await last.then(() => undefined, (thrown: { code: string }) => thrown);
  clearTimeout(timer);
  // The last step may have finished before the abort.
  if (error) t.match(error, { code: 'cancelled' });
  const fast = (calls[0]?.length ?? 0) > 8;
  if (error && fast) t.ok(calls.length > 1, 'what came after the first call was told');
  const all = [first, ...tokensOf(calls.flat())];
  t.same(all, (await generate(context, await sampler(), prompt, 401, 1)).slice(0, all.length));
});

t.test('the chain ends at a token that ends the generation', async (t) => {
  const greedy = await model.createSampler({ temperature: 0 }, new Int32Array());
  const { flags } = await model.pieces(false);
  const { tokens } = await step(context, [{ sequence: 0, from: 0, tokens: prompt, sampler: greedy }]);
  const told: StepResult[] = [];
  const last = await context.steps({
    tokens, positions: Int32Array.of(prompt.length), sequences: Int32Array.of(0), outputs: Uint8Array.of(1), rows: 1, samplers: [greedy],
  }, 400, (results) => told.push(...results));
  const all = tokensOf([...told, ...last]);
  t.ok(all.length < 400, `${all.length} tokens`);
  t.same(all.map((token) => flags[token]! & 1), [...all.slice(1).map(() => 0), 1]);
});

t.test('an empty step is refused', async (t) => {
  const none = new Int32Array();
  await t.rejects(context.steps({ tokens: none, positions: none, sequences: none, outputs: new Uint8Array(), rows: 0, samplers: [] }, 4, () => {}), { code: 'invalid_argument' });
});
