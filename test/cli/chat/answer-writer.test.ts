import t from 'tap';
import { AnswerWriter } from '#recua/cli/chat/answer-writer.js';
import type { AnswerLook } from '#recua/cli/chat/answer-writer.js';

function written(look: AnswerLook, ...deltas: { content?: string; reasoning?: string }[]): string {
  let all = '';
  const writer = new AnswerWriter((text) => { all += text; }, look);
  for (const delta of deltas) writer.push(delta);
  writer.end();
  return all;
}

const columns = () => Infinity;
const styled = { styles: true, terminal: true, columns };
const marked = { styles: false, terminal: true, columns };

t.test('an answer ends with one line break', async (t) => {
  t.equal(written(styled, { content: 'a' }, { content: 'b' }), 'ab\n');
  t.equal(written(styled, { content: '\n\na\n' }), 'a\n');
  t.equal(written(styled), '');
});

t.test('messages during an answer get rows of their own', async (t) => {
  let all = '';
  const writer = new AnswerWriter((text) => { all += text; }, marked);
  writer.giveWay();
  writer.push({ content: 'a' });
  writer.giveWay();
  all += 'said\n';
  writer.push({ content: 'b' });
  writer.giveWay();
  writer.end();
  t.equal(all, 'a\nsaid\nb\n');
});

t.test('each piece of thinking is dim, or marked with words', async (t) => {
  const deltas = [{ reasoning: '\nhm' }, { reasoning: ' so' }, { content: '\n\nyes' }];
  t.equal(written(styled, ...deltas), '\x1b[2mhm\x1b[22m\x1b[2m so\x1b[22m\n\nyes\n');
  t.equal(written(marked, ...deltas), '[thinking]\nhm so\n[/thinking]\nyes\n');
  t.equal(written(marked, { reasoning: 'hm' }), '[thinking]\nhm\n[/thinking]\n', 'also when nothing follows');
});

t.test('control characters never reach a terminal, in one piece or in several', async (t) => {
  t.equal(written(marked, { content: 'a\x1b' }, { content: ']0;x\x07' }, { content: '\u009b2J\r\b\x00b\tc\nd' }), 'a]0;x2Jb\tc\nd\n');
  t.equal(written(styled, { reasoning: '\x1b[0mhm' }), '\x1b[2m[0mhm\x1b[22m\n\n');
  t.equal(written({ styles: false, terminal: false, columns }, { content: 'a\x1b[1m' }), 'a\x1b[1m\n', 'a file gets what was said');
});

t.test('a line breaks between words, with or without styles, and never without a terminal', (t) => {
  const narrow = { ...styled, columns: () => 10 };
  t.equal(written(narrow, { content: 'one two th' }, { content: 'ree four' }), 'one two th\r\x1b[8C\x1b[K\nthree four\n');
  t.equal(written(narrow, { reasoning: 'one two th' }, { reasoning: 'ree' }), '\x1b[2mone two th\x1b[22m\x1b[2m\r\x1b[8C\x1b[K\nthree\x1b[22m\n\n');
  t.equal(written({ ...marked, terminal: false }, { content: 'one two three four' }), 'one two three four\n');
  t.end();
});
