// Numbers as the page shows them.
import t from 'tap';

interface Units { bytes(value: number): string; duration(ms: number): string }
const { bytes, duration } = await import(new URL('../../web/app/units.js', import.meta.url).href) as Units;
const kib = 1024;
const mib = 1024 * kib;

t.test('a number that is rounded up to the next unit is shown in that unit', async (t) => {
  t.strictSame([1023, 1023.4 * kib, 1023.6 * kib, 1023.4 * mib, 1023.6 * mib].map(bytes), ['1023 B', '1023 KiB', '1.0 MiB', '1023 MiB', '1.0 GiB']);
  t.strictSame([999.4, 999.7, 59_940, 59_960, 119_400, 119_700].map(duration), ['999 ms', '1.0 s', '59.9 s', '1 min 0 s', '1 min 59 s', '2 min 0 s']);
});
