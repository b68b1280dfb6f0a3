// Speculation on the real engine: the same answers, with the number of guessed tokens.
import t from 'tap';
import { gpuLayers } from '../device.js';
import { chat, post, startService, weatherTool } from './service.js';

const prompts = [
  'Repeat: the llama walks home and the llama walks home and the llama walks home', 'Count to 30', 'What is the capital of France?', 'Tell me a story',
  'Say exactly: blue birds sing at dawn, blue birds sing at dusk', 'My name is Zorblax.', 'What is 12 + 7?', 'How do I get a real model?',
];
// Calls with clear arguments: a batch changes the last bits, which decides between equal tokens.
const places = ['Paris', 'Rome', 'Berlin', 'Madrid', 'Oslo', 'Cairo', 'London', 'Vienna'].map((place) => `What is the weather in ${place}?`);
const schema = { type: 'array', minItems: 5, maxItems: 5, items: { type: 'object', required: ['name'], properties: { name: { enum: ['red', 'blue'] } } } };
const kinds: Record<string, object> = {
  greedy: {},
  'a seed': { temperature: 0.8, seed: 5 },
  penalties: { temperature: 0.8, seed: 6, repeat_penalty: 1.1, frequency_penalty: 0.1 },
  'a schema': { response_format: { type: 'json_schema', json_schema: { name: 'list', schema } } },
  'stop strings': { stop: ['15', 'home', ' is'] },
  'few tokens': { max_tokens: 7 },
  tools: { tools: [weatherTool], tool_choice: 'required' },
};
/** On a GPU, guesses in a step decide the rounding, and so which tokens spell the same text. */
const told = ({ choices, usage: { prompt_tokens, completion_tokens } }: Awaited<ReturnType<typeof chat>>) => {
  const [{ message, finish_reason }] = choices;
  return {
    content: message.content,
    calls: message.tool_calls?.map((call) => call.function),
    finish_reason,
    prompt_tokens,
    ...(gpuLayers === 0 ? { completion_tokens } : {}),
  };
};

t.test('answers equal those without guesses, alone and together', async (t) => {
  const plain = await startService(t, ['--parallel', '4']);
  const drafting = await startService(t, ['--parallel', '4', '--spec-type', 'ngram-simple', '--spec-draft-n-max', '8']);
  for (const [name, more] of Object.entries(kinds)) {
    const ask = (url: string, content: string) => chat(url, [{ role: 'user', content }], { max_tokens: 100, ...more }).then(told);
    const asked = name === 'tools' ? places : prompts;
    const without: object[] = [];
    for (const prompt of asked) without.push(await ask(plain.url, prompt));
    for (const [i, prompt] of asked.entries()) t.same(await ask(drafting.url, prompt), without[i], `${name}: ${prompt}`);
    t.same(await Promise.all(asked.map((prompt) => ask(drafting.url, prompt))), without, `${name}, together`);
  }
});

t.test('usage and timings report guesses, and only if there were any', async (t) => {
  const { url } = await startService(t, ['--spec-type', 'ngram-simple']);
  const told = await chat(url, [{ role: 'user', content: prompts[0]! }], { max_tokens: 200, ignore_eos: true });
  const { usage, timings } = told as unknown as { usage: Record<string, Record<string, number>>; timings: Record<string, number> };
  const { accepted_prediction_tokens: accepted, rejected_prediction_tokens: rejected } = usage.completion_tokens_details!;
  t.ok(accepted! + rejected! > 0);
  t.equal(timings.draft_n, accepted! + rejected!);
  t.equal(timings.draft_n_accepted, accepted);
  const short = await chat(url, [{ role: 'user', content: 'Hello!' }], { max_tokens: 2 });
  t.notOk('completion_tokens_details' in short.usage);
});

t.test('requests that are abandoned midway break nothing', async (t) => {
  const { url } = await startService(t, ['--parallel', '2', '--spec-type', 'ngram-simple']);
  const ask = (content: string) => chat(url, [{ role: 'user', content }], { max_tokens: 80 }).then(told);
  const before: object[] = [];
  for (const prompt of prompts) before.push(await ask(prompt));
  for (let i = 0; i < 24; i++) {
    const left = await post(url, '/v1/chat/completions', { messages: [{ role: 'user', content: prompts[i % prompts.length] }], stream: true, ignore_eos: true, max_tokens: 400 });
    const reader = left.body!.getReader();
    for (let reads = i % 7; reads > 0; reads--) await reader.read();
    await reader.cancel();
  }
  for (const [i, prompt] of prompts.entries()) t.same(await ask(prompt), before[i], prompt);
});

t.test('the library takes the options and refuses invalid ones', async (t) => {
  const { loadModel } = await import('#recua/index.js');
  const model = await loadModel('builtin', { specType: 'ngram-simple', specDraftMax: 4, isolated: false });
  const { usage, content } = await model.chat('Repeat: one two three one two three one two three', { temperature: 0, maxTokens: 100 });
  t.ok(content.length > 0);
  if (usage.draftedTokens !== undefined) t.ok(usage.acceptedTokens! <= usage.draftedTokens);
  await model.dispose();
  await t.rejects(loadModel('builtin', { specType: 'ngram' as 'none' }), { code: 'invalid_value', param: 'specType' });
  await t.rejects(loadModel('builtin', { specDraftMax: 0 }), { code: 'invalid_value', param: 'specDraftMax' });
});
