// Eight seconds of what `npm run test:soak` does for half an hour.
import t from 'tap';
import { startService } from '../service/service.js';
import { soak } from './soak.js';

t.test('under all kinds of traffic at once each answer is right, engines may die, and nothing is left', { skip: process.platform !== 'linux' && 'it looks into /proc' }, async (t) => {
  const { url, child } = await startService(t, ['--parallel', '4', '--context-size', '1024', '--queue-size', '1000']);
  const { requests, kills, broken } = await soak({
    url,
    pid: child.pid!,
    seconds: 8,
    clients: 8,
    kills: 1,
    reportSeconds: 4,
    report: () => {},
  });
  t.strictSame(broken, []);
  t.equal(kills, 1);
  t.ok(requests > 0);
});
