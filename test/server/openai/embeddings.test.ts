import t from 'tap';
import { post, startApp, until } from '../app-under-test.js';
import { description, hang } from '../fake-engine.js';
import { RecuaError } from '#recua/errors.js';

t.test('texts and tokens may be mixed', async (t) => {
  const { url, engine } = await startApp(t);
  t.equal((await post(`${url}/v1/embeddings`, { input: ['a b', [1, 2]] })).status, 200);
  t.strictSame(engine.embedded[0]!.inputs, ['a b', Int32Array.of(1, 2)]);
});

t.test('one string, many strings, tokens and many token arrays are embedded in order', async (t) => {
  const { url, engine } = await startApp(t);
  const cases: [unknown, number][] = [
    ['text', 1], [['a', 'bb', 'ccc'], 3], [[1, 2, 3], 1], [[[1, 2], [3]], 2],
    [Array.from({ length: 33 }, (_, at) => `text ${at}`), 33], [Array.from({ length: 2048 }, (_, at) => `text ${at}`), 2048],
  ];
  for (const [input, count] of cases) {
    const res = await post(`${url}/v1/embeddings`, { input });
    t.equal(res.status, 200);
    const body = await res.json();
    t.equal(body.object, 'list');
    t.equal(body.model, 'owner/model');
    t.equal(body.data.length, count);
    t.ok(body.data.every((entry: any, at: number) => entry.object === 'embedding' && entry.index === at && entry.embedding.length === description.embeddingSize));
    t.ok(body.usage.prompt_tokens > 0);
    t.equal(body.usage.total_tokens, body.usage.prompt_tokens);
  }
  t.ok(engine.embedded[2].inputs[0] instanceof Int32Array);
  t.same(engine.embedded[3].inputs.map((tokens) => [...tokens]), [[1, 2], [3]]);
});

t.test('base64 holds the same numbers as float', async (t) => {
  const { url } = await startApp(t);
  const ask = async (fields: object) => (await (await post(`${url}/v1/embeddings`, { input: 'text', ...fields })).json()).data[0].embedding;
  const floats = await ask({ encoding_format: 'float' });
  const bytes = Buffer.from(await ask({ encoding_format: 'base64' }), 'base64');
  t.same(floats.map((_: number, at: number) => bytes.readFloatLE(at * 4)), floats.map(Math.fround));
});

t.test('dimensions keep the first numbers at unit length', async (t) => {
  const { url } = await startApp(t);
  const whole = (await (await post(`${url}/v1/embeddings`, { input: 'text' })).json()).data[0].embedding;
  const short = (await (await post(`${url}/v1/embeddings`, { input: 'text', dimensions: 3 })).json()).data[0].embedding;
  t.equal(short.length, 3);
  t.ok(Math.abs(Math.hypot(...short) - 1) < 1e-6);
  t.ok(Math.abs(short[0] / short[1] - whole[0] / whole[1]) < 1e-5);
});

t.test('an invalid input is a 400 that names the field', async (t) => {
  const { url, engine } = await startApp(t);
  const cases: [object, string, string][] = [
    [{}, 'invalid_type', 'input'], [{ input: null }, 'invalid_type', 'input'], [{ input: 5 }, 'invalid_type', 'input'],
    [{ input: {} }, 'invalid_type', 'input'], [{ input: '' }, 'invalid_value', 'input'], [{ input: [] }, 'invalid_value', 'input'],
    [{ input: ['a', ''] }, 'invalid_value', 'input[1]'], [{ input: ['a', 1] }, 'invalid_type', 'input[1]'], [{ input: [1, 'a'] }, 'invalid_type', 'input[1]'],
    [{ input: [null] }, 'invalid_type', 'input[0]'], [{ input: [[]] }, 'invalid_value', 'input[0]'], [{ input: [[1], 5] }, 'invalid_type', 'input[1]'],
    [{ input: [1, 100] }, 'invalid_value', 'input[1]'], [{ input: [-1] }, 'invalid_value', 'input[0]'], [{ input: [1.5] }, 'invalid_type', 'input[0]'],
    [{ input: [[1], [4294967296]] }, 'invalid_value', 'input[1][0]'], [{ input: new Array(2049).fill('x') }, 'invalid_value', 'input'],
    [{ input: 'a', encoding_format: 'int8' }, 'invalid_value', 'encoding_format'], [{ input: 'a', dimensions: 0 }, 'invalid_value', 'dimensions'],
    [{ input: 'a', dimensions: 9 }, 'invalid_value', 'dimensions'], [{ input: 'a', model: 5 }, 'invalid_type', 'model'],
  ];
  for (const [body, code, param] of cases) {
    const res = await post(`${url}/v1/embeddings`, body);
    t.equal(res.status, 400, JSON.stringify(body).slice(0, 60));
    t.match(await res.json(), { error: { code, param } });
  }
  t.equal(engine.embedded.length, 0);
});

t.test('errors of the engine keep their code, numbers and field', async (t) => {
  const { url, engine } = await startApp(t);
  engine.early = new RecuaError('context_length_exceeded', 'Too long.', { param: 'input', details: { n_prompt_tokens: 9, n_ctx: 8 } });
  const res = await post(`${url}/v1/embeddings`, { input: 'text' });
  t.equal(res.status, 400);
  t.match(await res.json(), { error: { code: 'context_length_exceeded', param: 'input', n_prompt_tokens: 9, n_ctx: 8 } });
});

t.test('a model without pooled vectors is a 400', async (t) => {
  const { url, engine } = await startApp(t);
  engine.state = { state: 'ready', model: { ...description, canEmbed: false }, status: { running: 0, waiting: 0, tokens: 0 } };
  t.match(await (await post(`${url}/v1/embeddings`, { input: 'text' })).json(), { error: { code: 'embeddings_unsupported', param: 'model' } });
});

t.test('a client that leaves stops its embedding', async (t) => {
  const { url, engine } = await startApp(t);
  engine.script = hang;
  const leaving = new AbortController();
  const asked = post(`${url}/v1/embeddings`, { input: 'text' }, {}, leaving.signal);
  await until(() => engine.embedded.length === 1);
  leaving.abort();
  await t.rejects(asked);
  await until(() => engine.cancelled === 1);
});
