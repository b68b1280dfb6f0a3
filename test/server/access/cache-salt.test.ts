// Over the built-in model: which keys share the prefix cache.
import t from 'tap';
import { startEngine } from '#recua/engine/gateway/client.js';
import { builtinPath } from '#recua/models/store.js';
import { options } from '../../engine/requests.js';
import { post, startApp } from '../app-under-test.js';

t.test('a key with cache_salt shares nothing of its prompts', async (t) => {
  const engine = startEngine({ ...options, modelPath: builtinPath, contextSize: 1_024, parallel: 4 });
  t.teardown(() => engine.close());
  await engine.ready();
  const keys = [{ name: 'ann', key: 'a', cache_salt: true }, { name: 'bob', key: 'b' }, { name: 'eve', key: 'e' }, { name: 'zoe', key: 'z', cache_salt: true }];
  const { url } = await startApp(t, { apiKeyFile: JSON.stringify(keys) }, engine);
  const cached = async (key: string): Promise<number> => {
    const messages = [{ role: 'user', content: 'Tell me of the pack train that crosses the mountains. '.repeat(8) }];
    const reply = await post(`${url}/v1/chat/completions`, { messages, temperature: 0, max_tokens: 4 }, { 'x-api-key': key });
    const { usage } = await reply.json() as { usage: { prompt_tokens_details: { cached_tokens: number } } };
    return usage.prompt_tokens_details.cached_tokens;
  };
  t.equal(await cached('a'), 0);
  t.ok(await cached('a') > 50, 'its own');
  t.equal(await cached('b'), 0);
  t.ok(await cached('e') > 50, 'keys without it share');
  t.equal(await cached('z'), 0);
  t.ok(await cached('a') > 50);
});
