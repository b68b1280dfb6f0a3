// Entry of an engine process over the fake addon, forked by odd-messages.test. If the file ODD_ONCE
// exists, it is removed, and the message that the test asks for goes before the first events.
import { existsSync, unlinkSync } from 'node:fs';
import { runHost, type Channel } from '#recua/engine/process/host.js';
import type { FromEngine } from '#recua/engine/protocol.js';
import { fakeAddon } from './fake-addon.js';

const status = { running: 0, waiting: 0, tokens: 0 };

/** Messages about request 1 that no engine sends. */
const odd: Record<string, unknown> = {
  'no message': null,
  'no events': { type: 'events', status },
  'no event': { type: 'events', status, events: [null] },
  'fewer than no tokens': { type: 'events', status, events: [], generated: Int32Array.of(1, 0, -3) },
  'tokens in no list': { type: 'events', status, events: [], generated: { length: 9 } },
  'an error without a code': { type: 'events', status, events: [{ id: 1, kind: 'error', error: { message: 'odd' } }] },
  'no model': { type: 'ready' },
};

const channel: Channel = Object.create(process, {
  send: {
    value: (message: FromEngine, ...rest: []) => {
      if (message.type === 'events' && existsSync(process.env.ODD_ONCE!)) {
        unlinkSync(process.env.ODD_ONCE!);
        process.send!(odd[process.env.ODD!]);
      }
      return process.send!(message, ...rest);
    },
  },
});
runHost(() => ({ addon: fakeAddon({}) }), channel);
