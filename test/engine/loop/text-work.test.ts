// The text of requests that are cancelled between their end and the work on their last tokens.
import t from 'tap';
import type { Pieces } from '#recua/addon/addon.js';
import type { ActiveRequests } from '#recua/engine/loop/active-requests.js';
import type { Generation } from '#recua/engine/loop/generation.js';
import type { Outbox } from '#recua/engine/loop/outbox.js';
import { TextWork } from '#recua/engine/loop/text-work.js';

t.test('a request that nobody waits for any more is abandoned, not rendered', (t) => {
  const active = new Set([2]);
  const told: string[] = [];
  const outbox = { gather: (work: (events: []) => void) => work([]), flushSoon: () => undefined };
  const request = (id: number) => ({
    id, answered: true, render: () => void told.push(`render ${id}`), abandon: () => void told.push(`abandon ${id}`),
  });
  const text = new TextWork(active as unknown as ActiveRequests, outbox as unknown as Outbox, {} as Pieces);
  for (const id of [1, 2]) text.add(request(id) as unknown as Generation);
  text.render();
  t.strictSame(told, ['abandon 1', 'render 2']);
  t.notOk(active.has(2));
  text.render();
  t.equal(told.length, 2);
  t.end();
});
