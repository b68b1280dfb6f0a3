// A request that cannot be sent to the engine process fails by itself.
import { PassThrough } from 'node:stream';
import type { Socket } from 'node:net';
import t from 'tap';
import { Channel } from '#recua/engine/channel.js';
import { startEngine } from '#recua/engine/gateway/client.js';
import { completion, options, say } from '../requests.js';

t.test('a request that cannot be sent fails, and others go on', async (t) => {
  process.env.FAKE_ADDON = JSON.stringify({ stepMs: 1 });
  const engine = startEngine(options, { entry: new URL('../fake-main.js', import.meta.url) });
  t.teardown(() => engine.close(0));
  await engine.ready();
  const other = engine.complete(completion('first', { constraint: say('x'.repeat(50)), maxTokens: 50 }));
  let released = 0;
  const noClone = { client: 'x', priority: (() => 0) as unknown as number };
  await t.rejects(engine.complete(completion('second', { asker: noClone }), undefined, () => released++).finished, { code: 'invalid_value', message: /^The request cannot be sent to the engine process: / });
  await t.rejects(engine.embed({ inputs: ['third'], asker: noClone }), { code: 'invalid_value' });
  t.equal(released, 1);
  await other.finished;
  t.equal(engine.crashes, 0);
});

t.test('a message that the other end would refuse for its length is not sent', (t) => {
  let sent = 0;
  const socket = Object.assign(new PassThrough(), { write: () => ++sent > 0 });
  const channel = new Channel(socket as unknown as Socket, { message: () => {}, closed: () => {} }, 1000);
  t.throws(() => channel.send('x'.repeat(1000)), new RangeError('The message has 1005 bytes, and may have 1000.'));
  t.equal(sent, 0);
  channel.send('x'.repeat(990));
  t.equal(sent, 1);
  t.end();
});
