// Conversations that do not fit: on request, whole turns are left out, and the answer says so.
import t from 'tap';
import type { PreparedChat } from '#recua/addon/addon.js';
import { shorten } from '#recua/engine/prompts/truncation.js';
import type { ChatMessage } from '#recua/engine/protocol.js';
import { chat, openEngine, say } from '../requests.js';

const user = (content: string): ChatMessage => ({ role: 'user', content });
const assistant = (content: string): ChatMessage => ({ role: 'assistant', content });
const system: ChatMessage = { role: 'system', content: 'rules' };

t.test('the fewest turns are left out, calls with their results; system messages stay', async (t) => {
  const messages: ChatMessage[] = [
    system, user('1'), assistant('a'), user('2'), { role: 'assistant', content: null, tool_calls: [] }, { role: 'tool', content: 'r' }, assistant('b'),
    { role: 'system', content: 'late' }, user('3'), user('3b'), assistant('c'), user('4'),
  ];
  let closed = 0;
  let made = 0;
  const attempt = (mostMessages: number, request = chat('', { messages: JSON.stringify(messages), maxTokens: 10 })) =>
    shorten(request, 1000, async (shorter, mostTokens): Promise<PreparedChat> => {
      const kept = JSON.parse(shorter.messages) as ChatMessage[];
      if (kept.length > mostMessages) return { unenforced: [], count: mostTokens, atLeast: true };
      made++;
      const close = (): void => void closed++;
      return {
        unenforced: [],
        count: kept.length,
        atLeast: false,
        made: { kept, sources: shorter.messageSources, sampler: { close }, parser: { close } } as never,
      };
    });
  const contents = async (mostMessages: number) => ((await attempt(mostMessages))?.prepared.made as unknown as { kept: ChatMessage[] } | undefined)?.kept.map(({ content }) => content as string).join(' ');
  t.equal(await contents(11), 'rules 2  r b late 3 3b c 4');
  t.equal(await contents(9), 'rules late 3 3b c 4');
  t.equal(await contents(6), 'rules late 3 3b c 4');
  t.equal(await contents(3), 'rules late 4');
  t.equal(await contents(2), undefined, 'the last turn alone does not fit');
  t.equal(closed, 2 * (made - 4), 'what was tried is closed');
  t.match(await attempt(9), { warning: 'The conversation does not fit the context of 1000 tokens, so its oldest turns were left out: messages[1] to messages[6] (6 of 12 messages).' });
  const named = chat('', { messages: JSON.stringify([user('1'), assistant('a'), user('2')]), messageSources: ['input[0]', 'input[3]', 'input[7]'] });
  t.match(await attempt(1, named), { warning: /input\[0\] to input\[3\] \(2 of 3/, prepared: { made: { sources: ['input[7]'] } } });
  t.equal(await attempt(0, chat('only')), undefined);
});

t.test('when its client leaves, what was tried is closed', async (t) => {
  let open = 0;
  const close = (): void => void open--;
  const messages = JSON.stringify(Array.from({ length: 8 }, (_, i) => user(`${i}`)).flatMap((one) => [one, assistant('a')]));
  await t.rejects(shorten(chat('', { messages }), 1000, async (shorter): Promise<PreparedChat> => {
    if (open > 0) throw new Error('The request was cancelled.');
    open += 2;
    return { unenforced: [], count: shorter.messages.length, atLeast: false, made: { sampler: { close }, parser: { close } } as never };
  }), /cancelled/);
  t.equal(open, 0);
});

t.test('at most a quarter of the context is reserved for a long answer', async (t) => {
  const bounds: number[] = [];
  const messages = JSON.stringify([user('1'), user('2'), assistant('a'), user('3')]);
  for (const maxTokens of [10, 1_000_000]) {
    await shorten(chat('', { messages, maxTokens }), 1000, async (_, mostTokens) => {
      bounds.push(mostTokens);
      return { unenforced: [], count: 2000, atLeast: true };
    });
  }
  t.same(bounds, [990, 1000, 750, 1000], 'the last turn alone may need it');
});

t.test('an answer says what was left out; a request that does not ask for truncation is refused', async (t) => {
  const open = await openEngine({}, { contextSize: 200 });
  const messages = JSON.stringify([system, ...Array.from({ length: 8 }, (_, i) => (i % 2 === 0 ? user('x'.repeat(30)) : assistant('y'.repeat(30)))), user('end')]);
  for (const [truncation, advice] of [[{}, /\(--ctx-size, contextSize\)\.$/], [{ truncation: 'disabled' }, /\. With "truncation": "auto" the oldest turns are dropped\.$/]] as const) {
    t.match((await open.chat(chat('', { messages, ...truncation })).done).end, { kind: 'error', error: { code: 'context_length_exceeded', message: advice } });
  }
  const alone = await open.chat(chat('z'.repeat(300), { truncation: 'disabled' })).done;
  t.match(alone.end, { kind: 'error', error: { message: /\(--ctx-size, contextSize\)\.$/ } }, 'there is nothing to drop');
  const { end, content } = await open.chat(chat('', { messages, truncation: 'auto', constraint: say('good') })).done;
  t.equal(content, 'good');
  t.match(end, { kind: 'done', warnings: [/its oldest turns were left out: messages\[1\] to messages\[\d\] \(\d of 10 messages\)/] });
  t.match((await open.chat(chat('z'.repeat(300), { truncation: 'auto' })).done).end, { kind: 'error', error: { code: 'context_length_exceeded', message: /\(--ctx-size, contextSize\)\.$/ } });
  const short = await open.chat(chat('x', { truncation: 'auto', constraint: say('good') })).done;
  t.notOk(short.end.kind === 'done' && short.end.warnings, 'what fits is left alone');
  await open.engine.close();
  t.same(open.addon.violations, []);
  t.match(open.addon.stats, { openSamplers: 0, openParsers: 0 });
});
