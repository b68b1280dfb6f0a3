// The log of a server in the foreground, whose reader stops.
import t from 'tap';
import { setTimeout as wait } from 'node:timers/promises';
import { StderrLog } from '#recua/cli/serve/stderr-log.js';
import { Pty } from '../pty.js';
import { makeHome } from '../home.js';

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
