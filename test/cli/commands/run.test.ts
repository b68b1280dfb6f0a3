import t from 'tap';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { mainPath, recua, start } from '../recua.js';

const greedy = ['--temp', '0', '-c', '512', '--threads', '1'];

t.test('run streams the answer to stdout and nothing else', async (t) => {
  const { code, stdout, stderr } = await recua(['run', 'builtin', '-p', 'Hello', ...greedy]);
  t.equal(code, 0, stderr);
  t.match(stdout, /^\S[^]*\S\n$/, 'text that ends with one line break');
  t.notMatch(stdout + stderr, /\x1b/, 'no escape codes where there is no terminal');
  t.match(stderr, /Loading builtin/);
});

t.test('run takes the prompt from stdin, from -p, or both with a blank line between', async (t) => {
  const ask = (args: string[], input = '') => recua(['run', 'builtin', '-q', ...args, ...greedy], input);
  const whole = await ask(['-p', 'Repeat this sentence.\n\nThe sky is blue.']);
  t.equal(whole.code, 0, whole.stderr);
  t.equal(whole.stderr, '', '-q says nothing');
  t.equal((await ask([], 'Repeat this sentence.\n\nThe sky is blue.\n')).stdout, whole.stdout);
  t.equal((await ask(['-p', 'Repeat this sentence.'], 'The sky is blue.\n')).stdout, whole.stdout);
});

t.test('run says so if stdin is not UTF-8 text', async (t) => {
  const running = start(['run', 'builtin', '-q', ...greedy], {});
  running.child.stdin.end(Buffer.from('caf\xe9', 'latin1'));
  t.match(await running.ended, { code: 0, stderr: /^Warning: stdin is not UTF-8 text/ });
});

t.test('run takes the prompt after the model, quoted or not', async (t) => {
  const ask = async (args: string[], input = '') => (await recua(['run', 'builtin', '-q', ...args, ...greedy], input)).stdout;
  const wanted = await ask(['-p', 'What is 8 + 5?']);
  t.ok(wanted);
  t.equal(await ask(['What is 8 + 5?']), wanted);
  t.equal(await ask(['What', 'is', '8', '+', '5?']), wanted);
  t.equal(await ask(['Repeat this sentence.'], 'The sky is blue.'), await ask(['-p', 'Repeat this sentence.\n\nThe sky is blue.']));
});

t.test('run --verbose ends with the speed', async (t) => {
  const { stderr, stdout } = await recua(['run', 'builtin', '-q', 'Tell me a story', '-n', '20', '--verbose', ...greedy]);
  t.match(stderr, /^recua: read (\d+) of \1 tokens at \d+ tokens\/s, wrote 20 at [\d.]+ tokens\/s\.\n$/);
  t.notMatch(stdout, /tokens/);
});

t.test('run without a prompt exits 2', async (t) => {
  t.match(await recua(['run', 'builtin'], ''), { code: 2, stdout: '', stderr: /Expected a prompt[^\n]*To chat: recua chat builtin\n/ });
  t.match(await recua(['run'], 'Hello'), { code: 2, stderr: /Expected a model/ });
  t.match(await recua(['run', 'builtin', 'Hello', '-p', 'Hello']), { code: 2, stderr: /after the model or with -p, got both/ });
});

t.test('run --json prints one object with the text, how it ended and its cost', async (t) => {
  const { stdout } = await recua(['run', 'builtin', '-p', 'Hello', '--json', ...greedy]);
  const reply = JSON.parse(stdout) as {
    content: string;
    usage: { prompt_tokens: number; completion_tokens: number; total_tokens: number };
  };
  t.match(reply, { content: /\w/, finish_reason: /^(stop|length)$/, seed: Number });
  t.equal(reply.usage.total_tokens, reply.usage.prompt_tokens + reply.usage.completion_tokens);
});

t.test('run -n limits the answer and says that it was cut off', async (t) => {
  const { code, stdout, stderr } = await recua(['run', 'builtin', '-p', 'Hello', '-n', '2', ...greedy]);
  t.equal(code, 0);
  t.ok(stdout.endsWith('\n'));
  t.match(stderr, /cut off after 2 tokens/);
  t.match((await recua(['run', 'builtin', '-c', '32', '--temp', '0', 'Tell me a story'])).stderr, /cut off after \d+ tokens, because the context is full \(--ctx-size\)/);
});

