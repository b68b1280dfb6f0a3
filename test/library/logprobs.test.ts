import t from 'tap';
import { codeOf, inBothModes } from './modes.js';

inBothModes('a program gets log probabilities on request', async (t, load) => {
  const model = await load(t);
  const asked = { temperature: 0, maxTokens: 8, logprobs: 2, ignoreEos: true };
  const { content, logprobs = [], usage } = await model.chat('Tell me a story', asked);
  t.equal(logprobs.length, usage.completionTokens);
  t.equal(logprobs.map(({ text }) => text).join('').trim(), content.trim());
  t.ok(logprobs.every(({ logprob, top, token }) => top.length === 2 && logprob === top[0].logprob && token === top[0].token), 'the likeliest was taken');
  const plain = await model.chat('Tell me a story', { ...asked, logprobs: undefined, prediction: content, samplers: ['top_k'], topK: 1 });
  t.equal(plain.content, content);
  t.notOk('logprobs' in plain);
  t.match(plain.usage, { draftedTokens: Number, acceptedTokens: Number });
  const completed = model.complete('Once upon', asked);
  for await (const delta of completed) t.notOk('tokens' in delta);
  t.equal((await completed).logprobs?.length, 8);
  t.equal(await codeOf(model.chat('x', { logprobs: 21 })), 'invalid_value');
  t.equal(await codeOf(model.chat('x', { prediction: 5 as unknown as string })), 'invalid_type');
});

t.test('a bias may name text', async (t) => {
  const { loadModel } = await import('recua');
  const model = await loadModel('builtin', { isolated: false });
  t.teardown(() => model.dispose());
  const options = { temperature: 0, maxTokens: 6 };
  const [first] = (await model.chat('Tell me a story', options)).content.split(' ');
  t.notOk((await model.chat('Tell me a story', { ...options, logitBias: { [first]: false } })).content.startsWith(first));
});
