// A text that cannot fit is refused unread, and preparation ends with its request.
import t from 'tap';
import { leastTokens } from '#recua/engine/text/text-length.js';
import { chat, completion, openEngine } from '../requests.js';

t.test('a text has at least as many tokens as its bytes need', async (t) => {
  t.equal(leastTokens({ longestPiece: 4, takesSpaces: false }, 'ééé'), 2);
  t.equal(leastTokens({ longestPiece: 4, takesSpaces: false }, ' '.repeat(400)), 100);
  t.equal(leastTokens({ longestPiece: 4, takesSpaces: true }, `ab ${' '.repeat(400)}\ncd`), 1, 'spaces may leave nothing behind');
  t.equal(leastTokens({ longestPiece: 1, takesSpaces: true }, 'a\t\n\v\f\r bé'), 4);
  t.equal(leastTokens({ longestPiece: 0, takesSpaces: false }, 'x'.repeat(400)), 0, 'nothing is known');
  t.equal(leastTokens({ longestPiece: 4, takesSpaces: false }, 'a', 'b'), 1, 'a token may go over two texts');
});

t.test('a prompt or input that cannot fit is refused before it is read', async (t) => {
  // The longest piece of the fake has 6 bytes.
  const open = await openEngine({ pooling: 'mean' }, { contextSize: 100 });
  const atLoad = open.addon.tokenized.length;
  const limit = { code: 'context_length_exceeded', details: { n_prompt_tokens: 200, n_ctx: 100 } };
  t.match((await open.complete(completion('x'.repeat(1200))).done).end, { kind: 'error', error: { ...limit, param: 'prompt' } });
  // The template of a message is not even rendered. What it adds, trims and leaves out is not known
  // then.
  const rendered = open.addon.rendered;
  const unread = open.chat(chat(` ${'x'.repeat(1200)} `));
  t.match((await unread.done).end, { kind: 'error', error: { ...limit, param: 'messages' } });
  t.equal(open.addon.rendered, rendered);
  const answer = { role: 'assistant' as const, content: 'x'.repeat(1184) };
  t.match((await open.chat({ ...chat(''), messages: JSON.stringify([answer]) }).done).end, { kind: 'error', error: { code: limit.code } });
  t.equal(open.addon.rendered, rendered + 1);
  t.match((await open.embed(['x'.repeat(1200)]).done).end, { kind: 'error', error: { ...limit, param: 'input[0]' } });
  t.equal(open.addon.tokenized.length, atLoad);
  // At the limit it is read, and then refused.
  t.match((await open.complete(completion('x'.repeat(594))).done).end, { error: { details: { n_prompt_tokens: 595 } } });
  t.equal(open.addon.tokenized.length, atLoad + 1);
  await open.engine.close();
});

t.test('a cancel reaches the work that prepares', async (t) => {
  const open = await openEngine({ pooling: 'mean' });
  for (const start of [() => open.complete(completion('hello')), () => open.embed(['hello'])]) {
    const started = start();
    while (open.addon.tokenized.length === 0) await Promise.resolve();
    const { cancelled } = open.addon.tokenized.pop()!;
    t.equal(cancelled?.[0], 0);
    open.engine.cancel(started.id);
    t.equal(cancelled?.[0], 1);
    t.match((await started.done).end, { error: { code: 'cancelled' } });
  }
  await open.engine.close();
});
