// Each flag of `recua chat`, and single turns: through pipes, and on a pseudo-terminal where a
// person would type.
import t from 'tap';
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { savedChats } from '#recua/cli/serve/saved-chats.js';
import { builtinPath } from '#recua/models/store.js';
import { endless, openChat, readSaved, startChat } from '../chat/chats.js';
import { recua, start } from '../recua.js';

const quick = ['-q', '--threads', '1'];

t.test('-p answers once: only the answer goes to stdout, and nothing is saved', async (t) => {
  const home = t.testdir();
  const env = { SERVICE_HOME: home };
  const { code, stdout, stderr } = await recua(['chat', 'builtin', '-p', 'Hello', '--temp', '0'], '', { env });
  t.equal(code, 0, stderr);
  t.match(stdout, /^\S[^]*\S\n$/);
  t.match(stderr, /Loading builtin[^]*Context: 4096 tokens, the model's training size/);
  t.notMatch(stdout + stderr, /\x1b/);
  // The last use of the model is recorded, but nothing of the chat.
  t.same(readdirSync(home, { recursive: true }).sort().slice(0, 2), ['recua', 'recua/used']);
  t.notOk(existsSync(join(home, 'sessions')));
  // stdin alone, and after -p; defaults are those of a chat.
  const ask = async (args: string[], input = '') => (await recua(['chat', 'builtin', ...quick, '--temp', '0', ...args], input, { env })).stdout;
  t.equal(await ask([], 'Hello\n'), stdout);
  t.equal(await ask(['-p', 'Repeat this sentence.'], 'The sky is blue.'), await ask(['-p', 'Repeat this sentence.\n\nThe sky is blue.']));
  t.equal((await recua(['run', 'builtin', ...quick, '-p', 'Hello', '--temp', '0', '--repeat-penalty', '1.1', '--top-p', '0.9'], '', { env })).stdout, stdout);
});

t.test('--json prints one object with text, end, usage and timings', async (t) => {
  const { stdout, stderr } = await recua(['chat', 'builtin', '-p', 'Hello', '--json', '-q', '--seed', '5', '-s', 'Be brief.'], '', { env: { SERVICE_HOME: t.testdir() } });
  t.equal(stderr, '', '-q is silent');
  t.match(JSON.parse(stdout), {
    content: /\w/, finish_reason: 'stop', seed: 5,
    usage: { prompt_tokens: Number, cached_tokens: 0, completion_tokens: Number, total_tokens: Number },
    timings: { queue_ms: Number, prompt_ms: Number, generate_ms: Number, tokens_per_second: Number, time_to_first_token_ms: Number },
  });
  const bare = JSON.parse((await recua(['chat', 'builtin', '-p', 'Hello', '--json', '-q'], '', { env: { SERVICE_HOME: t.testdir() } })).stdout);
  t.ok(JSON.parse(stdout).usage.prompt_tokens > bare.usage.prompt_tokens, 'the system prompt is in it');
});

t.test('sampling flags reach the sampler', async (t) => {
  const ask = async (...args: string[]) => (await recua(['chat', 'builtin', ...quick, '-p', 'Tell me a story', '-n', '12', ...args])).stdout;
  const wild = ['--temp', '5', '--top-p', '1', '--top-k', '0', '--min-p', '0', '--repeat-penalty', '1'];
  const drawn = await ask(...wild, '--seed', '42');
  t.equal(await ask(...wild, '--seed', '42'), drawn);
  t.not(await ask(...wild, '--seed', '43'), drawn);
  // Each of these leaves one candidate, at any temperature.
  const likeliest = await ask('--temp', '0', '--repeat-penalty', '1');
  for (const narrow of [['--top-k', '1'], ['--top-p', '0'], ['--min-p', '1']]) t.equal(await ask(...wild, ...narrow), likeliest, String(narrow));
  const letters = ['-g', 'root ::= ("a " | "b ")+', '--temp', '0'];
  t.not(await ask(...letters, '--repeat-penalty', '1'), await ask(...letters, '--repeat-penalty', '10'));
});

t.test('-n, -c, -ngl, --grammar and --grammar-file take effect', async (t) => {
  const cut = await recua(['chat', 'builtin', '-p', 'Tell me a story', '-n', '3', '--json', '-c', '512', '-ngl', '0']);
  t.match(JSON.parse(cut.stdout), { finish_reason: 'length', usage: { completion_tokens: 3 } });
  t.match(cut.stderr, /cut off after 3 tokens/);
  t.notMatch(cut.stderr, /Context:/, 'a context that was asked for needs no words');
  t.match(await recua(['chat', 'builtin', '-c', '512', '-q', '-p', 'word '.repeat(600)]), { code: 1, stdout: '', stderr: /512/ });
  const path = join(t.testdir(), 'a.gbnf');
  writeFileSync(path, 'root ::= "no"\n');
  for (const args of [['--grammar', 'root ::= "no"'], ['-g', 'root ::= "no"'], ['--grammar-file', path], ['-gf', path]]) {
    t.match(await recua(['chat', 'builtin', ...quick, '-p', 'Is it?', ...args]), { code: 0, stdout: 'no\n' });
  }
  t.match(await recua(['chat', 'builtin', '-p', 'x', '-g', 'a', '-gf', 'b']), { code: 2, stderr: /got both/ });
});

t.test('--json-schema and --json-schema-file make the answer follow a JSON schema', async (t) => {
  const path = join(t.testdir(), 'a.json');
  const schema = '{"type": "object", "properties": {"answer": {"const": "no"}}, "required": ["answer"], "additionalProperties": false}';
  writeFileSync(path, schema);
  for (const command of ['chat', 'run']) {
    for (const args of [['--json-schema', schema], ['-j', schema], ['--json-schema-file', path], ['-jf', path]]) {
      const { code, stdout, stderr } = await recua([command, 'builtin', ...quick, '-p', 'Is it?', ...args]);
      t.equal(code, 0, stderr);
      t.same(JSON.parse(stdout), { answer: 'no' });
    }
  }
  const wrong: [string[], RegExp][] = [
    [['-j', '{"type": '], /Expected a JSON schema in --json-schema: .*JSON/],
    [['-j', '[]'], /Expected a JSON object in --json-schema, got "\[\]"\./],
    [['-j', ' '], /Expected a JSON schema after --json-schema, got only spaces\./],
    [['-j', '{}', '-g', 'a'], /Expected --grammar or --json-schema, got both\./],
    [['-jf', `${path}x`], /a\.jsonx cannot be read: there is no such file\./],
  ];
  for (const [args, message] of wrong) {
    const { code, stdout, stderr } = await recua(['run', 'builtin', ...quick, '-p', 'x', ...args]);
    t.match({ code, stdout, stderr }, { code: args[0] === '-jf' ? 1 : 2, stdout: '', stderr: message });
  }
  t.match(await recua(['run', 'builtin', ...quick, '-p', 'x', '-j', '{"type": "strin"}']), { code: 1, stdout: '', stderr: /schema/ });
});

t.test('-t takes each template, and its end of turn ends the answer even if the model has no such token', async (t) => {
  const env = { SERVICE_HOME: t.testdir() };
  const sizes = new Set<number>();
  for (const [name, end] of Object.entries({ auto: '', qwen: '', llama3: '<|eot_id|>', mistral: '</s>', gemma: '<end_of_turn>', phi3: '<|end|>' })) {
    const { code, stdout, stderr } = await recua(['chat', 'builtin', ...quick, '-t', name, '-p', 'Hello', '--json', '-g', `root ::= "yes${end} and more"`], '', { env });
    t.equal(code, 0, stderr);
    const reply = JSON.parse(stdout);
    t.equal(reply.content, end === '' ? 'yes and more' : 'yes', name);
    sizes.add(reply.usage.prompt_tokens);
  }
  t.equal(sizes.size, 6, 'each makes a prompt of its own');
  t.match(await recua(['chat', 'builtin', '-t', 'lama3', '-p', 'x']), { code: 2, stderr: /Expected one of auto, chatml, llama3, mistral, gemma, phi3, qwen for --template/ });
  t.match(await recua(['chat', 'builtin', '-t', '4', '-p', 'x']), { code: 2, stderr: /for --template, -t, got "4"\. For a number of threads: --threads 4/ }, 'elsewhere -t means threads');
});

t.test('a wrong call exits 2 and loads nothing', async (t) => {
  for (const [args, said] of [
    [['chat', '-p', 'x'], /Expected a model/],
    [['chat', 'builtin'], /Expected a prompt/],
    [['chat', 'builtin', 'Hello', '-p', 'x'], /Expected one model/],
    [['chat', 'builtin', '--resume', 'a', '--continue', '-p', 'x'], /got both/],
    [['chat', 'builtin', '--temperatur', '1'], /Did you mean --temperature\?/],
    [['chat', 'builtin', '-t', 'chatml', '--chat-template-file', 'x', '-p', 'x'], /got both/],
    [['chat', 'builtin', '--seed', '-1', '-p', 'x'], /from 0 to/],
  ] as const) {
    const result = await recua(args, '');
    t.match(result, { code: 2, stdout: '', stderr: said });
    t.notMatch(result.stderr, /Loading/);
  }
});

t.test('--json needs a prompt on a terminal', async (t) => {
  const chat = startChat(t, ['builtin', '--json']);
  t.equal((await chat.ended).exitCode, 2);
  t.match(chat.text(), /Expected a prompt for --json/);
});

t.test('a single turn of a saved chat is saved there, unless --no-save is given', async (t) => {
  const home = t.testdir();
  const first = await openChat(t, ['-g', 'root ::= "ok"'], { home });
  await first.say('Hello');
  await first.leave();
  const ask = (...args: string[]) => recua(['chat', '--continue', ...quick, '-n', '4', ...args], 'again', { env: { SERVICE_HOME: home } });
  t.equal(JSON.parse((await ask('--json', '--no-save')).stdout).session, undefined);
  t.equal(readSaved(home).messages.length, 2);
  t.match(JSON.parse((await ask('--json')).stdout).session, /hello/);
  t.same(readSaved(home).messages.map(({ role, content }) => (role === 'user' ? content : role)), ['Hello', 'assistant', 'again', 'assistant']);
});

t.test('a chat that was saved without a model continues with the usual one', async (t) => {
  const home = t.testdir();
  const env = { SERVICE_HOME: home };
  t.match(await recua(['import', builtinPath, '--name', 'acme/tiny'], '', { env }), { code: 0 });
  await savedChats(join(home, 'sessions')).create({ messages: [{ role: 'user', content: 'Hello', sent_at: 'x' }, { role: 'assistant', content: 'Hi', ended: 'stop' }] }, 'one');
  const { code, stderr } = await recua(['chat', '--resume', 'one', '-p', 'again', '-n', '2', '--threads', '1'], '', { env });
  t.equal(code, 0, stderr);
  t.notMatch(stderr, /The saved chat was with/);
  t.match(readSaved(home), { model: 'acme/tiny', messages: { length: 4 } });
});

t.test('Ctrl-C while loading or answering exits 130', async (t) => {
  const running = start(['chat', 'builtin', '-p', 'go', ...endless]);
  running.child.stdin.end();
  await running.saw(/[a-z]{5}$/);
  running.child.kill('SIGINT');
  t.match(await running.ended, { code: 130, signal: null });
});

t.test('-q shows nothing but the prompt', async (t) => {
  const chat = await openChat(t, ['-q']);
  t.equal(chat.text(), '>');
});
