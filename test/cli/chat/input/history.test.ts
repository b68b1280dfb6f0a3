// The file with the messages of earlier chats, over years.
import t from 'tap';
import { appendFileSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { History } from '#recua/cli/chat/input/history.js';

const line = (text: string): string => `${JSON.stringify(text)}\n`;

t.test('many or long messages make room for the newest ones', async (t) => {
  const folder = t.testdir();
  const path = join(folder, 'chat-history.jsonl');
  writeFileSync(path, Array.from({ length: 2_001 }, (_, index) => line(`message ${index}`)).join(''));
  const many = await History.open(folder);
  t.strictSame([many.entries.length, many.entries[0], many.entries.at(-1)], [1_000, 'message 1001', 'message 2000']);
  t.equal(readFileSync(path, 'utf8').split('\n').length, 1_001);

  // Pasted logs, say: more than other small files may have.
  for (let index = 0; index < 300; index++) appendFileSync(path, line(`${index} ${'x'.repeat(60_000)}`));
  await (await History.open(folder)).add('the newest');
  const { entries } = await History.open(folder);
  t.equal(entries.at(-1), 'the newest');
  t.match(entries.at(-2), /^299 x/);
  t.ok(entries.length > 50);
  t.ok(statSync(path).size < 5 * 2 ** 20);
});

t.test('a single message of any length is kept with those before it', async (t) => {
  const folder = t.testdir();
  const history = await History.open(folder);
  await history.add('short');
  await history.add('x'.repeat(64 * 1_024));
  await history.add('y'.repeat(64 * 1_024 + 1));
  t.strictSame(history.entries.map(({ length }) => length), [5, 65_536, 65_537]);
  t.strictSame((await History.open(folder)).entries.map(({ length }) => length), [5, 65_536]);
});
