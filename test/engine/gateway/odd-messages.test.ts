// An engine process that sends what no engine sends.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { startEngine } from '#recua/engine/gateway/client.js';
import { until } from '../../cli/home.js';
import { completion, options, say } from '../requests.js';

const ends = ['the end of the channel', 'its end, and leaves a process'];
const messages = ['no message', 'no events', 'no event', 'fewer than no tokens', 'tokens in no list', 'an error without a code', 'a failure to load, when it is loaded', 'no model',
  'a model of another shape', 'counts that are no numbers', 'a list with a hole', 'endless lists of holes',
  'the end of another kind of request', 'no structured clone', 'a clone of another version', 'a longer message than any', 'no bytes at all', ...ends];

for (const message of messages) {
  t.test(`${message}: the process is ended, and the request goes on in the next one`, async (t) => {
    process.env.ODD = message;
    writeFileSync(process.env.ODD_ONCE = join(t.testdir({}), 'once'), '');
    const log: string[] = [];
    const entry = new URL('../odd-main.js', import.meta.url);
    const engine = startEngine(options, { entry, log: (_, text) => log.push(text), restart: { delayMs: 1 } });
    t.teardown(async () => {
      await engine.close(0);
      for (const line of log) if (line.startsWith('left ')) process.kill(Number(line.slice('left '.length)));
    });
    await engine.ready();
    let content = '';
    for await (const delta of engine.complete(completion('x', { constraint: say('one two three') }))) content += delta.content ?? '';
    t.equal(content, 'one two three');
    t.equal(engine.crashes, 1);
    const why = ends.includes(message) ? '' : '.*could not be used: \\w*Error: ';
    t.ok(log.some((line) => new RegExp(`died \\(signal SIGKILL\\)${why}`).test(line)), log.join('\n'));
  });
}

t.test('a process that reports its failure and does not end is ended', async (t) => {
  const engine = startEngine(options, { entry: new URL('../lingering-main.js', import.meta.url) });
  t.teardown(() => engine.close(0));
  const pid = await engine.ready().then(() => t.fail('it is not ready'), ({ message }: Error) => Number(message));
  await until(() => {
    try {
      return !process.kill(pid as number, 0);
    } catch {
      return true;
    }
  });
  t.equal(engine.state.state, 'failed');
});
