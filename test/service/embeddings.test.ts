// Embedding requests that share a step on the real engine: other requests never change a vector.
import t from 'tap';
import { post, startService } from './service.js';

const texts = [
  'rivers', 'the bread of the mountains', 'A clock that runs backwards is right at times.', 'salt', 'glass and ink', 'maps of a garden',
  'winter '.repeat(40), 'letters', 'music for trains', 'wool', 'Which bridge leads to the sea?', 'stone', '1 + 1', 'ä ö ü', 'x', 'music '.repeat(90),
];

async function embed(url: string, input: string | string[]): Promise<number[][]> {
  const response = await post(url, '/v1/embeddings', { input });
  if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
  return ((await response.json()) as { data: { embedding: number[] }[] }).data.map(({ embedding }) => embedding);
}

const cosine = (a: number[], b: number[]): number => a.reduce((sum, x, i) => sum + x * b[i]!, 0);

t.test('16 clients at once get the vectors they get alone', async (t) => {
  const { url } = await startService(t, ['-c', '512']);
  const alone: number[][] = [];
  for (const text of texts) alone.push((await embed(url, text))[0]!);
  for (let round = 0; round < 3; round++) {
    const [together, big] = await Promise.all([Promise.all(texts.map((text) => embed(url, text))), embed(url, [...texts, ...texts])]);
    for (const [i, vector] of alone.entries()) {
      for (const other of [together[i]![0]!, big[i]!, big[i + texts.length]!]) {
        if (!(cosine(vector, other) > 0.9999)) t.fail(`text ${i} differs in round ${round}: ${cosine(vector, other)}`);
      }
    }
    t.equal(together.length, texts.length);
  }
  t.ok(cosine(alone[0]!, alone[6]!) < 0.99, 'texts differ from each other');
});

t.test('a client that leaves and one with a bad request disturb nobody', async (t) => {
  const { url } = await startService(t, ['-c', '128']);
  const [expected] = await embed(url, 'rivers');
  const gone = new AbortController();
  const leaving = post(url, '/v1/embeddings', { input: Array.from({ length: 1000 }, (_, i) => `text ${i}`) }, gone.signal).then(() => 'answered', () => 'left');
  const wrong = post(url, '/v1/embeddings', { input: ['fine', 'word '.repeat(500)] });
  const right = Array.from({ length: 8 }, () => embed(url, 'rivers'));
  await right[0];
  gone.abort();
  const refused = await wrong;
  t.equal(refused.status, 400);
  t.match(await refused.json(), { error: { code: 'context_length_exceeded', param: 'input[1]' } });
  for (const [vector] of await Promise.all(right)) t.ok(cosine(vector!, expected!) > 0.9999);
  t.match(await leaving, /left|answered/);
  t.ok(cosine((await embed(url, 'rivers'))[0]!, expected!) > 0.9999, 'and the service goes on');
});
