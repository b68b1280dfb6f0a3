// The log probabilities of OpenAI's completions: what they read of packed tokens.
import t from 'tap';
import { pack, ToldList } from '#recua/engine/packed-tokens.js';
import { legacyLists } from '#recua/server/openai/legacy-logprobs.js';

t.test('only the list of the likeliest tokens reads those', async (t) => {
  const list = new ToldList();
  list.add(pack([
    { id: 1, bytes: [0x61], top: [] },
    { id: 2, bytes: [0xc3, 0xbc], value: -0.5, top: [{ id: 3, bytes: [0x62], value: -0.25 }] },
    { id: 4, bytes: [0xff], value: -1, top: [] },
  ]));
  t.strictSame(JSON.parse(JSON.stringify(legacyLists(list))), {
    tokens: ['a', 'ü', 'bytes:\\xff'], token_logprobs: [null, -0.5, -1], text_offset: [0, 1, 2],
    top_logprobs: [null, { b: -0.25, ü: -0.5 }, { 'bytes:\\xff': -1 }],
  });
  list[Symbol.iterator] = () => { throw new Error('unpacked'); };
  const { top_logprobs: top, ...rest } = legacyLists(list);
  t.equal(JSON.stringify(rest), '{"tokens":["a","ü","bytes:\\\\xff"],"token_logprobs":[null,-0.5,-1],"text_offset":[0,1,2]}');
  t.throws(() => JSON.stringify(top), { message: 'unpacked' });
});
