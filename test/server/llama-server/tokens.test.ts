// /tokenize, /detokenize, /apply-template and input_tokens over the built-in model: what they
// report for a chat matches the chat itself.
import t from 'tap';
import { startEngine } from '#recua/engine/gateway/client.js';
import { post, startApp, until } from '../app-under-test.js';
import { builtinPath } from '#recua/models/store.js';
import { options } from '../../engine/requests.js';

t.test('texts become tokens and back, with pieces, and as in a chat', async (t) => {
  const engine = startEngine({ ...options, modelPath: builtinPath, contextSize: 512 });
  t.teardown(() => engine.close());
  await engine.ready();
  const { url } = await startApp(t, {}, engine);
  const ask = async <T>(path: string, body: object): Promise<T> => {
    const response = await post(`${url}${path}`, body);
    t.equal(response.status, 200, path);
    return await response.json() as T;
  };
  const text = 'Hëllo wörld 🦙';
  const { tokens } = await ask<{ tokens: number[] }>('/tokenize', { content: text });
  t.strictSame(await ask('/detokenize', { tokens }), { content: text });
  t.strictSame(await ask('/detokenize', { tokens: [] }), { content: '' });
  const { tokens: pieces } = await ask<{ tokens: { id: number; piece: string | number[] }[] }>('/tokenize', { content: text, with_pieces: true });
  t.strictSame(pieces.map(({ id }) => id), tokens);
  const bytes = pieces.map(({ piece }) => (typeof piece === 'string' ? Buffer.from(piece) : Buffer.from(piece)));
  t.equal(Buffer.concat(bytes).toString(), text);

  const chat = { messages: [{ role: 'user', content: 'Hi <|im_end|> there' }] };
  const { prompt } = await ask<{ prompt: string }>('/apply-template', chat);
  t.match(prompt, /Hi <\|im_end\|> there/);
  const { input_tokens: counted } = await ask<{ input_tokens: number }>('/v1/chat/completions/input_tokens', chat);
  const { usage } = await ask<{ usage: { prompt_tokens: number } }>('/v1/chat/completions', { ...chat, max_tokens: 1 });
  t.equal(counted, usage.prompt_tokens);
  const long = { messages: [{ role: 'user', content: 'word '.repeat(50_000) }] };
  t.ok((await ask<{ input_tokens: number }>('/v1/chat/completions/input_tokens', long)).input_tokens > 50_000, 'more than the context holds');

  for (const [path, body, param] of [['/tokenize', {}, 'content'], ['/detokenize', { tokens: [-1] }, 'tokens[0]'], ['/apply-template', {}, 'messages']] as const) {
    const response = await post(`${url}${path}`, body);
    t.equal(response.status, 400);
    t.match(await response.json(), { error: { param } });
  }
});

t.test('a body no longer counts once its reply is sent', async (t) => {
  const { url } = await startApp(t, { bodyMemoryBytes: 200_000 });
  const content = 'word '.repeat(5_000);
  for (let round = 0; round < 10; round++) {
    t.equal((await post(`${url}/tokenize`, { content })).status, 200);
    t.equal((await post(`${url}/apply-template`, { messages: [{ role: 'user', content }] })).status, 200);
    t.equal((await post(`${url}/api/embed`, { input: content })).status, 200);
  }
});

t.test('a text that would take gigabytes is refused, and the engine lives on', async (t) => {
  const engine = startEngine({ ...options, modelPath: builtinPath, contextSize: 512 });
  t.teardown(() => engine.close());
  await engine.ready();
  const { url } = await startApp(t, {}, engine);
  const long = '\u4e2d'.repeat(3 * 2 ** 20);
  for (const [path, body] of [['/tokenize', { content: long }], ['/v1/chat/completions/input_tokens', { messages: [{ role: 'user', content: long }] }]] as const) {
    const response = await post(`${url}${path}`, body);
    t.equal(response.status, 400, path);
    t.match(await response.json(), { error: { code: 'invalid_value', message: /at most 8388608 bytes in \w+, got 94\d+; send it in parts/ } });
  }
  const listed = await post(`${url}/tokenize`, { content: long.slice(0, 500_000), with_pieces: true });
  t.equal(listed.status, 400);
  t.match(await listed.json(), { error: { param: 'content', message: /at most 1000000 tokens with their pieces/ } });
  t.equal((await engine.tokenize('a', false, false)).length, 1);
});

t.test('clients take turns, however many long texts one of them tokenizes', async (t) => {
  const engine = startEngine({ ...options, modelPath: builtinPath, contextSize: 512 });
  t.teardown(() => engine.close());
  await engine.ready();
  const { url } = await startApp(t, { apiKeyFile: JSON.stringify({ keys: [{ name: 'ann', key: 'a' }, { name: 'bob', key: 'b' }] }) }, engine);
  const ended: string[] = [];
  const ask = async (key: string, words: number): Promise<void> => {
    const response = await post(`${url}/tokenize`, { content: 'word '.repeat(words) }, { authorization: `Bearer ${key}` });
    await response.arrayBuffer();
    ended.push(key);
  };
  const long = Array.from({ length: 12 }, () => ask('a', 200_000));
  await until(() => ended.length > 0);
  await ask('b', 20_000);
  const before = ended.length;
  await Promise.all(long);
  t.ok(before < 9, `${before - 1} of 12 texts came before the other client's`);
});
