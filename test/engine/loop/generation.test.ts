import t from 'tap';
import { newCancelFlag } from '#recua/engine/prompts/cancel-flag.js';
import type { AnswerParser } from '#recua/engine/prompts/answer-parser.js';
import { prepareChat, type PreparedPrompt } from '#recua/engine/prompts/chat.js';
import type { Delta, EngineEvent } from '#recua/engine/protocol.js';
import { Generation } from '#recua/engine/loop/generation.js';
import { Sequence } from '#recua/engine/planning/sequence.js';
import { chat, openEngine } from '../requests.js';
import { unpack } from '#recua/engine/packed-tokens.js';

/** An answer whose tokens arrive at times that the test chooses. */
async function answering(generateMs: number | undefined, parser?: AnswerParser, tells: PreparedPrompt['tells'] = {}, again?: number) {
  const { loaded, engine } = await openEngine();
  const { model, pieces } = loaded;
  const prepared: PreparedPrompt = await prepareChat({ model, contextSize: 2_000, cancelled: newCancelFlag(), guesses: false }, '', chat('x', generateMs === undefined ? {} : { generateMs }));
  const sequence = new Sequence(prepared.tokens, 1_000, 2_000);
  const request = new Generation(1, sequence, { ...prepared, ...(parser ? { parser } : {}), tells: { ...prepared.tells, ...tells } }, 0);
  if (again !== undefined) {
    const times = { arrivedMs: 900, startedMs: 800, firstMs: 700 };
    request.resume(
      { prompt: prepared.tokens, tokens: new Int32Array(0), draws: 0, exactly: true, endsThinking: false, again, ...times },
      pieces.flags,
      0,
    );
  }
  sequence.join(0, 0);
  sequence.advance(prepared.tokens.length);
  request.start(1);
  const events: EngineEvent[] = [];
  return {
    engine, events, sequence, request,
    flush: (): void => request.flush(events),
    give: (text: string, atMs: number, atOnce = false): void => {
      for (const byte of Buffer.from(text)) {
        if (sequence.state === 'finished') return;
        request.accept(Int32Array.of(byte), 0, pieces.flags, atMs);
        if (!atOnce) request.render(pieces, events);
      }
      if (atOnce) request.render(pieces, events);
    },
  };
}

const textOf = (events: EngineEvent[]) => events.map((event) => (event.kind === 'delta' ? event.delta.content ?? '' : '')).join('');

t.test('an answer past its time limit ends with its current line', async (t) => {
  const { give, events, sequence, engine } = await answering(1_000);
  give('a line\nand', 500);
  give(' another\n', 1_400);
  t.equal(sequence.state, 'decode', 'the first token came at 500');
  give('a thi', 1_600);
  t.equal(sequence.state, 'decode');
  give('rd\nand more', 1_700);
  t.equal(sequence.state, 'finished');
  t.equal(textOf(events), 'a line\nand another\na third\n');
  t.match(events.at(-1), { kind: 'done', finishReason: 'length' });
  await engine.close();
});

t.test('an answer that is cancelled after it left frees its parser', async (t) => {
  let closed = 0;
  const parser: AnswerParser = { reasoning: '', push: () => undefined, end: () => ({ delta: undefined, finishReason: 'stop', warnings: [] }), close: () => void closed++ };
  const { engine, request } = await answering(undefined, parser);
  request.abandon();
  t.equal(closed, 0, 'it has not left');
  request.leave(true);
  t.equal(closed, 0, 'its last tokens may still be rendered');
  request.abandon();
  t.equal(closed, 1);
  await engine.close();
});

t.test('an answer that is generated again more slowly is not cut off before what it had', async (t) => {
  const { give, events, sequence, engine } = await answering(1_000, undefined, { logprobs: 0 }, 'a line\nand another\na'.length);
  give('a line\n', 500);
  give('and another\na third', 5_000);
  t.equal(sequence.state, 'decode');
  give('\nand more', 5_100);
  t.equal(textOf(events), 'a line\nand another\na third\n');
  t.match(events.at(-1), { kind: 'done', finishReason: 'length' });
  await engine.close();
});

t.test('an answer without a time limit continues', async (t) => {
  const { give, sequence, engine } = await answering(undefined);
  give('a\n', 500);
  give('b\n', 1e9);
  t.equal(sequence.state, 'decode');
  await engine.close();
});

t.test('before an error, all text is given that a pause of the parser or a stop string held back', async (t) => {
  let given = 0;
  // Pauses until it must not.
  const push = (whole: string, now = false): Delta | undefined => {
    if (!now) return undefined;
    const content = whole.slice(given);
    given = whole.length;
    return { content };
  };
  const end: AnswerParser['end'] = (_whole, finishReason) => ({ delta: undefined, finishReason, warnings: [] });
  const { give, flush, events, engine } = await answering(undefined, { reasoning: '', push, end, close: () => undefined }, { tokens: true });
  give('some te', 500);
  t.equal(textOf(events), '');
  flush();
  t.equal(textOf(events), 'some te');
  await engine.close();
});

t.test('thinking tokens are counted, with the mark before them', async (t) => {
  const parser = (reasoning: string): AnswerParser => ({
    reasoning,
    push: () => undefined,
    end: (_whole, finishReason) => ({ delta: undefined, finishReason, warnings: [] }),
    close: () => undefined,
  });
  // A token is a byte here.
  for (const [reasoning, tokens] of [['abc', '<t>abc'.length], ['', undefined]] as const) {
    const { give, events, engine } = await answering(1_000, parser(reasoning));
    give('<t>abc</t>yes', 500);
    give('\n', 1_600);
    const done = events.at(-1);
    t.equal(done?.kind === 'done' ? done.usage.reasoningTokens : 'no end', tokens);
    await engine.close();
  }
});

t.test('each token belongs to the delta that contains its text, however many arrive at once', async (t) => {
  const found: string[][] = [];
  // A parser may also pause, as it does behind a long parse: then its next delta has all the text.
  for (const [atOnce, pause] of [[true, 1], [false, 1], [false, 4], [false, 7]] as const) {
    let thought = 0;
    let said = 0;
    let pushed = 0;
    const parser: AnswerParser = {
      reasoning: '',
      push(whole) {
        if (++pushed % pause > 0 && !whole.endsWith('s')) return undefined;
        const [, reasoning = '', content = ''] = /^<t>([^<]*)(?:<\/t>\s*(.*))?$/s.exec(whole) ?? [];
        const delta = {
          ...(reasoning.length > thought ? { reasoning: reasoning.slice(thought) } : {}),
          ...(content.length > said ? { content: content.slice(said) } : {}),
        };
        thought = Math.max(thought, reasoning.length);
        said = Math.max(said, content.length);
        if (reasoning) (parser as { reasoning: string }).reasoning = reasoning;
        return delta.reasoning || delta.content ? delta : undefined;
      },
      end: (_whole, finishReason) => ({ delta: undefined, finishReason, warnings: [] }), close: () => undefined,
    };
    const { give, events, engine } = await answering(1_000, parser, { tokens: true });
    give('<t>abc</t> yes', 500, atOnce);
    const tokens = events.flatMap((event) => (event.kind === 'delta' && event.delta.tokens ? unpack(event.delta.tokens) : []));
    found.push(tokens.filter(({ part }) => part === undefined).map(({ bytes }) => String.fromCharCode(...bytes)));
    await engine.close();
  }
  for (const one of found) t.strictSame(one, ['y', 'e', 's']);
});
