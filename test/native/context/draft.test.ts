// Speculative tokens change the cost of an answer, never the answer.
import t from 'tap';
import type { NativeContext, NativeModel, SamplerOptions, StepResult } from '#recua/addon/addon.js';
import { addon, chatPrompt, contextOptions, loadBuiltin } from '../setup.js';
import { loadRandom } from '../random-model.js';

interface Run { tokens: number[]; guessed: number; accepted: number }

/** Up to `count` tokens after each prompt, in shared steps, one sequence each. */
async function generate(
  model: NativeModel,
  context: NativeContext,
  prompts: Int32Array[],
  options: SamplerOptions,
  count: number,
  draft: boolean,
): Promise<Run[]> {
  const { flags } = await model.pieces(false);
  const samplers = await Promise.all(prompts.map((prompt) => model.createSampler({ ...options, draft }, prompt)));
  const runs: Run[] = prompts.map(() => ({ tokens: [], guessed: 0, accepted: 0 }));
  for (const [i, prompt] of prompts.entries()) {
    await context.removeSequence(i, 0, -1);
    const outputs = new Uint8Array(prompt.length);
    outputs[prompt.length - 1] = 1;
    const [{ tokens }] = await context.steps(
      {
        tokens: prompt,
        positions: prompt.map((_, at) => at),
        sequences: new Int32Array(prompt.length).fill(i),
        outputs,
        rows: prompt.length,
        samplers: [samplers[i]!],
      },
      1,
      () => undefined,
    );
    runs[i]!.tokens.push(tokens[0]!);
  }
  const over = ({ tokens }: Run) => tokens.length >= count || tokens.at(-1)! < 0 || (flags[tokens.at(-1)!]! & 1) !== 0;
  for (;;) {
    const active = runs.flatMap((run, i) => (over(run) ? [] : [i]));
    if (active.length === 0) break;
    const take = (results: StepResult[]) =>
      results.forEach((result) => {
        let at = 0;
        for (const [row, i] of active.entries()) {
          const given = result.tokens.subarray(at, (at += result.counts?.[row] ?? 1));
          runs[i]!.tokens.push(...given);
          runs[i]!.guessed += result.guesses ?? 0;
          runs[i]!.accepted += given.length - 1;
        }
      });
    take(
      await context.steps(
        {
          tokens: Int32Array.from(active, (i) => runs[i]!.tokens.at(-1)!),
          positions: Int32Array.from(active, (i) => prompts[i]!.length + runs[i]!.tokens.length - 1),
          sequences: Int32Array.from(active),
          outputs: new Uint8Array(active.length).fill(1),
          rows: active.length,
          samplers: active.map((i) => samplers[i]!),
          rooms: Int32Array.from(active, (i) => count - runs[i]!.tokens.length),
        },
        20,
        take,
      ),
    );
  }
  for (const sampler of samplers) sampler.close();
  return runs;
}

let model: NativeModel;
let prompts: Int32Array[];
t.before(async () => {
  model = await loadBuiltin();
  const words = ['Repeat: the red fox and the red fox and the red fox run home', 'Count to 30', 'What is the capital of France?', 'Tell me a story'];
  prompts = await Promise.all(words.map(async (text) => model.tokenize((await chatPrompt(model, text)).prompt, true, true)));
});
t.teardown(() => model.close());

const schema = { type: 'array', minItems: 6, maxItems: 6, items: { type: 'object', required: ['name', 'size'], properties: { name: { enum: ['red', 'blue'] }, size: { type: 'integer', minimum: 1, maximum: 9 } } } };

