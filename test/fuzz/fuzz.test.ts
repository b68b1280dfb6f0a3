// The short form of `npm run test:fuzz`: some hundred cases of each kind, always the same. It also
// tests the fuzzer itself: whatever a case breaks is found, made smaller and reported.
import t from 'tap';
import { fuzz } from './fuzzing.js';
import type { Kind } from './kind.js';
import { kindNames, moduleOf } from './kinds.js';

const seed = 20_261_123;
const kindOf = async (name: string): Promise<Kind> => (await import(moduleOf(name)) as { default: Kind }).default;

for (const name of kindNames) {
  t.test(`${name}: no case crashes it`, async (t) => {
    const kind = await kindOf(name);
    const { figures, failure } = await fuzz(kind, { name, module: moduleOf(name), count: kind.few, seed });
    t.comment(JSON.stringify(figures));
    t.equal(failure, undefined);
    t.equal(figures.cases, kind.few);
    t.ok(figures.accepted > kind.few / 20 && figures.refused > kind.few / 20, 'both sides of the line were met');
  });
}

const ways: [way: string, why: RegExp, smallest: number | undefined][] = [
  ['abort', /^The process ended with SIGABRT/, 1_000], ['throw', /1000 is wrong/, 1_000], ['loop', /^It takes longer than/, 1_000], ['hang', /^It takes longer than/, 1_000],
  ['memory', /^Cases have taken \d+ MiB of memory, 100 are allowed/, 1_000], ['end', /^After the last case: Error: It does not work any more/, undefined],
];
for (const [way, why, smallest] of ways) {
  t.test(`a case that makes the process ${way} is found and reduced to the smallest that does`, async (t) => {
    process.env['RECUA_TEST_BREAK'] = way;
    const module = moduleOf('breaking');
    const kind = await kindOf('breaking');
    // Only these are to take too long; the others may, on a busy machine.
    const quick = way === 'loop' || way === 'hang' ? { ...kind, mostMs: 300 } : kind;
    const { figures, failure } = await fuzz(quick, { name: way, module, count: 20, seed });
    t.match(failure, { why });
    t.equal(failure!.smallest, smallest);
    t.equal(figures.crashes, way === 'end' ? 0 : 1);
    if (way !== 'throw') return;
    const again = await fuzz({ ...quick }, { name: way, module, count: failure!.after, seed });
    t.equal(again.failure?.after, failure!.after, 'the same seed and count repeat it');
  });
}
