import t from 'tap';
import { Sequence } from '#recua/engine/planning/sequence.js';

const make = (prompt: number, maxTokens: number, contextSize: number) => {
  const sequence = new Sequence(new Int32Array(prompt).fill(1), maxTokens, contextSize);
  sequence.join(0, 0);
  sequence.advance(prompt);
  return sequence;
};

t.test('it ends with length at maxTokens', async (t) => {
  const sequence = make(3, 2, 100);
  t.equal(sequence.accept(5, false), undefined);
  t.equal(sequence.accept(5, false), 'length');
  t.equal(sequence.state, 'finished');
  t.strictSame(sequence.usage(), { promptTokens: 3, cachedTokens: 0, completionTokens: 2 });
});

t.test('it may fill the context to its last position', async (t) => {
  const sequence = make(3, 100, 5);
  t.equal(sequence.accept(5, false), undefined);
  t.equal(sequence.accept(5, false), 'length');
});

t.test('an end-of-generation token wins over length', async (t) => {
  t.equal(make(3, 1, 100).accept(2, true), 'stop');
});

t.test('it starts after its shared prefix, and rewinds to nothing', async (t) => {
  const sequence = new Sequence(Int32Array.of(1, 2, 3, 4), 10, 100);
  sequence.join(2, 3);
  t.match(sequence, { state: 'prefill', evaluated: 3, pending: 1, cachedTokens: 3 });
  sequence.advance(1);
  sequence.accept(9, false);
  t.match(sequence, { state: 'decode', pending: 1, generated: 1 });
  sequence.rewind();
  t.match(sequence, { state: 'prefill', pending: 5, cachedTokens: 0 });
});

t.test('all tokens of a step but the last are evaluated, and a cut takes back those beyond it', async (t) => {
  const flags = new Uint8Array(10);
  flags[9] = 1;
  const sequence = make(3, 20, 100);
  t.equal(sequence.acceptAll(Int32Array.of(5, 6, 7, 8), flags), undefined);
  t.match(sequence, { length: 7, evaluated: 6, overrun: false, state: 'decode' });
  sequence.cut(5);
  t.match(sequence, { length: 5, evaluated: 5, overrun: true, state: 'finished' });
  const last = make(3, 20, 100);
  last.acceptAll(Int32Array.of(5), flags);
  last.cut(4);
  t.match(last, { length: 4, evaluated: 3, overrun: false, state: 'finished' });
  const ended = make(3, 20, 100);
  t.equal(ended.acceptAll(Int32Array.of(5, 9, 7), flags), 'stop');
  t.match(ended, { length: 5, evaluated: 4, overrun: true, state: 'finished' });
});

t.test('an undecided step counts the KV that is there, even if the sequence has ended', async (t) => {
  const flags = new Uint8Array(10);
  const sequence = make(3, 20, 100);
  sequence.acceptAll(Int32Array.of(5, 6), flags);
  sequence.defer(2);
  t.match(sequence, { length: 5, evaluated: 5, overrun: false, state: 'deciding' });
  const ended = make(3, 20, 100);
  ended.finish();
  ended.defer(1);
  t.match(ended, { length: 3, evaluated: 3, overrun: true, state: 'finished' });
});
