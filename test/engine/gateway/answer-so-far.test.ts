import t from 'tap';
import { AnswerSoFar } from '#recua/engine/gateway/answer-so-far.js';
import { merge } from '#recua/engine/merge.js';
import type { Delta } from '#recua/engine/protocol.js';
import { chat } from '../requests.js';
import { pack } from '#recua/engine/packed-tokens.js';

const prompt = Int32Array.of(1, 2);
const begun = (tells = {}) => {
  const soFar = new AnswerSoFar(chat('x', { tells }));
  soFar.accepted(prompt);
  soFar.started();
  return soFar;
};

t.test('tokens, draws and times move to the next process', async (t) => {
  const soFar = begun();
  t.match(soFar.resume(), { prompt, tokens: new Int32Array(0), draws: 0, firstMs: 0 });
  soFar.note(Int32Array.of(5, 6), 3);
  soFar.note(Int32Array.of(7), 5);
  const resumed = soFar.resume()!;
  t.same([...resumed.tokens], [5, 6, 7]);
  t.equal(resumed.draws, 5);
  t.ok(resumed.arrivedMs >= resumed.startedMs && resumed.startedMs >= resumed.firstMs && resumed.firstMs > 0);
  t.equal(new AnswerSoFar(chat('x')).resume(), undefined, 'it was not accepted');
});

t.test('an answer with unknown draws or log probabilities starts over', async (t) => {
  const chained = begun();
  chained.note(Int32Array.of(5), -1);
  t.equal(chained.resume()!.tokens.length, 0);
  chained.note(Int32Array.of(5, 6), -1);
  t.equal(chained.length, 2, 'counted anew');
  const told = begun({ logprobs: 2 });
  told.note(Int32Array.of(5), 1);
  t.equal(told.resume()!.tokens.length, 0);
});

t.test('an answer that starts over tells how many tokens it had', (t) => {
  const told = begun({ logprobs: 2 });
  told.note(Int32Array.of(5, 6, 7), 1);
  t.equal(told.resume()!.again, 3);
  told.note(Int32Array.of(5), 1);
  t.equal(told.resume()!.again, 3, 'the next process died sooner');
  told.note(Int32Array.of(5, 6, 7, 8), 1);
  t.equal(told.resume()!.again, 4);
  t.end();
});

t.test('for another model, an answer starts over, and may not differ', async (t) => {
  const soFar = begun();
  soFar.note(Int32Array.of(5, 6), 3);
  soFar.take({ content: 'ab' });
  soFar.resume();
  soFar.startOver();
  soFar.accepted(Int32Array.of(9));
  soFar.note(Int32Array.of(8), 1);
  t.equal(soFar.take({ content: 'a' }), undefined);
  t.match(soFar.resume(), { prompt: Int32Array.of(9), tokens: Int32Array.of(8), draws: 1 });
  t.equal(soFar.take({ content: 'b' }), 'differs');
});

const characters = ({ content, ...rest }: Delta): Delta[] =>
  content === undefined ? [rest] : Array.from(content, (character) => ({ content: character }));

t.test('however an answer is cut into deltas before and after, its reader gets it once', async (t) => {
  const answer: Delta[] = [
    { reasoning: 'first I think' }, { content: 'Then I say é 😀' }, { content: ' so' },
    { toolCalls: [{ index: 0, id: 'a', name: 'look', arguments: '{"x"' }] }, { toolCalls: [{ index: 0, arguments: ':12}' }] }, { toolCalls: [{ index: 1, id: 'b', name: 'see', arguments: '{}' }] },
  ];
  const total = answer.reduce(merge);
  const token = (id: number) => ({ id, bytes: [], top: [] });
  for (let cut = 0; cut <= answer.length; cut++) {
    for (const pieces of [answer, [total], answer.flatMap(characters)]) {
      const soFar = begun();
      const read: Delta[] = [];
      const take = (delta: Delta) => {
        const fresh = soFar.take(delta);
        t.not(fresh, 'differs');
        if (fresh) read.push(fresh as Delta);
      };
      answer.slice(0, cut).forEach((delta, i) => take({ ...delta, tokens: pack([token(i)]) }));
      soFar.resume();
      // The id of a tool call is drawn again.
      pieces.forEach((delta) => take({ ...delta, ...(delta.toolCalls ? { toolCalls: delta.toolCalls.map((call) => (call.id === undefined ? call : { ...call, id: `${call.id}2` })) } : {}) }));
      t.notOk(soFar.isShorter);
      const merged = read.reduce(merge, {});
      t.equal(merged.content, total.content);
      t.equal(merged.reasoning, total.reasoning);
      t.same(merged.toolCalls!.map(({ id, ...rest }) => rest), total.toolCalls!.map(({ id, ...rest }) => rest));
      t.equal(merged.toolCalls![0]!.id, cut > 3 ? 'a' : 'a2');
    }
  }
});

t.test('an answer that comes out differently is noticed', async (t) => {
  const again = (...before: Delta[]) => {
    const soFar = begun();
    before.forEach((delta) => soFar.take(delta));
    soFar.resume();
    return soFar;
  };
  t.equal(again({ content: 'abc' }).take({ content: 'ab' }), undefined);
  t.same(again({ content: 'abc' }).take({ content: 'abcd' }), { content: 'd' });
  t.equal(again({ content: 'abc' }).take({ content: 'abd' }), 'differs');
  t.equal(again({ reasoning: 'abc' }).take({ reasoning: 'x' }), 'differs');
  t.equal(again({ toolCalls: [{ index: 0, name: 'a' }] }).take({ toolCalls: [{ index: 0, name: 'b' }] }), 'differs');
  t.equal(again({ toolCalls: [{ index: 0, arguments: '{"a' }] }).take({ toolCalls: [{ index: 0, arguments: '{"b' }] }), 'differs');
  t.ok(again({ content: 'abc' }).isShorter);
  t.ok(again({ reasoning: 'abc' }).isShorter);
  t.ok(again({ toolCalls: [{ index: 0, name: 'a', arguments: '' }] }).isShorter);
  const ended = again({ reasoning: 'abc' });
  ended.endsThinking = true;
  t.notOk(ended.isShorter);
  t.same(again({ echo: 'p', content: 'a' }).take({ echo: 'p' }), undefined);
  const tokens = [1, 2, 3].map((id) => ({ id, bytes: [], top: [] }));
  t.same(again({ content: 'ab', tokens: pack(tokens.slice(0, 2)) }).take({ content: 'abc', tokens: pack(tokens) }), { content: 'c', tokens: pack(tokens.slice(2)) });
});
