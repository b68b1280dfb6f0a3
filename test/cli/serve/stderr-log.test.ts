// The log of a server in the foreground, whose reader stops.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { setTimeout as wait } from 'node:timers/promises';
import { StderrLog } from '#recua/cli/serve/stderr-log.js';
import { Pty } from '../pty.js';
import { makeHome } from '../home.js';
import { mainPath } from '../recua.js';

/** A stream that takes everything and hands nothing on until it is read. */
function stalled(): { writableLength: number; write: (text: string, done?: () => void) => boolean; read: () => void } {
  const waiting: (() => void)[] = [];
  return {
    writableLength: 0,
    write(text, done) {
      this.writableLength += text.length;
      if (done) waiting.push(done);
      return false;
    },
    read() {
      this.writableLength = 0;
      for (const done of waiting.splice(0)) done();
    },
  };
}

t.test('lines that nobody reads are dropped and counted, so they take bounded memory', async (t) => {
  const stream = stalled();
  const lines: string[] = [];
  const log = new StderrLog((level, text) => {
    lines.push(`${level} ${text.slice(0, 60)}`);
    stream.write(text);
  }, stream as never);
  for (let i = 0; i < 10; i++) log.write('info', 'x'.repeat(2 ** 20));
  t.equal(lines.length, 5);
  stream.read();
  log.write('info', 'next');
  t.strictSame(lines.slice(5), ['warn 5 lines are missing here: nobody read them', 'info next']);
});

t.test('close() waits for what is read, but not for ever', async () => {
  const stream = stalled();
  const log = new StderrLog(() => undefined, stream as never);
  const closed = log.close();
  stream.read();
  await closed;
  await log.close();
});

t.test('a server whose log nobody reads any more ends when it is told to', { skip: process.platform === 'win32' }, async (t) => {
  const { env } = makeHome(t);
  const fifo = join(t.testdir(), 'log');
  execFileSync('mkfifo', [fifo]);
  // Open for both, so that it is open as long as the test.
  const pipe = await open(fifo, 'r+');
  t.teardown(() => pipe.close());
  const server = spawn(process.execPath, [mainPath, 'api', 'builtin', '--port', '0', '--threads', '1', '-c', '512'], { env, stdio: ['ignore', 'ignore', pipe.fd] });
  t.teardown(() => server.kill('SIGKILL'));
  let said = '';
  while (!said.includes('Try: ')) {
    // Fails while there is nothing to read: the server has made it non-blocking.
    said += await pipe.read().then(({ buffer, bytesRead }) => buffer.toString('utf8', 0, bytesRead), async () => await wait(20, ''));
  }
  const url = /listens on (http:\S+)/.exec(said)![1]!;
  // More than a pipe takes.
  for (let i = 0; i < 1_000; i++) if ((await fetch(`${url}/v1/${'x'.repeat(300)}`)).status !== 404) t.fail();
  const ended = once(server, 'exit');
  server.kill('SIGTERM');
  t.strictSame(await ended, [0, null]);
});

t.test('Ctrl-S on the terminal of a server stops only what the terminal shows', { skip: process.platform !== 'linux' }, async (t) => {
  const { env } = makeHome(t);
  const terminal = new Pty(['api', 'builtin', '--port', '0', '--threads', '1', '-c', '512'], { env, columns: 200 });
  t.teardown(() => terminal.kill('SIGKILL'));
  await terminal.until(/Try: /);
  const url = /listens on (http:\S+)/.exec(terminal.raw)![1]!;
  const ask = async (path: string): Promise<number> => {
    const reply = await fetch(url + path, { signal: AbortSignal.timeout(10_000) });
    await reply.text();
    return reply.status;
  };
  terminal.type('\u0013');
  await wait(200);
  // Much more than a terminal takes.
  const count = 1_000;
  for (let i = 0; i < count; i++) if (await ask(`/v1/${'x'.repeat(300)}`) !== 404) t.fail();
  t.equal(await ask('/health'), 200);
  terminal.type('\u0011');
  await terminal.until(() => terminal.raw.split('route_not_found').length > count, 'all lines');
  process.kill(terminal.pid, 'SIGTERM');
  t.match(await terminal.ended, { exitCode: 0 });
});
