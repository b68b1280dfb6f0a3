import t from 'tap';
import { post, startApp } from '../app-under-test.js';

t.test('other work goes on while many vectors are written, in every dialect', async (t) => {
  const { url, engine } = await startApp(t);
  const vectors = Array.from({ length: 32 }, (_, at) => Float32Array.from({ length: 4_096 }, () => at + 1 / 3));
  engine.embed = async () => ({ vectors, tokenCounts: new Int32Array(32) });
  let turn = 0;
  let goes = true;
  const next = (): void => void (turn++, goes && setImmediate(next));
  next();
  t.teardown(() => (goes = false));
  const turns = new Set<number>();
  const { from } = Array;
  t.capture(Array, 'from', (list: Float32Array) => {
    if (list instanceof Float32Array) turns.add(turn);
    return from(list);
  });
  const input = vectors.map(() => 'x');
  const ollama = await (await post(`${url}/api/embed`, { input, color: 'red' })).json() as { embeddings: number[][]; model: string; warnings: string[] };
  t.equal(turns.size, 32, '/api/embed');
  t.strictSame(ollama.embeddings, vectors.map((one) => Array.from(one)));
  t.match(ollama, { model: 'owner/model', prompt_eval_count: 0, warnings: [/"color"/] });
  turns.clear();
  const openai = await (await post(`${url}/v1/embeddings`, { input, color: 'red' })).json() as { data: { embedding: number[] }[] };
  t.equal(turns.size, 32, '/v1/embeddings');
  t.strictSame(openai.data.map(({ embedding }) => embedding), ollama.embeddings);
  t.match(openai, { object: 'list', model: 'owner/model', usage: { total_tokens: 0 }, warnings: [/"color"/] });
});

t.test('the older embedding of Ollama is one vector, with or without warnings', async (t) => {
  const { url } = await startApp(t);
  const ask = async (more: object): Promise<object> => await (await post(`${url}/api/embeddings`, { prompt: 'a', dimensions: 1, ...more })).json() as object;
  t.strictSame(Object.keys(await ask({})), ['embedding']);
  t.match(await ask({ color: 'red' }), { embedding: [Number], warnings: [/"color"/] });
});
