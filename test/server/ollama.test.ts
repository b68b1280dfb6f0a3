// Ollama's official client against the server. Needs nothing that only the fake engine can do.
import { Ollama } from 'ollama';
import t from 'tap';
import { post, subjectUrl } from './app-under-test.js';

const messages = [{ role: 'user', content: 'Say hello to the whole world, please.' }];
const options = { temperature: 0, num_predict: 40 };

async function startClient(t: Parameters<typeof subjectUrl>[0]): Promise<Ollama> {
  return new Ollama({ host: await subjectUrl(t) });
}

t.test('the ollama client chats, whole and streamed, with the same result', async (t) => {
  const client = await startClient(t);
  const whole = await client.chat({ model: 'default', messages, options });
  t.match(whole, { done: true, message: { role: 'assistant' } });
  t.not(whole.message.content, '');
  t.ok(whole.prompt_eval_count > 0 && whole.eval_count > 0 && whole.total_duration > 0);
  let text = '';
  let last: { done: boolean; done_reason: string; eval_count: number } | undefined;
  for await (const part of await client.chat({ model: 'default', messages, options, stream: true })) {
    text += part.message.content;
    last = part;
  }
  t.equal(text, whole.message.content);
  t.match(last, { done: true, done_reason: whole.done_reason, eval_count: whole.eval_count });
});

t.test('the ollama client generates', async (t) => {
  const client = await startClient(t);
  const whole = await client.generate({ model: 'default', prompt: 'Say hello.', system: 'Be short.', options });
  t.match(whole, { done: true, response: /./ });
  let text = '';
  for await (const part of await client.generate({ model: 'default', prompt: 'Say hello.', system: 'Be short.', options, stream: true })) text += part.response;
  t.equal(text, whole.response);
});

t.test('the ollama client embeds', async (t) => {
  const client = await startClient(t);
  const { embeddings } = await client.embed({ model: 'default', input: ['first text', 'second text'] });
  t.equal(embeddings.length, 2);
  for (const vector of embeddings) t.ok(Math.abs(Math.hypot(...vector) - 1) < 1e-4, 'unit length');
  const { embedding } = await client.embeddings({ model: 'default', prompt: 'first text' });
  t.strictSame(embedding, embeddings[0]);
});

t.test('the ollama client lists and shows models, and asks which ones run', async (t) => {
  const client = await startClient(t);
  const { models } = await client.list();
  t.equal(models.length, 1);
  t.match(models[0], { name: models[0]!.model, digest: /^[0-9a-f]{64}$/, details: { format: 'gguf' } });
  t.match((await client.ps()).models, [{ name: models[0]!.name }]);
  const shown = await client.show({ model: models[0]!.name });
  t.ok(shown.capabilities.includes('completion'));
  t.match(shown.model_info, { 'general.architecture': shown.details.family });
});

t.test('the ollama client gets the sentence of an error', async (t) => {
  const client = await startClient(t);
  await t.rejects(client.chat({ model: 'nothing', messages }), { status_code: 404, message: /The model "nothing" does not exist here/ });
  await t.rejects(client.chat({ model: 'default', messages: [{ role: 'robot', content: 'x' }] }), { status_code: 400, message: /messages\[0\]\.role/ });
});

t.test('GET and HEAD of / say that the server is there', async (t) => {
  const url = await subjectUrl(t);
  t.equal((await fetch(url, { method: 'HEAD' })).status, 200);
  t.match(await (await fetch(url)).text(), /Recua is running/);
});

t.test('no messages, or an empty prompt, load the model', async (t) => {
  const url = await subjectUrl(t);
  t.match(await (await post(`${url}/api/chat`, { model: 'default', messages: [] })).json(), { message: { content: '' }, done: true, done_reason: 'load' });
  t.match(await (await post(`${url}/api/generate`, { model: 'default' })).json(), { response: '', done: true, done_reason: 'load' });
});
