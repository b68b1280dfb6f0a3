// Entry of an engine process over the fake addon, forked by odd-messages.test. If the file ODD_ONCE
// exists, it is removed, and the message that the test asks for goes before the first events.
import { spawn } from 'node:child_process';
import { closeSync, existsSync, unlinkSync, writeSync } from 'node:fs';
import { connect, runHost } from '#recua/engine/process/host.js';
import { channelDescriptor } from '#recua/engine/channel.js';
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
  'a failure to load, when it is loaded': { type: 'failed', error: { code: 'model_unusable', message: 'odd' } },
  'no model': { type: 'ready' },
  'a model of another shape': { type: 'ready', model: { contextSize: 'long' } },
  'counts that are no numbers': { type: 'events', status, events: [{ id: 1, kind: 'done', finishReason: 'stop', usage: { promptTokens: NaN, cachedTokens: 0, completionTokens: 0 }, timings: { queueMs: 0, promptMs: 0, generateMs: 0 }, seed: 1 }] },
  'a list with a hole': { type: 'events', status, events: [{ id: 1, kind: 'delta', delta: { content: 'odd', tokens: new Array(1) } }] },
  'endless lists of holes': { type: 'events', status, events: new Array(100).fill({ id: 1, kind: 'delta', delta: { tokens: new Array(2 ** 32 - 1) } }) },
  'the end of another kind of request': { type: 'events', status, events: [{ id: 1, kind: 'result', value: 'odd' }] },
};

/** Bytes on the channel that are no message. */
const bytes: Record<string, Buffer> = {
  'no structured clone': Buffer.of(2, 0, 0, 0, 0xff, 0x7f),
  'a clone of another version': Buffer.of(3, 0, 0, 0, 0xff, 0x7f, 0x30),
  'a longer message than any': Buffer.of(0xff, 0xff, 0xff, 0xff),
  'no bytes at all': Buffer.alloc(4),
};

function sendOdd(send: (message: unknown) => void): void {
  const what = process.env.ODD!;
  if (what === 'the end of the channel') closeSync(channelDescriptor);
  else if (what === 'its end, and leaves a process') leaveProcess(send);
  else if (bytes[what]) writeSync(channelDescriptor, bytes[what]);
  else send(odd[what]);
}

/** Dies, and leaves a process that keeps its output and its channel open. */
function leaveProcess(send: (message: unknown) => void): void {
  const left = spawn(process.execPath, ['-e', 'setTimeout(() => {}, 60_000)'], { stdio: ['ignore', 'inherit', 'inherit', channelDescriptor] });
  send({ type: 'log', level: 'info', text: `left ${left.pid}` });
  process.kill(process.pid, 'SIGKILL');
}

runHost(() => ({ addon: fakeAddon({}) }), (events) => {
  const channel = connect(events);
  return {
    send: (message, gone) => {
      if ((message as FromEngine).type === 'events' && existsSync(process.env.ODD_ONCE!)) {
        unlinkSync(process.env.ODD_ONCE!);
        sendOdd((odd) => channel.send(odd));
      }
      channel.send(message, gone);
    },
  };
});
