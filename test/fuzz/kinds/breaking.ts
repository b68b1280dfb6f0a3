// A kind of input that breaks the process in every way, to test the fuzzer.
import fc from 'fast-check';
import { setTimeout as wait } from 'node:timers/promises';
import { kind } from '../kind.js';

const held: Buffer[] = [];

export default kind<number>({
  cases: fc.nat(3).map((level) => [1, 2, 1_000, 5_000][level]!),
  few: 0, mostMs: 3_000, mostMib: 100,
  async open() {
    const way = process.env['RECUA_TEST_BREAK'] ?? '';
    return {
      async take(one) {
        if (one < 1_000) return 'refused';
        if (way === 'abort') process.abort();
        if (way === 'loop') for (;;);
        if (way === 'hang') await wait(1_000_000);
        if (way === 'memory') held.push(Buffer.alloc(200 << 20, 1));
        if (way === 'throw') throw new Error(`${one} is wrong`);
        return 'accepted';
      },
      close() {
        if (way === 'end') throw new Error('It does not work any more.');
      },
    };
  },
});
