import t from 'tap';
import { weighJson } from '#recua/request/json-weight.js';

const weigh = (text: string): number => weighJson(Buffer.from(text), 'The body');
const times = (count: number, text: string): string => Array<string>(count).fill(text).join(',');

t.test('many small values weigh what they take', async (t) => {
  t.ok(weigh(`[${times(1_000_000, '1.1')}]`) >= 16_000_000, 'numbers');
  t.ok(weigh(`[${times(500_000, '"x"')}]`) >= 20_000_000, 'strings');
  t.equal(weigh(JSON.stringify('1,2:[3]'.repeat(1_000))), weigh('"x"'), 'not those in a text');
});

t.test('more values than any request has are refused', async (t) => {
  t.doesNotThrow(() => weigh(`{"input":[${times(2_048, `[${times(1_024, '1')}]`)}]}`), '2,048 inputs of tokens');
  for (const [text, what] of [
    [`[${times(4_000_002, '1')}]`, '4000000 values'], [`[${times(600_001, '""')}]`, '600000 strings'],
    [`{${times(300_001, '"":1')}}`, '300000 fields'], [`[${times(200_000, '[]')}]`, '200000 objects and arrays'],
  ] as const) {
    t.throws(() => weigh(text), { code: 'invalid_json', message: `The body has over ${what}; send it in parts.` });
  }
});
