import t from 'tap';
import { ToldTokens } from '#recua/engine/text/told-tokens.js';
import { unpack } from '#recua/engine/packed-tokens.js';

/** Pieces of a vocabulary with a space before each text's first word, and two control tokens. */
const texts = [' Hi', ' you', '!', '', '', ' '];
const controls: Record<number, string> = { 3: '<s>', 4: '[X]' };
const bytes = Buffer.from(texts.join(''));
const offsets = Uint32Array.from([0, ...texts.map((_, i) => texts.slice(0, i + 1).join('').length)]);

const told = (text: string, ...tokens: number[]) => (
  new ToldTokens({ bytes, offsets, flags: new Uint8Array(texts.length) }, new Map(), undefined)
    .ofPrompt(Int32Array.from(tokens), { text, spellingOf: (token) => [...Buffer.from(controls[token]!)] })
    .flatMap(unpack).map((token) => Buffer.from(token.bytes).toString())
);

t.test('the tokens of a prompt have the bytes of its text', async (t) => {
  t.strictSame(told('Hi you!', 3, 0, 1, 2), ['', 'Hi', ' you', '!'], 'the tokenizer added <s> and a space');
  t.strictSame(told('<s>Hi', 3, 0), ['<s>', 'Hi']);
  t.strictSame(told('<s>Hi', 3, 3, 0), ['<s>', '', 'Hi'], 'one of both is in the text');
  t.strictSame(told(' Hi[X]you', 0, 4, 1), [' Hi', '[X]', 'you']);
  t.strictSame(told('[X]!', 5, 4, 2), ['', '[X]', '!']);
  t.strictSame(told('HI!', 0, 4, 2), [' Hi', '', '!'], 'what the tokenizer changed stays as it is');
});
