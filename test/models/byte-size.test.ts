import t from 'tap';
import { readRate, sizeText } from '#recua/models/byte-size.js';

t.test('rates are read as curl reads them', (t) => {
  for (const [text, bytes] of [
    ['500K', 512_000], ['2M', 2_097_152], ['1.5MiB', 1_572_864], ['1g', 1_073_741_824], ['4096', 4096], ['1MB', 1_000_000], ['300kB/s', 300_000],
    ['2 MiB/s', 2_097_152], ['.5k', 512], ['1b', 1],
  ] as const) t.equal(readRate(text), bytes, text);
  t.end();
});

t.test('an invalid rate is refused', (t) => {
  for (const text of ['', 'fast', '-1', '0.2', '1X', '1e400', '999999999T', '1,5M', 'K']) {
    t.throws(() => readRate(text), { code: 'invalid_usage', message: /Expected bytes per second/ }, JSON.stringify(text));
  }
  t.end();
});

t.test('sizes have the unit a person would choose', (t) => {
  for (const [bytes, text] of [
    [0, '0 bytes'], [1023, '1023 bytes'], [1024, '1.00 KiB'], [2_397_472, '2.29 MiB'], [41_943_040, '40.0 MiB'], [500 * 2 ** 30, '500 GiB'], [3 * 2 ** 50, '3072 TiB'],
  ] as const) t.equal(sizeText(bytes), text);
  t.end();
});
