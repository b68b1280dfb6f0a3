import t from 'tap';
import { argumentsOf } from '#recua/server/exchange/cut-json.js';

t.test('arguments that were cut off keep their complete part', async (t) => {
  const cases: [text: string, value: object][] = [
    ['', {}], ['{', {}], ['{"a', {}], ['{"a"', {}], ['{"a":', {}], ['{"a": "b', {}], ['{"a": "b"', { a: 'b' }], ['{"a":1', {}], ['{"a":12,', { a: 12 }], ['{"a":12,"b', { a: 12 }],
    ['{"a":["x","y', { a: ['x'] }], ['{"a":[1,2', { a: [1] }], ['{"a":{"b":"c"},"d":tr', { a: { b: 'c' } }], ['{"a":{"b":{', { a: { b: {} } }], ['{"a":"x\\', {}],
    ['{"a":"}]\\"","b', { a: '}]"' }], ['no JSON', {}], ['[1]', {}], ['}}', {}], ['{"a" :\n"b"', { a: 'b' }],
  ];
  for (const [text, value] of cases) t.strictSame(argumentsOf(text), { value, isWhole: false }, text);
  t.strictSame(argumentsOf('{"a":[1]}'), { value: { a: [1] }, isWhole: true });
  t.strictSame(argumentsOf('{"a":[9e999,-9e999]}').value, { a: [Number.MAX_VALUE, -Number.MAX_VALUE] }, 'JSON has no Infinity');
});

t.test('wherever an object is cut, the rest is an object', async (t) => {
  const text = '{"city":"Par\\u00eds \\"x\\"","days":[1,2.5,{"a":null,"b":[[],{}]}],"deep":{"e":true,"f":"g"},"n":-1e3}';
  for (let at = 0; at < text.length; at++) {
    const { value } = argumentsOf(text.slice(0, at));
    t.ok(Object.keys(value).every((name) => Object.hasOwn(JSON.parse(text) as object, name)), text.slice(0, at));
  }
});

t.test('many open brackets take no longer than other text', async (t) => {
  // Work that grows with the square of the brackets would take an hour.
  const brackets = '['.repeat(400_000);
  t.strictSame(argumentsOf(`{"a":{"b":1},"c":${brackets}`), { value: {}, isWhole: false }, 'too deep for an object');
  t.strictSame(argumentsOf(`{"a":{"b":1},"c":[],"d":"${brackets}","e`), { value: { a: { b: 1 }, c: [], d: brackets }, isWhole: false });
});
