import t from 'tap';
import { behindFirst, idsOf, isPacked, join, pack, piece, ToldList, unpack } from '#recua/engine/packed-tokens.js';
import type { ToldToken } from '#recua/engine/telling.js';

const tokens: ToldToken[] = [
  { id: 5, bytes: [], top: [] },
  { id: -1, bytes: [240, 159], value: -0.5, part: 'reasoning', top: [{ id: 7, bytes: [97, 98], value: -9999 }, { id: 262_143, bytes: [], value: 0 }] },
  { id: 2 ** 31 - 1, bytes: Array.from({ length: 70_000 }, (_, at) => at % 256), value: 1, part: 'call', top: Array.from({ length: 100 }, (_, id) => ({ id, bytes: [id], value: -id })) },
];

t.test('packed tokens are the tokens, whole and in parts', async (t) => {
  t.strictSame(unpack(pack(tokens)), tokens);
  t.strictSame(unpack(pack([])), []);
  t.strictSame(unpack(join(pack(tokens.slice(0, 1)), pack(tokens.slice(1)))), tokens);
  for (const first of [0, 1, 2]) t.strictSame(unpack(behindFirst(pack(tokens), first)!), tokens.slice(first));
  t.equal(behindFirst(pack(tokens), 3), undefined);
});

t.test('bytes that are not that many tokens are noticed', async (t) => {
  const { count, bytes } = pack(tokens);
  t.ok(isPacked({ count, bytes }));
  for (const other of [0, 1, 2, 4, -1, 2.5, NaN, Infinity, 1e15]) t.notOk(isPacked({ count: other, bytes }), `${other} tokens`);
  for (let end = 0; end < bytes.length; end += end < 3_000 ? 1 : 997) t.notOk(isPacked({ count, bytes: bytes.subarray(0, end) }), `${end} bytes`);
  t.notOk(isPacked({ count, bytes: Buffer.concat([bytes, Buffer.alloc(1)]) }));
  t.notOk(isPacked({ count: 1, bytes: Buffer.alloc(20, 255) }));
});

t.test('a long list keeps its tokens in pieces', async (t) => {
  const list = new ToldList();
  const all: ToldToken[] = Array.from({ length: 3 * piece }, (_, id) => ({ id, bytes: [id % 256], value: -id / 4, top: [] }));
  for (const token of all) list.add(pack([token]));
  t.strictSame([...list], all);
  t.strictSame([...list], all, 'again');
  t.equal(list.length, all.length);
  t.ok(list.pieces.length <= 4 && list.pieces.every(({ count }) => count <= piece));
  t.strictSame(idsOf(list), all.map(({ id }) => id));
  t.equal(list.meanValue(), all.reduce((sum, { value }) => sum + value!, 0) / all.length);
  t.equal(new ToldList().meanValue(), 0);
  const withFirst = new ToldList();
  withFirst.addAll([pack(tokens), pack(tokens)]);
  t.strictSame([...withFirst], [...tokens, ...tokens]);
  t.equal(withFirst.meanValue(), (0 - 0.5 + 1) / 3, 'a prompt’s first token has no value, which counts as 0');
});

t.test('ids and own values are read without the likeliest tokens', async (t) => {
  const list = new ToldList();
  list.addAll([pack(tokens), pack(tokens)]);
  t.strictSame(
    [...list.withoutTop()],
    [...tokens, ...tokens].map(({ id, bytes, value }) => ({ id, bytes, ...(value === undefined ? {} : { value }), top: [] })),
  );
  t.strictSame([...new ToldList().withoutTop()], []);
  list[Symbol.iterator] = () => { throw new Error('unpacked'); };
  t.strictSame(idsOf(list), [...tokens, ...tokens].map(({ id }) => id));
});
