import t from 'tap';
import { activityOf, TokenRate } from '#recua/engine/gateway/activity.js';
import { startEngine } from '#recua/engine/gateway/client.js';
import { builtinPath } from '#recua/models/store.js';
import { chat, options } from '../requests.js';

t.test('tokens per second cover the last five seconds', (t) => {
  const rate = new TokenRate();
  t.equal(rate.perSecond(0), 0);
  let total = 0;
  for (let ms = 0; ms <= 20_000; ms += 20) rate.note(total += 2, ms);
  t.ok(Math.abs(rate.perSecond(20_000) - 100) < 2, `${rate.perSecond(20_000)}`);
  t.ok(rate.perSecond(22_000) < 100, 'it falls when nothing comes');
  t.equal(rate.perSecond(26_000), 0);
  t.end();
});

t.test('a new answer counts from its beginning, and a short one is spread over a second', (t) => {
  const rate = new TokenRate();
  for (let ms = 10_000, total = 10; ms <= 12_000; ms += 100, total += 10) rate.note(total, ms);
  t.ok(Math.abs(rate.perSecond(12_000) - 100) < 6, `${rate.perSecond(12_000)}`);
  const short = new TokenRate();
  short.note(7, 5);
  t.equal(short.perSecond(10), 7);
  t.end();
});

t.test('a restarted process begins at zero', (t) => {
  const rate = new TokenRate();
  rate.note(1_000, 0);
  rate.note(0, 10);
  t.equal(rate.perSecond(10), 0);
  rate.note(5, 20);
  t.equal(rate.perSecond(30), 5);
  t.end();
});

t.test('requests that a stopped process has not seen yet are waiting', { skip: process.platform === 'win32' && 'no process can be stopped there' }, async (t) => {
  const engine = startEngine({ ...options, modelPath: builtinPath, contextSize: 512, parallel: 1 });
  t.teardown(() => engine.close());
  await engine.ready();
  process.kill(engine.pid!, 'SIGSTOP');
  const answers = ['a', 'b', 'c'].map((text) => engine.chat(chat(text)));
  const asked = engine.tokenize('d', false, false);
  const { running, waiting } = activityOf(engine);
  t.strictSame({ running, waiting }, { running: 0, waiting: 3 }, 'a question is no work');
  process.kill(engine.pid!, 'SIGCONT');
  await Promise.all([...answers.map(({ finished }) => finished), asked]);
  t.match(activityOf(engine), { running: 0, waiting: 0 });
});
