import t from 'tap';
import { existsSync, readdirSync, readFileSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { writeSession } from '#recua/cli/chat/sessions/session.js';
import { Pty } from '../pty.js';
import { recua } from '../recua.js';

const session = (message: string) => writeSession({
  model: 'builtin', system: 'Be brief.', template: 'auto', createdAt: '2026-01-31T10:00:00.000Z', updatedAt: '2026-01-31T11:00:00.000Z',
  settings: { maxTokens: 10, temperature: 0.5, topP: 0.9, topK: 40, minP: 0.05, repeatPenalty: 1.1, seed: 7 },
  exchanges: [{ message, sentAt: '2026-01-31T10:00:00.000Z', reply: { text: 'An answer.', reasoning: '', ended: 'stop' } }],
});

t.test('times are those of the place', async (t) => {
  const home = t.testdir({ sessions: { 'one.json': session('First?') } });
  utimesSync(join(home, 'sessions', 'one.json'), 1_769_850_000, 1_769_850_000);
  const run = (TZ: string, ...args: string[]) => recua(['sessions', ...args], '', { env: { SERVICE_HOME: home, TZ } });
  t.match(await run('UTC', 'list'), { stdout: /^one +2026-01-31 09:00 /m });
  t.match(await run('America/New_York', 'list'), { stdout: /^one +2026-01-31 04:00 /m });
  const { created_at: created } = JSON.parse(session('First?')) as { created_at: string };
  t.match(await run('UTC', 'show', 'one'), { stdout: new RegExp(`^Begun +${created.slice(0, 16).replace('T', ' ')}$`, 'm') });
});

t.test('sessions lists, shows, exports and removes saved chats', async (t) => {
  const home = t.testdir({ sessions: { 'one.json': session('First?'), 'my two.json': session('Second?'), 'one.kv': 'x', 'bad.json': '{', 'newer.json': session('Third?').replace('"recua_session": 1', '"recua_session": 2'), 'dir.json': {} } });
  const run = (...args: string[]) => recua(['sessions', ...args], '', { env: { SERVICE_HOME: home }, cwd: home });
  const list = await run('list');
  t.match(list, { code: 0, stderr: '', stdout: /^NAME +CHANGED +CHAT\n[^]*^one +\d{4}-\d\d-\d\d \d\d:\d\d +1 exchange with builtin$/m });
  t.match(list.stdout, /^bad +.* damaged$/m);
  t.match(list.stdout, /^newer +.* newer format$/m);
  t.match(JSON.parse((await run('ls', '--json')).stdout).sessions.find(({ name }: { name: string }) => name === 'one'), { name: 'one', path: join(home, 'sessions', 'one.json'), model: 'builtin', exchanges: 1 });

  t.match((await run('show', 'one')).stdout, /Name +one\nModel +builtin[^]*System +Be brief\.\n\n> First\?\n\nAn answer\.\n$/);
  t.match(JSON.parse((await run('show', 'my two', '--json')).stdout), { name: 'my two', messages: [{ role: 'system' }, { role: 'user', content: 'Second?' }, { role: 'assistant', content: 'An answer.' }] });

  t.match((await run('export', 'one')).stdout, /^# one\n[^]*## User\n\nFirst\?\n\n## Assistant\n\nAn answer\.\n$/);
  t.match(JSON.parse((await run('export', 'one', '--format', 'json')).stdout), { messages: [{}, {}, {}] });
  t.match(await run('export', 'one', 'out.json'), { code: 0, stdout: '' });
  t.match(JSON.parse(readFileSync(join(home, 'out.json'), 'utf8')), { model: 'builtin' });
  t.match(await run('export', 'one', 'out.json'), { code: 1, stderr: /already/ });

  t.match(await run('rm', 'one', 'nothing'), { code: 1, stderr: /There is no saved chat nothing/ });
  t.ok(existsSync(join(home, 'sessions', 'one.json')), 'all or none');
  t.match(await run('rm', 'one', 'bad'), { code: 0 });
  const refused = await run('rm', 'dir');
  t.match(refused, { code: 1, stderr: /The saved chat .*dir\.json cannot be removed/ });
  t.notMatch(refused.stderr, /\n {4}at /, 'no stack');
  for (const file of ['one.json', 'one.kv', 'bad.json']) t.notOk(existsSync(join(home, 'sessions', file)), file);
  t.ok(existsSync(join(home, 'sessions', 'my two.json')));
});

t.test('sessions rm removes only saved chats', async (t) => {
  const home = t.testdir({
    sessions: { 'package.json': session('First?'), 'notes.txt': 'x' },
    'package.json': '{"name":"my-app"}', 'package.kv': 'x', 'thesis.txt': 'thesis', 'mine.json': session('Second?'), 'mine.kv': 'x',
  });
  const run = (...args: string[]) => recua(['sessions', 'rm', ...args], '', { env: { SERVICE_HOME: home }, cwd: home });
  for (const file of ['./package.json', './thesis.txt', './package.kv', 'sessions/notes.txt']) {
    t.match(await run('package', file), { code: 1, stderr: new RegExp(`Expected a saved chat, got .*${file.replace('./', '')}\\. To remove another file, delete it yourself\\.`) });
    t.ok(existsSync(join(home, file)), file);
  }
  t.match(await run('package.json'), { code: 0, stderr: /Removed package\./ });
  t.strictSame(readdirSync(join(home, 'sessions')), ['notes.txt'], 'the chat, not the file of the project');
  t.match(await run('package.json'), { code: 1, stderr: /Expected a saved chat/ });
  t.match(await run('./mine.json'), { code: 0, stderr: /Removed mine\./ });
  t.strictSame(readdirSync(home).sort(), ['mine.kv', 'package.json', 'package.kv', 'sessions', 'thesis.txt']);
});

t.test('on a terminal, sessions rm asks first', async (t) => {
  const home = t.testdir({ sessions: { 'one.json': session('First?'), 'two.json': session('Second?') } });
  const left = (): string[] => readdirSync(join(home, 'sessions'));
  for (const [args, answer, code, files] of [
    [['one', 'two'], 'n\r', 1, 2],
    [['one'], 'y\r', 0, 1],
    [['two', '-y'], undefined, 0, 0],
  ] as const) {
    const pty = new Pty(['sessions', 'rm', ...args], { env: { SERVICE_HOME: home } });
    if (answer !== undefined) {
      await pty.until(args.length === 2 ? /Remove these 2 chats for good\? \[y\/N\]/ : /Remove the chat one for good\? \[y\/N\]/);
      pty.type(answer);
    }
    t.equal((await pty.ended).exitCode, code);
    t.equal(left().length, files);
    await pty.dispose();
  }
});

t.test('a wrong call of sessions exits 2 and says how to call it', async (t) => {
  const options = { env: { SERVICE_HOME: t.testdir() } };
  for (const [args, said] of [
    [['lst'], /Did you mean sessions list\?/],
    [['show'], /Expected the name/],
    [['show', 'a', 'b'], /Expected one name/],
    [['rm'], /Expected the name/],
    [['show', '../x y:z'], /no saved chat|Expected a name/],
  ] as const) {
    const { code, stderr } = await recua(['sessions', ...args], '', options);
    t.ok(code === 2 || (args[1] === '../x y:z' && code === 1), String(args));
    t.match(stderr, said);
  }
  t.match(await recua(['sessions', 'list'], '', options), { code: 0, stdout: '', stderr: /no saved chats/ });
  t.same(JSON.parse((await recua(['sessions', 'list', '--json'], '', options)).stdout), { sessions: [] });
});
