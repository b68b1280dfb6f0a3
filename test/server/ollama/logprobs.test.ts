// Log probabilities in Ollama's format, with the built-in model.
import t from 'tap';
import { post } from '../app-under-test.js';
import { startRealApp } from '../real-engine.js';

interface Told { token: string; logprob: number; top_logprobs: { token: string; logprob: number }[] }
interface Part { logprobs?: Told[]; eval_count?: number; done: boolean }

t.test('each token has its log probability on request, whole and streamed', async (t) => {
  const { url } = await startRealApp(t);
  const routes = {
    chat: { messages: [{ role: 'user', content: 'Hello!' }] },
    generate: { prompt: 'Hello!' },
  };
  for (const [route, what] of Object.entries(routes)) {
    const ask = async (more: object): Promise<Part[]> => {
      const body = { model: 'default', options: { temperature: 0, num_predict: 8 }, ...what, ...more };
      return (await (await post(`${url}/api/${route}`, body)).text()).trim().split('\n').map((line) => JSON.parse(line) as Part);
    };
    const wish = { logprobs: true, top_logprobs: 3 };
    // From here on the prompt is cached; a prompt that is read differs from it in the last bits.
    await ask({ stream: false });
    const [whole] = await ask({ ...wish, stream: false });
    t.equal(whole!.logprobs!.length, whole!.eval_count);
    for (const { token, logprob, top_logprobs: top } of whole!.logprobs!) {
      t.equal(top.length, 3);
      t.match(top[0], { token, logprob }, 'the likeliest was taken');
    }
    const parts = await ask(wish);
    t.strictSame(parts.flatMap(({ logprobs }) => logprobs ?? []), whole!.logprobs);
    for (const part of await ask({})) t.notOk('logprobs' in part);
    const refused = await post(`${url}/api/${route}`, { model: 'default', ...what, top_logprobs: 3 });
    t.equal(refused.status, 400);
    t.match(await refused.json(), { param: 'top_logprobs', error: /logprobs: true/ });
  }
});
