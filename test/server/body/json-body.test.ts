import t from 'tap';
import { Fields } from '#recua/request/fields.js';
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

t.test('the steps of a large body share no turn of the event loop', async (t) => {
  const { url } = await startApp(t);
  let turn = 0;
  let over = false;
  const count = (): void => {
    turn++;
    if (!over) setImmediate(count);
  };
  t.teardown(() => (over = true));
  const large = body(JSON.stringify('x'.repeat(2 ** 21)));
  const steps: number[] = [];
  const note = (isStep: boolean): void => {
    if (isStep) steps.push(turn);
  };
  const [{ decode }, { fields }, { parse }] = [TextDecoder.prototype, Fields.prototype, JSON];
  t.capture(TextDecoder.prototype, 'decode', function (this: TextDecoder, ...args: Parameters<typeof decode>) {
    note(args[0]?.byteLength === large.length);
    return decode.apply(this, args);
  });
  t.capture(JSON, 'parse', (...args: Parameters<typeof parse>) => {
    note(args[0] === large);
    return parse(...args) as unknown;
  });
  t.capture(Fields.prototype, 'fields', function (this: Fields, name: string) {
    note(name === 'response_format');
    return fields.call(this, name);
  });
  count();
  t.match(await (await post(`${url}/v1/chat/completions`, large)).json(), { object: 'chat.completion' });
  t.equal(steps.length, 3, 'decoded, parsed, read');
  t.equal(new Set(steps).size, 3);
});

t.test('a stop waits for a request that is complete, even while its large body is parsed', async (t) => {
  for (const step of ['decoded', 'parsed']) {
    const app = await startApp(t);
    const large = body(JSON.stringify('x'.repeat(2 ** 21)));
    let closed: Promise<void> | undefined;
    const stop = (now: string): void => void (now === step && (closed ??= app.close(10_000)));
    const [{ decode }, { parse }] = [TextDecoder.prototype, JSON];
    t.capture(TextDecoder.prototype, 'decode', function (this: TextDecoder, ...args: Parameters<typeof decode>) {
      if (args[0]?.byteLength === large.length) stop('decoded');
      return decode.apply(this, args);
    });
    t.capture(JSON, 'parse', (...args: Parameters<typeof parse>) => {
      if (args[0] === large) stop('parsed');
      return parse(...args) as unknown;
    });
    const response = await post(`${app.url}/v1/chat/completions`, large);
    t.equal(response.status, 503, step);
    t.match(await response.json(), { error: { code: 'shutting_down' } });
    await closed;
  }
});
