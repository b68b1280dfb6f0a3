import t, { type Test } from 'tap';
import { RecuaError } from '#recua/errors.js';
import { post, startApp } from '../app-under-test.js';
import { description, FakeEngine } from '../fake-engine.js';

const model = { ...description, canRerank: true };

async function startReranker(t: Test) {
  const engine = new FakeEngine();
  engine.state = { state: 'ready', model, status: { running: 0, waiting: 0, tokens: 0 } };
  return await startApp(t, {}, engine);
}

const request = { query: 'which', documents: ['short', 'the longest of them', 'of middle size'] };

t.test('a server of one model warns that keep_alive changes nothing', async (t) => {
  const { url } = await startReranker(t);
  t.match(await (await post(`${url}/v1/rerank`, { ...request, keep_alive: 0 })).json(), { warnings: [/^keep_alive changes nothing here/] });
});

t.test('documents come in order of relevance, with their places and the tokens used', async (t) => {
  const { url } = await startReranker(t);
  for (const path of ['/v1/rerank', '/v1/reranking', '/rerank', '/reranking']) {
    const res = await post(`${url}${path}`, { model: 'default', ...request });
    t.equal(res.status, 200);
    t.strictSame(await res.json(), {
      object: 'list', model: 'owner/model', usage: { prompt_tokens: 38, total_tokens: 38 },
      results: [{ index: 1, relevance_score: 19 / 8 }, { index: 2, relevance_score: 14 / 8 }, { index: 0, relevance_score: 5 / 8 }],
    }, path);
  }
});

t.test('top_n keeps the best, return_documents brings the texts, documents may be objects', async (t) => {
  const { url } = await startReranker(t);
  const documents = request.documents.map((text) => ({ text }));
  const reply = await (await post(`${url}/v1/rerank`, { ...request, documents, top_n: 1, return_documents: true })).json();
  t.strictSame(reply.results, [{ index: 1, relevance_score: 19 / 8, document: { text: 'the longest of them' } }]);
  t.equal((await (await post(`${url}/v1/rerank`, { ...request, top_n: 99 })).json()).results.length, 3);
});

t.test('texts instead of documents are answered as Text Embeddings Inference does', async (t) => {
  const { url } = await startReranker(t);
  const { query, documents: texts } = request;
  t.strictSame(await (await post(`${url}/rerank`, { query, texts })).json(), [{ index: 1, score: 19 / 8 }, { index: 2, score: 14 / 8 }, { index: 0, score: 5 / 8 }]);
  t.strictSame(await (await post(`${url}/rerank`, { query, texts, return_text: true, top_n: 1 })).json(), [{ index: 1, score: 19 / 8, text: 'the longest of them' }]);
  t.match(await (await post(`${url}/rerank`, { query, texts: [''] })).json(), { error: { param: 'texts[0]' } });
});

t.test('errors name the field', async (t) => {
  const { url, engine } = await startReranker(t);
  const wrong: [object, string, string][] = [
    [{ documents: ['a'] }, 'invalid_type', 'query'], [{ query: '', documents: ['a'] }, 'invalid_value', 'query'], [{ query: 'a' }, 'invalid_type', 'documents'],
    [{ query: 'a', documents: [] }, 'invalid_value', 'documents'], [{ query: 'a', documents: 'b' }, 'invalid_type', 'documents'],
    [{ query: 'a', documents: ['b', 7] }, 'invalid_type', 'documents[1]'], [{ query: 'a', documents: [''] }, 'invalid_value', 'documents[0]'],
    [{ query: 'a', documents: [{ text: 7 }] }, 'invalid_type', 'documents[0].text'], [{ ...request, top_n: 0 }, 'invalid_value', 'top_n'],
    [{ ...request, return_documents: 'yes' }, 'invalid_type', 'return_documents'], [{ ...request, model: 'other' }, 'model_not_found', 'model'],
  ];
  for (const [body, code, param] of wrong) {
    const res = await post(`${url}/v1/rerank`, body);
    t.match((await res.json()).error, { code, param }, JSON.stringify(body));
    t.ok(res.status >= 400 && res.status < 500);
  }
  engine.early = new RecuaError('context_length_exceeded', 'Too long.', { param: 'documents[1]' });
  t.equal((await post(`${url}/v1/rerank`, request)).status, 400);
});

t.test('a model that is not a reranker refuses', async (t) => {
  const { url } = await startApp(t);
  const res = await post(`${url}/v1/rerank`, request);
  t.equal(res.status, 400);
  t.match((await res.json()).error, { code: 'rerank_unsupported', param: 'model' });
});
