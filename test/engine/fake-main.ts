// Entry of an engine process over the fake addon, forked by client.test. FAKE_ADDON holds the
// options of the fake as JSON. A `once` file named there limits how often its kill-on-load happens.
import { existsSync, unlinkSync } from 'node:fs';
import { connect, runHost } from '#recua/engine/process/host.js';
import type { ToEngine } from '#recua/engine/protocol.js';
import { fakeAddon, type FakeOptions } from './fake-addon.js';

const { killFile, ...fake } = JSON.parse(process.env.FAKE_ADDON ?? '{}') as FakeOptions & { killFile?: string };
if (killFile !== undefined && existsSync(killFile)) {
  unlinkSync(killFile);
  fake.killOnLoad = true;
}
// As Node does if it cannot create its threads.
if (process.env.FAKE_HANG !== undefined && existsSync(process.env.FAKE_HANG)) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
if (process.env.FAKE_NOISE) console.log('noise on stdout');
const version = process.env.FAKE_GATEWAY_VERSION;
runHost(() => ({ addon: fakeAddon(fake) }), ({ message, closed }) => connect({
  message: (m) => message(version !== undefined && (m as ToEngine).type === 'load' ? { ...(m as object), version } : m), closed,
}));