t.test('with any sampler, the answer equals the one without guesses', async (t) => {
  const plain = await model.createContext(contextOptions());
  const drafting = await model.createContext(contextOptions({ draft: 7, draftAlways: true }));
  const grammar: SamplerOptions = { temperature: 0, grammar: (await addon.compileSchema(JSON.stringify(schema))).grammar, grammarKind: 'schema' };
  const kinds: Record<string, SamplerOptions> = {
    greedy: { temperature: 0 },
    'greedy, past its end': { temperature: 0, ignoreEos: true },
    'a seed': { temperature: 0.8, topK: 40, topP: 0.95, minP: 0.05, seed: 7 },
    'top-p alone': { temperature: 0.9, topP: 0.9, seed: 8 },
    penalties: { temperature: 0.8, topK: 40, seed: 9, repeatPenalty: 1.2, frequencyPenalty: 0.2, presencePenalty: 0.1, penaltyLastN: 64 },
    'a bias': { temperature: 0, ignoreEos: true, logitBias: [{ token: prompts[0]![8]!, bias: 4 }] },
    'a grammar': grammar,
    'a grammar and a seed': { ...grammar, temperature: 1, seed: 4 },
    'llama.cpp’s own chain': { temperature: 1, mirostat: 2, mirostatTau: 5, mirostatEta: 0.1, seed: 11 },
  };
  for (const [name, options] of Object.entries(kinds)) {
    let accepted = 0;
    for (const prompt of prompts) {
      const [without] = await generate(model, plain, [prompt], options, 90, false);
      const [run] = await generate(model, drafting, [prompt], options, 90, true);
      t.same(run!.tokens, without!.tokens, name);
      accepted += run!.accepted;
      if (run!.guessed < run!.accepted) t.fail(`${run!.accepted} of ${run!.guessed} guesses came true`);
    }
    t.ok(accepted > 0, `${name}: ${accepted} guesses came true`);
  }
  await plain.close();
  await drafting.close();
});

t.test('sequences evaluated together give the same as each alone', async (t) => {
  const plain = await model.createContext(contextOptions());
  const drafting = await model.createContext(contextOptions({ draft: 5, draftAlways: true }));
  for (const options of [{ temperature: 0, ignoreEos: true }, { temperature: 0.7, topK: 20, seed: 3, ignoreEos: true }]) {
    const alone: number[][] = [];
    for (const prompt of prompts) alone.push((await generate(model, plain, [prompt], options, 70, false))[0]!.tokens);
    const together = await generate(model, drafting, prompts, options, 70, true);
    t.same(together.map(({ tokens }) => tokens), alone);
    t.ok(together.some(({ accepted }) => accepted > 0));
  }
  await plain.close();
  await drafting.close();
});

t.test('no more tokens come than there is room for', async (t) => {
  const context = await model.createContext(contextOptions({ draft: 16, draftAlways: true }));
  const count = 40;
  const [whole] = await generate(model, context, [prompts[0]!], { temperature: 0, ignoreEos: true }, count, true);
  t.ok(whole!.accepted > 0);
  t.equal(whole!.tokens.length, count);
  for (const few of [2, 3, 11]) {
    const [run] = await generate(model, context, [prompts[0]!], { temperature: 0, ignoreEos: true }, few, true);
    t.same(run!.tokens, whole!.tokens.slice(0, few));
  }
  await context.close();
});

t.test('by default it guesses where text repeats, and not where nothing does', async (t) => {
  const flat = await loadRandom(t);
  const context = await flat.createContext(contextOptions({ contextSize: 1024, draft: 16 }));
  const prompt = Int32Array.from({ length: 50 }, (_, i) => 100 + i * 37);
  const [random] = await generate(flat, context, [prompt], { temperature: 5, seed: 1 }, 200, true);
  t.equal(random!.guessed, 0, 'nothing came twice');
  const [loop] = await generate(flat, context, [prompt], { temperature: 0, logitBias: [{ token: 1000, bias: 1e6 }] }, 200, true);
  t.ok(loop!.accepted > 0, `${loop!.accepted} of ${loop!.guessed} guesses came true`);
  t.same(new Set(loop!.tokens), new Set([1000]));
  await flat.close();
});

t.test('nothing is guessed unless context and sampler ask for it', async (t) => {
  const plain = await model.createContext(contextOptions());
  const drafting = await model.createContext(contextOptions({ draft: 7, draftAlways: true }));
  for (const [context, draft] of [[plain, true], [drafting, false]] as const) {
    const [run] = await generate(model, context, [prompts[0]!], { temperature: 0, ignoreEos: true }, 60, draft);
    t.equal(run!.guessed, 0);
  }
  await plain.close();
  await drafting.close();
});
