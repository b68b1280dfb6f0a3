// How long a model stays loaded, as requests specify it.
import t from 'tap';
import { Fields } from '#recua/request/fields.js';
import { readKeepAlive } from '#recua/server/exchange/admission.js';

const durations: [value: unknown, ms: number | undefined][] = [
  [undefined, undefined], [null, undefined], [0, 0], [30, 30_000], [-1, Infinity], ['30', 30_000], ['0', 0], ['10m', 600_000], ['1h30m', 5_400_000],
  ['1.5h', 5_400_000], ['250ms', 250], ['-1', Infinity], ['-1m', Infinity], [' 5s ', 5_000],
  ['720h', 2_592_000_000], [3e9, 3e12], [1e12, Infinity], [1e300, Infinity], ['999999999h', Infinity],
];

t.test('keep_alive is seconds, or a duration', (t) => {
  for (const [value, ms] of durations) t.equal(readKeepAlive(Fields.of({ keep_alive: value })), ms, JSON.stringify(value));
  t.end();
});

t.test('any other value is refused', (t) => {
  for (const value of ['soon', '', '5 m', '5x', 'm', '1h soon', '1e3', true, [], {}, '9'.repeat(400)]) {
    t.throws(() => readKeepAlive(Fields.of({ keep_alive: value })), { code: 'invalid_value', param: 'keep_alive' }, JSON.stringify(value));
  }
  t.end();
});
