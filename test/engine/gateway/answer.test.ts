import { Readable } from 'node:stream';
import { ReadableStream } from 'node:stream/web';
import t from 'tap';
import { RecuaError } from '#recua/errors.js';
import { RunningAnswer } from '#recua/engine/gateway/answer.js';
import { merge } from '#recua/engine/merge.js';
import type { Finish } from '#recua/engine/api.js';
import type { Delta } from '#recua/engine/protocol.js';
import { idsOf, pack, piece, unpack } from '#recua/engine/packed-tokens.js';

const finish: Finish = { finishReason: 'stop', usage: { promptTokens: 1, cachedTokens: 0, completionTokens: 1 }, timings: { queueMs: 0, promptMs: 0, generateMs: 0 }, seed: 1, warnings: [] };

t.test('merge() joins text, and the arguments of one call', async (t) => {
  const a = { reasoning: 'so', toolCalls: [{ index: 0, id: 'a', name: 'f', arguments: '{' }] };
  const b = { content: 'x', toolCalls: [{ index: 0, arguments: '}' }, { index: 1, id: 'b', name: 'g', arguments: '' }] };
  t.strictSame(merge(a, b), {
    reasoning: 'so', content: 'x',
    toolCalls: [{ index: 0, id: 'a', name: 'f', arguments: '{}' }, { index: 1, id: 'b', name: 'g', arguments: '' }],
  });
  t.strictSame(a.toolCalls[0].arguments, '{', 'the given deltas are left as they were');
});

t.test('a waiting reader gets each delta, and the end', async (t) => {
  const answer = new RunningAnswer(() => {});
  const read: string[] = [];
  const reading = (async () => {
    for await (const { content } of answer) read.push(content!);
  })();
  for (const content of ['a', 'b']) {
    answer.push({ content });
    await new Promise((resolve) => setImmediate(resolve));
  }
  answer.end(finish);
  await reading;
  t.strictSame(read, ['a', 'b']);
  t.equal(await answer.finished, finish);
});

t.test('what waits for a reader is joined, but not so many tokens that they take long to write', async (t) => {
  const answer = new RunningAnswer(() => {});
  const token = (id: number): Delta => ({ content: 'x', tokens: pack([{ id, bytes: [120], value: -1, top: [] }]) });
  for (let id = 0; id < 3 * piece; id++) answer.push(token(id));
  for (let id = 0; id < 100; id++) answer.push({ content: 'y' });
  answer.end(finish);
  const read: Delta[] = [];
  for await (const delta of answer) read.push(delta);
  t.strictSame(read.map(({ tokens }) => tokens?.count), [piece, piece, piece]);
  t.strictSame(read.flatMap(({ tokens }) => idsOf(unpack(tokens!))), Array.from({ length: 3 * piece }, (_, id) => id));
  t.equal(read.map(({ content }) => content).join(''), 'x'.repeat(3 * piece) + 'y'.repeat(100));
});

t.test('tokens do not keep the message in memory in which they came with those of others', async (t) => {
  const answer = new RunningAnswer(() => {});
  const view = (id: number) => {
    const { count, bytes } = pack([{ id, bytes: [120], value: -1, top: [] }]);
    const message = new Uint8Array(1_000_000);
    message.set(bytes, 500);
    return { count, bytes: message.subarray(500, 500 + bytes.length) };
  };
  answer.push({ tokens: view(1), promptTokens: [view(2), view(3)] });
  answer.end(finish);
  for await (const { tokens, promptTokens } of answer) {
    t.strictSame([tokens!, ...promptTokens!].map((one) => idsOf(unpack(one))), [[1], [2], [3]]);
    for (const { bytes } of [tokens!, ...promptTokens!]) t.ok(bytes.buffer.byteLength < 1_000, `${bytes.buffer.byteLength} bytes are held`);
  }
});

t.test('of two readers that wait, neither waits beyond the end', async (t) => {
  const answer = new RunningAnswer(() => {});
  const read: string[] = [];
  const readAll = async (): Promise<void> => {
    for await (const { content } of answer) read.push(content!);
  };
  const reading = Promise.all([readAll(), readAll()]).then(() => 'both ended');
  await new Promise((resolve) => setImmediate(resolve));
  answer.push({ content: 'a' });
  await new Promise((resolve) => setImmediate(resolve));
  answer.end(finish);
  t.equal(await Promise.race([reading, new Promise((resolve) => setTimeout(resolve, 500, 'one waits'))]), 'both ended');
  t.strictSame(read, ['a']);
});

t.test('the tokens so far count, read or not', async (t) => {
  const answer = new RunningAnswer(() => {});
  t.equal(answer.used, undefined);
  answer.accept(3, 0);
  t.strictSame(answer.used, { promptTokens: 3, completionTokens: 0 });
  for (const completionTokens of [1, 2]) answer.push({ content: 'x', soFar: { usage: { promptTokens: 3, cachedTokens: 0, completionTokens }, timings: finish.timings } });
  t.match(answer.used, { promptTokens: 3, completionTokens: 2 });
  answer.end(finish);
  t.equal(answer.used, finish.usage);
});

t.test('text that came before an error is read before the error', async (t) => {
  const answer = new RunningAnswer(() => t.fail('not abandoned'));
  answer.push({ content: 'half' });
  answer.fail(new RecuaError('model_crashed', 'gone'));
  const read: string[] = [];
  await t.rejects(async () => {
    for await (const { content } of answer) read.push(content!);
  }, { code: 'model_crashed' });
  t.strictSame(read, ['half']);
});

t.test('a stream that is left while it waits for a delta gives up the answer at once', async (t) => {
  const leaving: Record<string, (answer: RunningAnswer) => unknown> = {
    node: async (answer) => {
      const stream = Readable.from(answer).resume();
      await new Promise((resolve) => setImmediate(resolve));
      stream.destroy();
    },
    web: async (answer) => {
      const reader = ReadableStream.from(answer).getReader();
      reader.read().catch(() => {});
      await reader.cancel();
    },
    'before the first delta is asked for': (answer) => answer[Symbol.asyncIterator]().return(),
  };
  for (const [name, leave] of Object.entries(leaving)) {
    let given = 0;
    const answer: RunningAnswer = new RunningAnswer(() => {
      given++;
      answer.fail(new RecuaError('cancelled', 'left'));
    });
    const left = Promise.resolve(leave(answer)).then(() => 'left');
    t.equal(await Promise.race([left, new Promise((resolve) => setTimeout(resolve, 500, 'waits'))]), 'left', name);
    t.equal(given, 1, name);
  }
  const complete = new RunningAnswer(() => t.fail('it is complete'));
  complete.end(finish);
  await complete[Symbol.asyncIterator]().return();
});
