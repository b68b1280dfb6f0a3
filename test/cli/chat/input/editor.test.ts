import t from 'tap';
import { edit, emptyDraft, enter, graphemes, sanitise } from '#recua/cli/chat/input/editor.js';
import type { Draft, EditAction } from '#recua/cli/chat/input/editor.js';

/** `|` is the cursor. */
const draft = (shown: string): Draft => ({ ...emptyDraft, text: shown.replace('|', ''), cursor: shown.indexOf('|') });
const show = ({ text, cursor }: Draft) => `${text.slice(0, cursor)}|${text.slice(cursor)}`;
const after = (shown: string, ...actions: EditAction[]) => show(actions.reduce(edit, draft(shown)));

const family = '👩‍👩‍👧';
const flag = '🇩🇪';
const accented = 'e\u0301';

t.test('the cursor moves over whole clusters', async (t) => {
  for (const cluster of [family, flag, accented, '日', 'a', '\n']) {
    t.equal(after(`x${cluster}|y`, { do: 'move', to: 'left' }), `x|${cluster}y`);
    t.equal(after(`x|${cluster}y`, { do: 'move', to: 'right' }), `x${cluster}|y`);
    t.equal(after(`x${cluster}|y`, { do: 'delete', to: 'left' }), 'x|y');
    t.equal(after(`x|${cluster}y`, { do: 'delete', to: 'right' }), 'x|y');
  }
  t.equal(after('|', { do: 'move', to: 'left' }, { do: 'move', to: 'right' }, { do: 'delete', to: 'left' }, { do: 'delete', to: 'right' }), '|');
});

t.test('typed text joins with its neighbors, and the cursor stays at a cluster edge', async (t) => {
  t.equal(after('|', ...Array.from(family, (text): EditAction => ({ do: 'insert', text }))), `${family}|`);
  t.equal(after('x|\u0301', { do: 'insert', text: 'e' }), 'xe\u0301|');
  const whole = draft('|');
  let state = whole;
  for (const step of [{ do: 'insert', text: `${flag}${accented}` }, { do: 'move', to: 'left' }, { do: 'insert', text: family }] as EditAction[]) {
    state = edit(state, step);
    t.ok(graphemes(state.text).reduce((edges, one) => [...edges, edges.at(-1)! + one.length], [0]).includes(state.cursor));
  }
});

t.test('the cursor moves by words, lines and the whole text', async (t) => {
  t.equal(after('one two, thrée|', { do: 'move', to: 'word-left' }), 'one two, |thrée');
  t.equal(after('one two|, three', { do: 'move', to: 'word-left' }), 'one |two, three');
  t.equal(after('one| two, three', { do: 'move', to: 'word-right' }), 'one two|, three');
  t.equal(after('ab\ncd|e\nf', { do: 'move', to: 'line-start' }), 'ab\n|cde\nf');
  t.equal(after('ab\ncd|e\nf', { do: 'move', to: 'line-end' }), 'ab\ncde|\nf');
  t.equal(after('ab\ncd|e\nf', { do: 'move', to: 'start' }), '|ab\ncde\nf');
  t.equal(after('ab\ncd|e\nf', { do: 'move', to: 'end' }), 'ab\ncde\nf|');
  t.equal(after('日本語\nabc|', { do: 'move', to: 'up' }), '日本語|\nabc');
  t.equal(after('日本|語\na', { do: 'move', to: 'down' }), '日本語\na|');
  t.equal(after('ab|c', { do: 'move', to: 'up' }), '|abc');
  t.equal(after('ab|c', { do: 'move', to: 'down' }), 'abc|');
});

t.test('cuts are kept for yank, deleted single characters are not', async (t) => {
  t.equal(after('one two| three', { do: 'delete', to: 'word-left' }, { do: 'move', to: 'end' }, { do: 'yank' }), 'one  threetwo|');
  t.equal(after('a\nb|c\nd', { do: 'delete', to: 'line-end' }), 'a\nb|\nd');
  t.equal(after('a\nb|\nd', { do: 'delete', to: 'line-end' }), 'a\nb|d', 'at the end of a line, its break');
  t.equal(after('a\nbc|d', { do: 'delete', to: 'line-start' }), 'a\n|d');
  t.equal(after('a\n|d', { do: 'delete', to: 'line-start' }), 'a|d');
  t.equal(after('a /etc/hosts |', { do: 'delete', to: 'word-left' }), 'a |');
  t.equal(after('one two|x', { do: 'delete', to: 'word-left' }, { do: 'delete', to: 'right' }, { do: 'yank' }), 'one two|');
  t.equal(after('ab|', { do: 'transpose' }), 'ba|');
  t.equal(after('a|bc', { do: 'transpose' }), 'ba|c');
  t.equal(after('a\n|b', { do: 'transpose' }), 'a\n|b', 'not over a line break');
});

t.test('a text holds no control characters except line breaks and tabs', async (t) => {
  t.equal(sanitise('a\r\nb\rc\td\x00\x1b[31m\x7f\u0085e'), 'a\nb\nc\td[31me');
  t.equal(after('|', { do: 'insert', text: 'x\x03\r\ny' }), 'x\ny|');
});

t.test('Enter sends, unless a backslash or """ continues the message', async (t) => {
  t.same(enter(draft('hello|')), { kind: 'send', text: 'hello', fenced: false });
  t.match(enter(draft('one\\|')), { kind: 'break', draft: { text: 'one\n', cursor: 4 } });
  t.same(enter(draft('one\\\\|')), { kind: 'send', text: 'one\\\\', fenced: false }, 'a backslash before it makes it one');
  t.match(enter(draft('on|e\\')), { kind: 'send' }, 'only where the cursor stands');
  t.match(enter(draft('"""|')), { kind: 'break', draft: { text: '"""\n' } });
  t.match(enter(draft('"""a|')), { kind: 'break' });
  t.same(enter(draft('"""a"""|')), { kind: 'send', text: 'a', fenced: true });
  t.same(enter(draft('"""\na\n\nb\n"""|')), { kind: 'send', text: 'a\n\nb', fenced: true });
  t.same(enter(draft('say """a"""|')), { kind: 'send', text: 'say """a"""', fenced: false });
});

t.test('a book pasted as one line is edited without delay', async (t) => {
  const book = `${'word '.repeat(20_000)}${'日本語'.repeat(20_000)}${'a'.repeat(100_000)} `;
  const pieces = graphemes(`${book}👩‍👩‍👧‍👦🇵🇪e\u0301`);
  t.equal(pieces.length, book.length + 3);
  t.same(pieces.slice(-3), ['👩‍👩‍👧‍👦', '🇵🇪', 'e\u0301']);
  const accents = `e${'\u0301'.repeat(3_000)}`;
  t.same(graphemes(`${'🇵🇪'.repeat(1_000)}${accents}x`).slice(-3), ['🇵🇪', accents, 'x'], 'a cluster is whole, wherever it is');
  // Quadratic work would take minutes here.
  const draft = { ...emptyDraft, text: `${book}end`, cursor: book.length + 3 };
  t.equal(edit(draft, { do: 'delete', to: 'word-left' }).cut, 'end');
  t.equal(edit(draft, { do: 'move', to: 'word-left' }).cursor, book.length);
});
