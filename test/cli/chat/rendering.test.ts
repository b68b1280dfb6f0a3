// Answers as a person sees them on a terminal: rendered, with a line between turns; and the cases
// in which they stay raw.
import t from 'tap';
import { Pty } from '../pty.js';
import { recua } from '../recua.js';
import { always, endless, openChat, readSaved, startChat } from './chats.js';

const answer = '# Big\n- a **b**\n```js\nlet x;\n```\n';
const rule = (width: number) => '─'.repeat(width);
const shown = ['Big', '• a b', `── js ${rule(34)}`, 'let x;', rule(40)];

t.test('an answer is rendered, a line ends the turn, and the text is saved and copied as it came', async (t) => {
  const chat = await openChat(t, always(answer), { columns: 40 });
  chat.type('go\r');
  await chat.until(() => chat.lines().filter((line) => line === rule(40)).length === 2, 'the end of the turn');
  await chat.prompt();
  const lines = chat.lines();
  t.strictSame(lines.slice(lines.indexOf('> go') + 1), [...shown, rule(40), '>']);
  t.match(chat.raw, /\x1b\[1;4mB/);
  t.match(chat.raw, /\x1b\[35mlet\x1b\[0m/);
  t.equal(readSaved(chat.home).messages[1]!.content, answer);
  t.match(await chat.say('/copy'), /clipboard/);
  t.ok(chat.raw.includes(Buffer.from(answer).toString('base64')));
  await chat.leave();
  const again = startChat(t, ['--continue', '--threads', '1'], { home: chat.home, columns: 40 });
  await again.prompt();
  t.strictSame(again.lines().slice(again.lines().indexOf('> go') + 1), [...shown, rule(40), '>'], 'shown again it looks the same');
});

t.test('--raw shows the bytes, in chat and in run; so does output that is not a terminal', async (t) => {
  const raw = await openChat(t, [...always('**a**\x1b[1mb'), '--raw']);
  t.equal(await raw.say('go'), '**a**b');
  t.match(raw.raw, /\*\*a\*\*\x1b\[1mb/);
  t.notMatch(raw.text(), /─/);
  const run = async (args: string[], env = {}) => {
    const pty = new Pty(['run', 'builtin', 'go', '-q', '--threads', '1', ...always('**a** \x1b[1mb'), ...args], { env });
    t.teardown(() => pty.dispose());
    t.equal((await pty.ended).exitCode, 0, pty.text());
    return pty.raw;
  };
  t.match(await run(['--raw']), /\*\*a\*\* \x1b\[1mb\r\n$/);
  const rendered = await run([]);
  t.match(rendered, /\x1b\[1m/);
  t.notMatch(rendered, /\*\*|\x1b\[1mb/);
  t.match(await run([], { NO_COLOR: '1' }), /^\*\*a\*\* \[1mb\r\n$/);
  t.match(await run([], { TERM: 'dumb' }), /^\*\*a\*\* \[1mb\r\n$/);
  t.equal((await recua(['run', 'builtin', 'go', '-q', '--threads', '1', ...always(answer)])).stdout, answer);
  t.match(await recua(['run', 'builtin', 'go', '--raw', '--json']), { code: 2, stderr: /--raw or --json, got both/ });
  t.match(await recua(['chat', 'builtin', '-p', 'go', '--raw', '--json']), { code: 2, stderr: /--raw or --json, got both/ });
});

t.test('no answer smuggles an escape sequence through its Markdown', async (t) => {
  const evil = '[a\\x1b]0;title\\x07](http://x/\\x1b[2J) `\\x1b[31m` &#27;[5m\\n| \\x1b[1A | b |\\n|---|---|\\n```\\x1b[7m\\n\\u009b8m\\n```\\n';
  const chat = await openChat(t, ['-g', `root ::= "${evil}"`]);
  const at = chat.raw.length;
  await chat.say('go');
  const drawn = chat.raw.slice(at);
  t.notMatch(drawn, /\x1b\]|\x07|\x1b\[(?:2J|31m|5m|7m)|\u009b|\x1b\[1Ab/);
  t.match(chat.text(), /a\]0;title\]\(http:\/\/x\/[^]*&#27;\[5m/);
});

t.test('an answer that was stopped by Ctrl-Z continues in a row of its own', async (t) => {
  const run = (): Pty => {
    const pty = new Pty(['run', 'builtin', 'go', '-q', '--threads', '1', ...endless]);
    t.teardown(() => pty.dispose());
    return pty;
  };
  const chat = async (): Promise<Pty> => {
    const pty = await openChat(t, endless);
    pty.type('go\r');
    return pty;
  };
  for (const open of [chat, run]) {
    const pty = await open();
    // One word without an end fills each row.
    const answer = () => pty.lines().filter((line) => /^[a-z]+$/.test(line));
    await pty.until(() => answer().length > 3, 'some rows');
    const shorter = () => answer().slice(0, -1).some((line) => line.length < 80);
    t.notOk(shorter());
    // Once more if it was stopped at the very end of a row.
    for (let rows = 0; !shorter(); await pty.until(() => answer().length > rows + 3, 'more rows')) {
      rows = answer().length;
      pty.kill('SIGSTOP');
      pty.kill('SIGCONT');
    }
    pty.type('\x03');
  }
});

t.test('a window that gets narrower during an answer breaks nothing', async (t) => {
  const chat = await openChat(t, [...endless, '-g', 'root ::= ([a-z] [a-z] [a-z] " ")+']);
  chat.type('go\r');
  await chat.until(() => chat.lines().length > 6, 'some rows');
  chat.resize(20, 24);
  const { length } = chat.raw;
  await chat.until(() => chat.raw.length > length + 400, 'more of it');
  chat.type('\x03');
  await chat.until(/\(stopped; \/retry\s+asks again\)/);
  await chat.prompt();
  const said = readSaved(chat.home).messages[1]!.content;
  const seen = chat.text().replaceAll(/\s/g, '');
  t.ok(seen.includes(said.slice(-60).replaceAll(/\s/g, '')), 'the end of it is there');
  t.ok(chat.lines().at(-1) === '>' && chat.lines().some((line) => line === rule(20)));
});
