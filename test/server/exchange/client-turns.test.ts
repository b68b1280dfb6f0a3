import { EventEmitter } from 'node:events';
import type { Response } from 'express';
import t from 'tap';
import { RecuaError } from '#recua/errors.js';
import { ClientTurns } from '#recua/server/exchange/client-turns.js';

const tooMany = () => new RecuaError('body_memory_full', 'Too many wait.');

const response = (): EventEmitter & Response =>
  Object.assign(new EventEmitter(), { destroyed: false }) as unknown as EventEmitter & Response;

t.test('clients take turns, however many requests of others came first', async (t) => {
  const turns = new ClientTurns(tooMany);
  const order: string[] = [];
  const reading = new Set<string>();
  const all = [...Array<string>(20).fill('ann'), ...Array<string>(20).fill('bob'), 'cat', 'cat'].map((client) => turns.inTurn({ client, res: response() }, async () => {
    reading.add(client);
    t.equal(reading.size, 1, 'one at a time');
    await new Promise(setImmediate);
    reading.delete(client);
    order.push(client);
  }));
  await Promise.all(all);
  t.strictSame(order.slice(0, 8), ['ann', 'ann', 'bob', 'cat', 'ann', 'bob', 'cat', 'ann']);
  t.equal(order.length, 42);
});

t.test('who leaves while waiting is passed over, and a failed read ends its turn', async (t) => {
  const turns = new ClientTurns(tooMany);
  let end!: () => void;
  const first = turns.inTurn({ client: 'ann', res: response() }, () => new Promise<void>((resolve) => (end = resolve)));
  await new Promise(setImmediate);
  await new Promise(setImmediate);
  const [leaver, late] = [response(), response()];
  const left = turns.inTurn({ client: 'bob', res: leaver }, async () => t.fail('it left'));
  const bad = turns.inTurn({ client: 'bob', res: response() }, () => Promise.reject(new Error('broken')));
  const gone = turns.inTurn({ client: 'cat', res: late }, async () => t.fail('it left when its turn began'));
  const last = turns.inTurn({ client: 'ann', res: response(), hasBody: true }, async () => 'read');
  leaver.emit('close');
  late.destroyed = true;
  end();
  await first;
  await t.rejects(left, { code: 'cancelled' });
  await t.rejects(bad, { message: 'broken' });
  await t.rejects(gone, { code: 'cancelled' });
  t.equal(await last, 'read');
  t.equal(await turns.inTurn({ client: 'bob', res: response() }, async () => 'free again'), 'free again');
});
