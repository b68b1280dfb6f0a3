import t from 'tap';
import { partOfArguments, wholeArguments } from '#recua/server/exchange/cut-json.js';

t.test('arguments that were cut off keep their complete part', async (t) => {
  const cases: [text: string, value: object][] = [
    ['', {}], ['{', {}], ['{"a', {}], ['{"a"', {}], ['{"a":', {}], ['{"a": "b', {}], ['{"a": "b"', { a: 'b' }], ['{"a":1', {}], ['{"a":12,', { a: 12 }], ['{"a":12,"b', { a: 12 }],
    ['{"a":["x","y', { a: ['x'] }], ['{"a":[1,2', { a: [1] }], ['{"a":{"b":"c"},"d":tr', { a: { b: 'c' } }], ['{"a":{"b":{', { a: { b: {} } }], ['{"a":"x\\', {}],
    ['{"a":"}]\\"","b', { a: '}]"' }], ['no JSON', {}], ['[1]', {}], ['}}', {}], ['{"a" :\n"b"', { a: 'b' }],
  ];
  for (const [text, value] of cases) {
    t.equal(wholeArguments(text), undefined, text);
    t.strictSame(partOfArguments(text), value, text);
  }
  t.equal(wholeArguments('{"a":[1]}')?.text, '{"a":[1]}');
  t.strictSame(partOfArguments('{"a":[9e999,-9e999],'), { a: [Number.MAX_VALUE, -Number.MAX_VALUE] }, 'JSON has no Infinity');
});

t.test('wherever an object is cut, the rest is an object', async (t) => {
  const text = '{"city":"Par\\u00eds \\"x\\"","days":[1,2.5,{"a":null,"b":[[],{}]}],"deep":{"e":true,"f":"g"},"n":-1e3}';
  for (let at = 0; at < text.length; at++) {
    const value = partOfArguments(text.slice(0, at));
    t.ok(Object.keys(value).every((name) => Object.hasOwn(JSON.parse(text) as object, name)), text.slice(0, at));
  }
});

t.test('many open brackets take no longer than other text', async (t) => {
  // Work that grows with the square of the brackets would take an hour.
  const brackets = '['.repeat(400_000);
  t.strictSame(partOfArguments(`{"a":{"b":1},"c":${brackets}`), {}, 'too deep for an object');
  t.strictSame(partOfArguments(`{"a":{"b":1},"c":[],"d":"${brackets}","e`), { a: { b: 1 }, c: [], d: brackets });
});
