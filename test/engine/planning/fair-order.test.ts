import t from 'tap';
import { FairOrder } from '#recua/engine/planning/fair-order.js';
import { Sequence } from '#recua/engine/planning/sequence.js';
import { random } from '../requests.js';

const asks = (tokens = 10) => new Sequence(new Int32Array(tokens).fill(1), 100, 10_000);

/** The order in which clients are served, one at a time, each for `tokens` of an answer. */
function serve(order: FairOrder, waiting: Sequence[], times: number, names: Map<Sequence, string>, tokens = 5): string[] {
  const served: string[] = [];
  for (; times > 0 && waiting.length > 0; times--) {
    order.sort(waiting);
    const next = waiting.shift()!;
    served.push(names.get(next)!);
    next.join(0, 0);
    next.advance(next.pending);
    for (let made = 0; made < tokens; made++) {
      next.accept(7, false);
      next.advance(1);
    }
    order.leave(next);
  }
  return served;
}

/**
 * Adds requests of clients named by letters; a capital letter has the tier `flex`, and `!` a higher
 * priority.
 */
function enter(order: FairOrder, letters: string, names: Map<Sequence, string>, tokens?: number): Sequence[] {
  return [...letters].map((letter) => {
    const one = asks(tokens);
    names.set(one, letter);
    const client = letter.toLowerCase();
    order.enter(one, { client, priority: letter === '!' ? 1 : letter === client ? 0 : -1 });
    return one;
  });
}

t.test('clients take turns, and each has its own requests in order', (t) => {
  const [order, names] = [new FairOrder(), new Map<Sequence, string>()];
  const waiting = enter(order, 'aaaaaabbc', names);
  const firsts = [...waiting];
  t.equal(serve(order, waiting, 9, names).join(''), 'abcabaaaa');
  const ofA = firsts.filter((one) => names.get(one) === 'a');
  t.strictSame(ofA, [...ofA].sort((one, other) => firsts.indexOf(one) - firsts.indexOf(other)));
  t.end();
});

t.test('tokens count: a client with long prompts is served less often', (t) => {
  const [order, names] = [new FairOrder(), new Map<Sequence, string>()];
  const waiting = [...enter(order, 'aaaa', names, 100), ...enter(order, 'bbbbbbbbbbbb', names, 10)];
  const served = serve(order, waiting, 9, names);
  t.equal(served.filter((one) => one === 'a').length, 2, served.join(''));
  t.end();
});

t.test('priorities come first and last, whatever their clients received', (t) => {
  const [order, names] = [new FairOrder(), new Map<Sequence, string>()];
  const waiting = enter(order, 'AAab!b', names);
  t.equal(serve(order, waiting, 6, names).join(''), '!abbAA');
  t.end();
});

t.test('a client that was away has saved up nothing, and one that left owing still owes', (t) => {
  const [order, names] = [new FairOrder(), new Map<Sequence, string>()];
  const waiting = enter(order, 'aaaaaaaa', names);
  serve(order, waiting, 4, names);
  waiting.push(...enter(order, 'bbbb', names));
  t.equal(serve(order, waiting, 4, names).join(''), 'abab', 'not all of the new one first');
  const rest = serve(order, waiting, 8, names);
  t.equal(rest.length, 4);
  // A client that received much while another waited left, and returns beside it.
  waiting.push(...enter(order, 'd', names), ...enter(order, 'c', names, 5_000), ...enter(order, 'ddd', names));
  t.equal(serve(order, waiting, 2, names).join(''), 'dc');
  waiting.push(...enter(order, 'c', names));
  t.equal(serve(order, waiting, 4, names).join(''), 'dddc');
  t.end();
});

t.test('what a client received while nobody waited is not held against it', (t) => {
  const [order, names] = [new FairOrder(), new Map<Sequence, string>()];
  for (let one = 0; one < 100; one++) serve(order, enter(order, 'a', names), 1, names);
  const waiting = [...enter(order, 'bbbbbbbb', names), ...enter(order, 'a', names)];
  t.equal(serve(order, waiting, 3, names).join(''), 'bab');
  t.end();
});

t.test('nor is it if others ran all the time without waiting', (t) => {
  const [order, names] = [new FairOrder(), new Map<Sequence, string>()];
  const [long] = enter(order, 'c', names);
  long!.join(0, 0);
  for (let one = 0; one < 100; one++) serve(order, enter(order, 'a', names), 1, names);
  const waiting = [...enter(order, 'bbbbbbbb', names), ...enter(order, 'cccc', names), ...enter(order, 'a', names)];
  t.equal(serve(order, waiting, 6, names).join(''), 'bcabcb');
  t.end();
});

t.test('nor is it if requests of a lower priority waited', (t) => {
  const [order, names] = [new FairOrder(), new Map<Sequence, string>()];
  const low = enter(order, 'C', names);
  for (let one = 0; one < 100; one++) serve(order, enter(order, 'a', names), 1, names);
  const waiting = [...enter(order, 'bbbbbbbb', names), ...enter(order, 'a', names), ...low, ...enter(order, 'BB', names)];
  t.equal(serve(order, waiting, 3, names).join(''), 'bab');
  t.equal(serve(order, waiting, 9, names).join(''), 'bbbbbbCBB');
  t.end();
});

t.test('of two clients that always want more, neither gets ahead by more than a request', (t) => {
  for (let seed = 1; seed <= 20; seed++) {
    const [order, names, next] = [new FairOrder(), new Map<Sequence, string>(), random(seed)];
    const waiting: Sequence[] = [];
    const given = { a: 0, b: 0 };
    let largest = 0;
    for (let round = 0; round < 300; round++) {
      for (const letter of ['a', 'b'] as const) {
        while (waiting.filter((one) => names.get(one) === letter).length < 3) waiting.push(...enter(order, letter, names, 1 + Math.floor(next() * (letter === 'a' ? 400 : 40))));
      }
      order.sort(waiting);
      const { promptLength } = waiting[0]!;
      const [who] = serve(order, waiting, 1, names, 5);
      const cost = promptLength + 2 * 5;
      given[who as 'a' | 'b'] += cost;
      largest = Math.max(largest, cost);
      t.ok(Math.abs(given.a - given.b) <= 2 * largest, `seed ${seed}, round ${round}: ${given.a} and ${given.b}`);
    }
  }
  t.end();
});

t.test('clients that come once are forgotten in the end', (t) => {
  const [order, names] = [new FairOrder(), new Map<Sequence, string>()];
  for (let one = 0; one < 5_000; one++) {
    const sequence = asks();
    names.set(sequence, 'x');
    order.enter(sequence, { client: `client ${one}`, priority: 0 });
    serve(order, [sequence], 1, names);
  }
  t.ok(order.known <= 1_001, `${order.known} are known`);
  t.end();
});
