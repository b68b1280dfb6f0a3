// Routes without a model also check unknown fields: a misspelled one is refused, any other is
// named.
import t from 'tap';
import { post, startApp } from './app-under-test.js';

t.test('misspelled fields are refused, and unknown ones named, wherever a body is read', async (t) => {
  const { url } = await startApp(t);
  const slips: [string, object, string][] = [
    ['/api/show', { model: 'default', verbosee: true }, 'verbosee'],
    ['/v1/chat/completions/control', { id: 'x', actoin: 'reasoning_end', action: 'reasoning_end' }, 'actoin'],
    ['/v1/batches', { input_file_id: 'file-1', endpoint: '/v1/embeddings', completion_window: '24h', metedata: {} }, 'metedata'],
  ];
  for (const [path, body, param] of slips) {
    const reply = await post(url + path, body);
    t.equal(reply.status, 400, path);
    t.match(await reply.text(), new RegExp(`${param} is not a field of this request`), path);
  }
  const shown = await post(`${url}/api/show`, { model: 'default', verbose: false, color: 'red' });
  t.match(await shown.json(), { warnings: [/"color"/] });
});

t.test('where a required field is missing, one with nearly its name is meant', async (t) => {
  const { url } = await startApp(t);
  for (const [path, body, meant] of [
    ['/v1/chat/completions', { message: [{ role: 'user', content: 'x' }] }, 'messages'], ['/v1/messages', { model: 'small', max_tokens: 5, mesages: [] }, 'messages'],
    ['/v1/completions', { prompts: 'x' }, 'prompt'], ['/v1/completions', { promt: 'x' }, 'prompt'], ['/tokenize', { contents: 'x' }, 'content'],
  ] as const) {
    const reply = await post(url + path, body);
    t.equal(reply.status, 400, path);
    t.match(await reply.text(), new RegExp(`did you mean ${meant}\\?`), path);
  }
  t.match(await (await post(`${url}/v1/chat/completions`, { color: 'red' })).json(), { error: { code: 'invalid_type', param: 'messages' } });
});
