import { EventEmitter } from 'node:events';
import type { Response } from 'express';
import t from 'tap';
import { Stream } from '#recua/server/http/stream.js';

t.test('frames that take long to make are not made for a client that has left', async (t) => {
  const res = Object.assign(new EventEmitter(), { destroyed: false, writableEnded: false, write: () => true });
  let made = 0;
  const frames = function* frames() {
    for (; made < 100; made++) {
      if (made === 10) res.destroyed = true;
      yield { data: { made } };
    }
  };
  await new Stream(res as unknown as Response).sendInTurns(frames());
  t.equal(made, 10);
});
