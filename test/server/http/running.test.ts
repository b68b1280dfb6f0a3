import t from 'tap';
import { RunningAnswers } from '#recua/server/http/running.js';

t.test('answers report their progress while somebody watches', (t) => {
  const running = new RunningAnswers();
  const early = running.follow('one', 'model');
  t.notOk(running.isWatched, 'what nobody looks at costs nothing');
  t.match(running.all, [{ id: 'one', generated: undefined, promptRead: 0 }]);
  t.ok(running.isWatched);
  const late = running.follow('two', 'model');
  late.accepted(9);
  late.add({ progress: { total: 9, cached: 2, processed: 5, elapsedMs: 1 } });
  t.match(running.all[1], { id: 'two', promptTokens: 9, promptRead: 5, cachedTokens: 2, generated: 0 });
  late.add({
    soFar: { usage: { promptTokens: 9, cachedTokens: 2, completionTokens: 5 }, timings: { queueMs: 0, promptMs: 1, generateMs: 2 } },
  });
  t.match(running.all[1], { promptRead: 9, generated: 5, tokensPerSecond: 2_000 });
  early.leave();
  late.leave();
  late.leave();
  t.strictSame(running.all, []);
  t.end();
});
