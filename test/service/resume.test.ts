// No answer is lost: real engine processes are killed while they write answers of all kinds, and
// each answer equals that of an engine that lives.
import t, { type Test } from 'tap';
import { startEngine } from '#recua/engine/gateway/client.js';
import type { Answer, Engine } from '#recua/engine/api.js';
import type { ChatRequest, Constraint, Delta, EngineOptions, Sampling } from '#recua/engine/protocol.js';
import { merge } from '#recua/engine/merge.js';
import { builtinPath } from '#recua/models/store.js';
import { engineDefaults } from '#recua/settings/config.js';
import { gpuLayers } from '../device.js';
import { chat, completion, sampling } from '../engine/requests.js';

const options: EngineOptions = {
  ...engineDefaults,
  modelPath: builtinPath,
  gpuLayers,
  contextSize: 2048,
  parallel: 1,
  threads: 1,
  threadsBatch: 1,
};

async function open(t: Test, more: Partial<EngineOptions> = {}): Promise<Engine> {
  const engine = startEngine({ ...options, ...more }, { restart: { crashes: 1e6, delayMs: 0 } });
  t.teardown(() => engine.close(0));
  await engine.ready();
  return engine;
}

/** Everything about an answer except its times and call ids. */
async function whole(answer: Answer) {
  let told: Delta = {};
  for await (const delta of answer) told = merge(told, delta);
  const { finishReason, usage: { promptTokens, cachedTokens, completionTokens }, stop } = await answer.finished;
  const { content, reasoning, toolCalls } = told;
  return {
    content,
    reasoning,
    calls: toolCalls?.map(({ id: _, ...call }) => call),
    finishReason,
    promptTokens,
    cachedTokens,
    completionTokens,
    stop,
  };
}

const schema: Constraint = {
  kind: 'schema', strict: true, param: 'response_format',
  schema: JSON.stringify({ type: 'object', properties: { story: { type: 'string', minLength: 200, maxLength: 400 }, kind: { enum: ['good', 'bad'] } }, required: ['story', 'kind'], additionalProperties: false }),
};
const writeTool = { type: 'function', function: { name: 'write', parameters: { type: 'object', properties: { text: { type: 'string', minLength: 300, maxLength: 500 } }, required: ['text'] } } };
const drawn = (seed: number, more: Partial<Sampling> = {}): Sampling => ({
  ...sampling,
  temperature: 0.9,
  topK: 40,
  topP: 0.95,
  minP: 0.05,
  seed,
  ...more,
});

/** Kinds by what they need from the sampler and the parser. */
const kinds: Record<string, (seed: number) => Partial<ChatRequest>> = {
  greedy: () => ({ sampling: { ...sampling, ignoreEos: true, seed: 1 } }),
  drawn: (seed) => ({ sampling: drawn(seed, { ignoreEos: true }) }),
  nucleus: (seed) => ({ sampling: drawn(seed, { topK: 0, topP: 0.9, minP: 0, ignoreEos: true }) }),
  penalized: (seed) => ({ sampling: drawn(seed, { repeatPenalty: 1.2, frequencyPenalty: 0.5, presencePenalty: 0.3, ignoreEos: true }) }),
  schema: (seed) => ({ sampling: drawn(seed), constraint: schema }),
  grammar: (seed) => ({ sampling: drawn(seed), constraint: { kind: 'grammar', grammar: 'root ::= ([a-z]{1,9} " "){60} "end"' } }),
  stops: (seed) => ({ sampling: drawn(seed, { ignoreEos: true }), stop: ['zq', 'The', '\n'] }),
  long: (seed) => ({ sampling: drawn(seed, { minTokens: 150 }) }),
  calls: (seed) => ({
    sampling: drawn(seed), tools: JSON.stringify([writeTool]), toolSources: [{ name: 'write', param: 'tools[0].function.parameters', strict: true }], toolChoice: 'required',
  }),
  mirostat: (seed) => ({ sampling: drawn(seed, { mirostat: 2, ignoreEos: true }) }),
};

const request = (kind: string, seed: number): ChatRequest => chat(`Tell me story number ${seed}.`, { maxTokens: 250, ...kinds[kind]!(seed) });

/** Ten kinds, ten kills each. */
const rounds = 10;

