// Scores equal those of llama-server of the same tree, over HTTP and through the library.
import { join } from 'node:path';
import t from 'tap';
import { loadModel } from 'recua';
import { gpuLayers } from '../device.js';
import { rerankerNames, writeReranker } from '../native/random-reranker.js';
import { startLlamaServer } from './llama-server.js';
import { post, startService } from './service.js';

interface Reranking {
  results: { index: number; relevance_score: number; document?: { text: string } }[];
  usage: { prompt_tokens: number };
}

const query = 'Which animals live in the Andes?';
const documents = [
  'The llama is a domesticated South American camelid.', 'Bread is baked from flour and water.', 'x', 'naïve café 北京 🦙',
  'the llama walks home '.repeat(40), ...Array.from({ length: 30 }, (_, i) => `document ${i} of many`),
];

for (const name of rerankerNames) {
  t.test(`scores of a ${name} reranker equal llama-server’s`, async (t) => {
    const path = join(t.testdir(), `${name}.gguf`);
    await writeReranker(name, path);
    const reference = await startLlamaServer(t, ['-c', '4096', '-b', '2048', '-ub', '2048', '--rerank'], path);
    const { url } = await startService(t, [], path);
    const rank = async (base: string, more = {}) => await (await post(base, '/v1/rerank', { query, documents, ...more })).json() as Reranking;
    const [theirs, ours] = [await rank(reference), await rank(url)];
    t.equal(ours.results.length, documents.length);
    t.equal(ours.usage.prompt_tokens, theirs.usage.prompt_tokens);
    const scoresOf = ({ results }: Reranking) =>
      [...results].sort((a, b) => a.index - b.index).map(({ relevance_score }) => relevance_score);
    const expected = scoresOf(theirs);
    const spread = Math.max(...expected) - Math.min(...expected);
    t.ok(spread > 0.05, 'the documents differ at all');
    // Attention adds up in half precision, in an order that depends on the batch, and the two
    // servers batch documents differently.
    for (const [i, score] of scoresOf(ours).entries()) t.ok(Math.abs(score - expected[i]) < 0.01 * spread, `document ${i}: ${score}, ${expected[i]}`);
    for (const document of documents.slice(0, 6)) {
      const [alone, theirAlone] = [await rank(url, { documents: [document] }), await rank(reference, { documents: [document] })].map(
        (one) => one.results[0].relevance_score,
      );
      t.ok(Math.abs(alone - theirAlone) < (gpuLayers === 0 ? 1e-4 : 0.01) * spread, `alone: ${alone}, ${theirAlone}`);
    }
    t.same(ours.results, [...ours.results].sort((a, b) => b.relevance_score - a.relevance_score), 'the best first');
    t.same((await rank(url, { top_n: 2 })).results, ours.results.slice(0, 2));

    for (const isolated of [false, true]) {
      const model = await loadModel(path, { isolated, gpuLayers, requireGpu: gpuLayers !== 0 });
      t.teardown(() => model.dispose());
      t.match(model.info, { canRerank: true, canEmbed: false, pooling: 'rank' });
      const ranked = await model.rerank(query, documents);
      t.same(ranked.map(({ index }) => index), ours.results.map(({ index }) => index));
      for (const [i, { score }] of ranked.entries()) t.ok(Math.abs(score - ours.results[i].relevance_score) < 1e-5);
      t.same((await model.rerank(query, documents, { topN: 3 })).map(({ index }) => index), ranked.slice(0, 3).map(({ index }) => index));
      t.same(await model.rerank(query, []), []);
      await t.rejects(model.rerank(query, ['x', 'long '.repeat(1000)]), { code: 'context_length_exceeded', param: 'documents[1]', details: { index: 1 } });
      await t.rejects(model.embed('x'), { code: 'embeddings_unsupported', message: /reranker/ });
      await t.rejects(model.rerank('', ['x']), { code: 'invalid_value', param: 'query' });
    }
  });
}

t.test('a model without the head is not a reranker, even if it is told to be', async (t) => {
  const path = join(t.testdir(), 'plain.gguf');
  await writeReranker('bert', path, { head: false });
  const model = await loadModel(path, { isolated: false });
  t.teardown(() => model.dispose());
  await t.rejects(model.rerank(query, documents), { code: 'rerank_unsupported', message: /pooling is mean/ });
  t.equal((await model.embed('x')).length, 64);
  const failure = { code: 'model_unusable', message: /reranker.*no classification head/ };
  await t.rejects(loadModel(path, { isolated: false, pooling: 'rank' }), failure);
  await writeReranker('bert', path, { without: /^cls/ });
  await t.rejects(loadModel(path, { isolated: false }), failure, 'its file says that it is one');
  await writeReranker('qwen3', path, { without: /^cls/ });
  const writer = await loadModel(path, { isolated: false });
  t.teardown(() => writer.dispose());
  t.match(writer.info, { canGenerate: true, canRerank: false, canEmbed: false });
  t.ok(writer.info.notes.some((note) => /no classification head.*, so it cannot rerank/.test(note)));
});
