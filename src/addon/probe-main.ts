// Entry of the process that tries a backend library, forked by probe.ts: loads the library beside
// the addon, lists its devices, sends the result.
import { Worker } from 'node:worker_threads';
import { RecuaError } from '../errors.js';
import { openFile } from './load.js';
import { explainFault, machineFacts } from './machine.js';
import type { ProbeRequest, ProbeResult } from './probe.js';

const { addon: path, source, file, refused, limitMs } = JSON.parse(process.argv[2]!) as ProbeRequest;

// A library that hangs blocks this thread, even when the parent is gone: another thread ends the
// process.
const watch = new Worker(`setTimeout(() => process.kill(${process.pid}, 'SIGKILL'), ${limitMs})`, { eval: true });
watch.unref();

function attempt(): ProbeResult {
  try {
    const { addon } = openFile({ path, source }, undefined, undefined, refused);
    const before = new Set(addon.devices().map(({ name }) => name));
    addon.loadBackend(file);
    const devices = addon.devices().map(({ name }) => name).filter((name) => !before.has(name));
    return devices.length > 0 ? { ok: true, devices } : { ok: false, reason: 'it finds no device that it could use' };
  } catch (error) {
    return { ok: false, reason: explainFault(RecuaError.from(error).message, { glibc: '' }, machineFacts()) };
  }
}

process.on('disconnect', () => process.exit(0));
process.send!(attempt());