/** Kills the engine once it has generated this many tokens, unless the answer ends first. */
async function killAfter(engine: Engine, tokens: number, ended: Promise<unknown>): Promise<void> {
  let over = false;
  void ended.finally(() => (over = true)).catch(() => undefined);
  while (!over) {
    const { state } = engine;
    if (state.state === 'ready' && state.status.tokens >= tokens) return void process.kill(engine.pid!, 'SIGKILL');
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

for (const kind of Object.keys(kinds)) {
  t.test(`an answer whose engine is killed continues where it was: ${kind}`, async (t) => {
    const calm = await open(t);
    const engine = await open(t);
    for (let seed = 1; seed <= rounds; seed++) {
      // Both read all of the prompt: behind kept tokens, it may be rounded otherwise.
      for (const one of [calm, engine]) await one.forget();
      const expected = await whole(calm.chat(request(kind, seed)));
      const { state } = engine;
      const answer = engine.chat(request(kind, seed));
      const got = whole(answer);
      await killAfter(engine, (state.state === 'ready' ? state.status.tokens : 0) + (seed * 37) % 90, got);
      t.strictSame(await got, expected, `${engine.crashes} crashes`);
    }
    t.ok(engine.crashes >= rounds / 2, `${engine.crashes} of ${rounds} answers were interrupted; the others were too short`);
  });
}

/** Kinds whose samplers look back at the prompt's tokens. */
const lookingBack: Record<'penalized' | 'dry', (seed: number) => Sampling> = {
  penalized: (seed) => drawn(seed, { repeatPenalty: 1.5, frequencyPenalty: 1, penaltyLastN: 2000, ignoreEos: true }),
  dry: (seed) => drawn(seed, { dryMultiplier: 4, dryAllowedLength: 1, dryPenaltyLastN: 2000, ignoreEos: true }),
};

/** Not the first token of a chat, nor any that follows it. */
const other = Int32Array.from({ length: 60 }, (_, i) => 500 + i);

/** ggml's attention rounds by the number of rows in a step, as GPUs do; Recua's own rarely. */
const cases = [['penalized', 'auto'], ['dry', 'auto'], ['penalized', 'ggml']] as const;

for (const [kind, attention] of cases) {
  t.test(`a later turn whose engine is killed looks back at the same tokens: ${kind}, attention ${attention}`, async (t) => {
    const samplingOf = lookingBack[kind];
    const calm = await open(t, { cacheRamMib: 0, attention });
    const engine = await open(t, { cacheRamMib: 0, attention });
    for (let seed = 1; seed <= rounds; seed++) {
      // At this temperature, some tokens differ from the tokenization of their text.
      const first = chat(`Tell me story number ${seed}.`, { maxTokens: 60, sampling: drawn(seed, { temperature: 2.5, topK: 0, topP: 1, minP: 0, ignoreEos: true }) });
      const { content } = await whole(calm.chat(first));
      await whole(engine.chat(first));
      // Takes the first turn's slot and begins otherwise, so that both engines read all of the next
      // prompt.
      for (const one of [calm, engine]) await whole(one.complete(completion(other, { maxTokens: 1 })));
      const messages = [...JSON.parse(first.messages) as object[], { role: 'assistant', content }, { role: 'user', content: 'Go on.' }];
      const next: ChatRequest = { ...first, messages: JSON.stringify(messages), maxTokens: 200, sampling: samplingOf(seed) };
      const expected = await whole(calm.chat(next));
      const { state } = engine;
      const got = whole(engine.chat(next));
      await killAfter(engine, (state.state === 'ready' ? state.status.tokens : 0) + (seed * 37) % 90, got);
      t.strictSame(await got, expected, `${engine.crashes} crashes`);
      await calm.forget();
      await engine.forget();
    }
    t.ok(engine.crashes >= rounds / 2, `${engine.crashes} of ${rounds} answers were interrupted; the others were too short`);
  });
}

const thinkingTemplate = `{% for m in messages %}{% if m.reasoning_content %}<think>
{{ m.reasoning_content }}
</think>
{% endif %}{{ m.content }}
{% endfor %}{% if add_generation_prompt %}<think>
{% endif %}`;

t.test('thoughts that are ended while the engine is away end when it is back', async (t) => {
  const engine = await open(t, { chatTemplate: thinkingTemplate });
  const thinking = chat('Tell me a story', { maxTokens: 200, thoughts: { control: true, message: ' Enough.' }, sampling: { ...sampling, ignoreEos: true, seed: 1 } });
  const asked: Record<string, (answer: Answer) => Promise<void>> = {
    'at once': async (answer) => answer.endThinking(),
    'while the model loads': async (answer) => {
      while (engine.state.state !== 'restarting') await new Promise((resolve) => setTimeout(resolve, 1));
      answer.endThinking();
    },
    'when the model is there': async (answer) => {
      while (engine.state.state !== 'restarting') await new Promise((resolve) => setTimeout(resolve, 1));
      await engine.ready();
      answer.endThinking();
    },
  };
  for (const [when, ask] of Object.entries(asked)) {
    const answer = engine.chat(thinking);
    const got = whole(answer);
    const { state } = engine;
    await killAfter(engine, (state.state === 'ready' ? state.status.tokens : 0) + 20, got);
    await ask(answer);
    t.match(await got, { reasoning: /Enough\.$/, content: /./ }, when);
  }
  t.equal(engine.crashes, 3);
});

t.test('a time limit that passed before the engine died ends the answer behind what was sent', async (t) => {
  const engine = await open(t);
  const answer = engine.chat(chat('Tell me a story', { maxTokens: 1000, generateMs: 1_000, constraint: { kind: 'grammar', grammar: 'root ::= ([a-z]{3,12} "\\n"){300}' } }));
  const got = whole(answer);
  while (engine.state.state !== 'ready' || engine.state.status.tokens < 40) await new Promise((resolve) => setTimeout(resolve, 1));
  process.kill(engine.pid!, 'SIGSTOP');
  await new Promise((resolve) => setTimeout(resolve, 1_200));
  process.kill(engine.pid!, 'SIGKILL');
  const { content, completionTokens, finishReason } = await got;
  t.equal(engine.crashes, 1);
  t.equal(finishReason, 'length');
  t.ok(completionTokens >= 40 && completionTokens < 1000, `${completionTokens} tokens`);
  t.match(content, /\n$/, 'the last line is complete');
});
