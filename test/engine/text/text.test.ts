import t from 'tap';
import { Text } from '#recua/engine/text/text.js';
import { random } from '../requests.js';

/**
 * Feeds bytes in the given chunks and returns the text. Checks on the way that nothing is ever
 * taken back.
 */
function feed(bytes: Uint8Array, cuts: number[], stops: string[]): { whole: string; stop: string | undefined; seen: string[] } {
  const text = new Text(stops);
  const seen: string[] = [];
  let from = 0;
  for (const cut of [...cuts, bytes.length]) {
    text.push(bytes.subarray(from, cut));
    from = cut;
    seen.push(text.whole);
  }
  text.end();
  return { whole: text.whole, stop: text.stop, seen };
}

const bytes = (text: string) => new TextEncoder().encode(text);

/**
 * The plain definition: letter by letter, the stop string that completes first; of two that end
 * together, the longer.
 */
function cutAtStop(text: string, stops: string[]): { whole: string; stop: string | undefined } {
  for (let end = 1; end <= text.length; end++) {
    const ending = stops.filter((stop) => text.slice(0, end).endsWith(stop)).sort((a, b) => b.length - a.length)[0];
    if (ending !== undefined) return { whole: text.slice(0, end - ending.length), stop: ending };
  }
  return { whole: text, stop: undefined };
}

t.test('any chunking of any text gives the same text, cut at the first complete stop string', async (t) => {
  const next = random(1);
  const pick = (n: number) => Math.floor(next() * n);
  const letters = ['a', 'b', 'c', 'é', '😀', '\n', '<', 'ab', '한'];
  let stopped = 0;
  for (let round = 0; round < 4000; round++) {
    const word = (most: number) => Array.from({ length: 1 + pick(most) }, () => letters[pick(letters.length)]).join('');
    const text = word(20);
    const stops = Array.from({ length: pick(4) }, () => word(4));
    const data = bytes(text);
    const cuts = Array.from({ length: pick(data.length + 2) }, () => pick(data.length + 1)).sort((a, b) => a - b);
    const { whole, stop, seen } = feed(data, cuts, stops);
    const wanted = cutAtStop(text, stops);
    if (whole !== wanted.whole || stop !== wanted.stop) t.same({ whole, stop }, wanted, JSON.stringify({ text, stops, cuts }));
    if (stop !== undefined) stopped++;
    // The text shown early is a prefix of the final text: no part of a stop string leaked, no
    // character was split.
    const early = seen.find((shown) => !wanted.whole.startsWith(shown) || Buffer.from(shown).toString() !== shown);
    if (early !== undefined) t.fail(`${JSON.stringify(early)} leaked from ${JSON.stringify({ text, stops, cuts })}`);
  }
  t.ok(stopped > 500, `${stopped} texts were stopped`);
});

t.test('any bytes in any chunks decode like the whole, except for a character cut at the end', async (t) => {
  const next = random(2);
  const pick = (n: number) => Math.floor(next() * n);
  const pool = [0x41, 0xc3, 0xa9, 0xf0, 0x9f, 0x98, 0x80, 0xe2, 0x82, 0xac, 0xff, 0xed, 0xa0, 0xc0, 0xef, 0xbb, 0xbf, 0xf4];
  for (let round = 0; round < 4000; round++) {
    const data = Uint8Array.from({ length: pick(16) }, () => pool[pick(pool.length)]);
    const cuts = Array.from({ length: pick(data.length + 1) }, () => pick(data.length + 1)).sort((a, b) => a - b);
    const { whole } = feed(data, cuts, []);
    const oneGo = feed(data, [], []).whole;
    // A valid end flushes the bytes that the decoder held back.
    const full = new TextDecoder('utf-8', { ignoreBOM: true }).decode(data);
    if (whole !== oneGo || !full.startsWith(whole) || !['', '\ufffd'].includes(full.slice(whole.length))) t.same(whole, full, Buffer.from(data).toString('hex'));
  }
  t.end();
});

t.test('a held-back tail that began no stop string is delivered at the end', async (t) => {
  const text = new Text(['STOP']);
  text.push(bytes('go ST'));
  t.equal(text.whole, 'go ');
  text.end();
  t.equal(text.whole, 'go ST');
});

t.test('a stop string within one piece cuts the piece, and nothing is taken after it', async (t) => {
  const text = new Text(['', '!']);
  text.push(bytes('yes! no!'));
  text.push(bytes('more'));
  text.end();
  t.equal(text.whole, 'yes');
  t.equal(text.stop, '!');
});

t.test('a stop string that ends before stops count is text, and so is one that begins there', async (t) => {
  const text = new Text(['END']);
  text.push(bytes('a END b'), false);
  text.push(bytes(' E'), false);
  t.equal(text.whole, 'a END b E', 'nothing is held back');
  text.push(bytes('ND c EN'));
  t.equal(text.whole, 'a END b END c ');
  text.push(bytes('D d'));
  t.same([text.whole, text.stop], ['a END b END c ', 'END']);
});

t.test('a byte-order mark is text', async (t) => {
  t.equal(feed(bytes('\ufeffa'), [1, 2], []).whole, '\ufeffa');
});