t.test('run follows a grammar given as text or as a file', async (t) => {
  const path = join(t.testdir(), 'a.gbnf');
  writeFileSync(path, 'root ::= "yes" | "no"\n');
  for (const args of [['-g', 'root ::= "yes" | "no"'], ['-gf', path]]) {
    const { code, stdout, stderr } = await recua(['run', 'builtin', '-p', 'Is it?', ...args, ...greedy]);
    t.equal(code, 0, stderr);
    t.match(stdout, /^(yes|no)\n$/);
  }
  t.match(await recua(['run', 'builtin', '-p', 'x', '-gf', join(path, 'none')]), { code: 1, stderr: /cannot be read/ });
  for (const command of ['run', 'chat']) {
    const { code, stdout, stderr } = await recua([command, 'builtin', '-p', 'x', '-g', 'root ::= (']);
    t.match({ code, stdout }, { code: 1, stdout: '' });
    t.equal(stderr.split('The grammar cannot be used').length, 2, `${command} tells it once: ${stderr}`);
  }
});

t.test('run with the same seed repeats the answer', async (t) => {
  const ask = () => recua(['run', 'builtin', '-p', 'Tell me a story', '--temp', '1', '--seed', '42', '-n', '24', '-c', '512', '--threads', '1', '-q']);
  t.equal((await ask()).stdout, (await ask()).stdout);
});

t.test('run exits 130 after Ctrl-C', async (t) => {
  const running = start(['run', 'builtin', '-p', 'Tell me a story', '-n', '100000', '-c', '0', '--temp', '2', '-g', 'root ::= [a-z ]+ root']);
  running.child.stdin.end();
  await running.saw(/Loading builtin/);
  running.child.kill('SIGINT');
  t.match(await running.ended, { code: 130, signal: null });
});

t.test('stdin is read no further than the context can hold', async (t) => {
  for (const args of [['run', 'builtin', '-p', 'x'], ['chat', 'builtin'], ['run', 'builtin', '-c', '64']]) {
    const advice = args.includes('-c') ? 'or raise the context size with -c' : 'this model has no larger context';
    const running = start([...args, '-q']);
    // Endless: the command must stop reading before the end.
    let sentBytes = 0;
    const feed = () => {
      while (running.child.stdin.writable && running.child.stdin.write('word '.repeat(1000))) sentBytes += 5000;
    };
    running.child.stdin.on('drain', feed);
    feed();
    t.match(await running.ended, { code: 1, stdout: '', stderr: new RegExp(`^recua: Expected a prompt that fits the context, which holds at most [\\d.]+ (KiB|bytes) of text; stdin has more.*${advice}\\.\n$`) });
    t.ok(sentBytes < 4 * 1024 * 1024, `${sentBytes} bytes went into pipes`);
  }
  // The engine decides about texts that may fit.
  t.match(await recua(['run', 'builtin', '-c', '512', '-q'], 'word '.repeat(600)), { code: 1, stderr: /fewer than 512 tokens/ });
});

t.test('a context without room for any answer is refused', async (t) => {
  const refusal = /Expected a context of at least 10 tokens \(-c\), got \d: the shortest chat takes 9/;
  t.match(await recua(['run', 'builtin', '-p', 'a', '-c', '9', '-q']), { code: 2, stdout: '', stderr: refusal });
  t.match(await recua(['run', 'builtin', '-p', 'a', '-c', '10', '-q']), { code: 0, stdout: /\w\n$/ });
  t.match(await recua(['chat', 'builtin', '-p', 'a', '-c', '1', '-q']), { code: 2, stderr: refusal });
  t.match(await recua(['api', 'builtin', '-c', '1', '--port', '0']), { code: 2, stderr: refusal });
});

t.test('run ends quietly when its reader goes away', async (t) => {
  const child = spawn(process.execPath, [mainPath, 'run', 'builtin', '-q', '-p', 'Tell me a story', ...greedy], { stdio: ['ignore', 'pipe', 'pipe'] });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => { stderr += text; });
  child.stdout.destroy();
  const [code] = await once(child, 'close') as [number];
  t.equal(code, 0);
  t.equal(stderr, '');
});

t.test('run refuses a file that is not a model before it starts anything', async (t) => {
  const folder = t.testdir({ 'cut.gguf': 'GGUF\x03\0\0\0' });
  const { code, stdout, stderr } = await recua(['run', 'cut.gguf', '-p', 'x'], '', { cwd: folder });
  t.equal(code, 1);
  t.equal(stdout, '');
  t.match(stderr, /cut off/);
  t.notMatch(stderr, /Loading/);
});
