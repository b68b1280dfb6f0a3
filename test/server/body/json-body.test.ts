import t from 'tap';
import { post, startApp } from '../app-under-test.js';

const body = (more: string): string => `{"messages":[{"role":"user","content":"\\ud83c\\udf89"}],"extra":${more}}`;

t.test('half a character is refused with its place, and whole texts are not searched for it', async (t) => {
  const { url } = await startApp(t);
  const ask = async (more: string): Promise<unknown> => await (await post(`${url}/v1/chat/completions`, body(more))).json();
  const calls = t.capture(String.prototype, 'search', String.prototype.search);
  t.match(await ask(JSON.stringify(Array(2_000).fill({ a: ['whole', 1, null] }))), { object: 'chat.completion' });
  t.equal(calls().filter(({ args: [pattern] }) => (pattern as RegExp).source.includes('Surrogate')).length, 0);
  for (const [more, param, at] of [
    ['[1,{"b":["x","\\udc00"]}]', 'extra[1].b[1]', 1], ['{"c.d":"ab\\ud800"}', 'extra.c.d', 3], ['{"\\ud800":1}', 'extra', 1], ['"\\ud83c\\udf89\\ud83c"', 'extra', 3],
  ] as const) {
    t.match(await ask(more), { error: { code: 'invalid_value', param, message: new RegExp(`at character ${at}, which is half of a character`) } }, more);
  }
});
