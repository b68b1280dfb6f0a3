import t from 'tap';
import { jsonParts, JsonText, jsonText, LongList } from '#recua/server/http/long-json.js';

const count = (from: number): Generator<number> => (function* entries() {
  for (let at = from; at < 1_000; at++) yield at;
})();

t.test('long lists give the JSON of lists, in parts', async (t) => {
  const numbers = Array.from({ length: 1_000 }, (_, at) => at);
  for (const [value, same] of [
    [
      { a: new LongList(() => count(0)), b: [new LongList(() => count(999)), new LongList(() => count(1_000))] },
      { a: numbers, b: [[999], []] },
    ],
    [numbers, numbers],
    [
      { list: numbers, text: '"', nothing: undefined, nested: { null: null } },
      { list: numbers, text: '"', nothing: undefined, nested: { null: null } },
    ],
    [
      { holes: Array.from({ length: 100 }, (_, at) => (at % 2 === 0 ? undefined : NaN)) },
      { holes: Array.from({ length: 100 }, () => null) },
    ],
    [
      { of: Array.from({ length: 65 }, () => new LongList(() => count(990))) },
      { of: Array.from({ length: 65 }, () => numbers.slice(990)) },
    ],
    [{}, {}],
  ]) {
    t.equal(await jsonText(value as object), JSON.stringify(same));
    t.equal(JSON.stringify(value), JSON.stringify(same), 'and without parts');
  }
});

t.test('a JSON text stays as it is, also in a long list', async (t) => {
  const text = '{"id":12345678901234567890,"x":1e999}';
  const entry = { type: 'call', input: new JsonText(text) };
  const same = `{"type":"call","input":${text}}`;
  t.equal(await jsonText({ all: [entry, entry] }), `{"all":[${same},${same}]}`);
  t.equal(await jsonText({ all: Array.from({ length: 65 }, () => entry) }), `{"all":[${Array.from({ length: 65 }, () => same).join(',')}]}`);
});

t.test('a part is at most 64 KiB and an entry long, and none is made before its turn', async (t) => {
  let made = 0;
  const list = new LongList(function* entries() {
    for (; made < 1_000_000; made++) yield 'x';
  });
  let parts = 0;
  for (const part of jsonParts({ before: 1, list })) {
    t.ok(part.length < 64 * 1_024 + 5);
    t.ok(made <= 16 * 1_024 * parts++);
    if (parts === 10) break;
  }
  t.ok(made > 100_000);
});

t.test('a text that looks like the place of a list stays a text', async (t) => {
  const value = { list: new LongList(() => count(0)), texts: ['","', '"', '[', '${mark}'] };
  t.strictSame(JSON.parse(await jsonText(value)), { list: [...count(0)], texts: value.texts });
});
