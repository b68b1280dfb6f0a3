import t from 'tap';
import { TokenRate } from '#recua/engine/gateway/activity.js';

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
