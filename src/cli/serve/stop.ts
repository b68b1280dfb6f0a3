// `recua serve stop`: asks the managed server for an orderly end and waits for it. Signals nobody
// but the process that the record means, whose start time is compared right before.
import { setTimeout as wait } from 'node:timers/promises';
import { RecuaError } from '../../errors.js';
import { lifeOf } from '../../system/process-identity.js';
import { say } from '../terminal/output.js';
import { watchSignals } from '../terminal/signals.js';
import { askHealth } from './health.js';
import { retire } from './state-file.js';
import type { ServePlaces, ServerRecord } from './state-file.js';
import { ended, findStatus } from './status.js';
import type { ServerState } from './status.js';

const secondMs = 1000;
/** Beyond its drain time: for last words and for the engine process to end. */
const graceSeconds = 10;
const killedMs = 10_000;

export interface StopRequest {
  /** Ends it at once. */
  force: boolean;
  /** How long to wait; 0 is as long as it may take in good order. */
  timeoutSeconds: number;
}

export async function stopServer(places: ServePlaces, request: StopRequest): Promise<number> {
  let kill = false;
  let again = false;
  const stop = watchSignals(() => { kill = true; });
  try {
    const found = await findServer(places, stop.signal);
    if (!found) return 0;
    const { record, state } = found;
    const { pid } = record.identity;
    if (!request.force) {
      const tellRunning = teller(record);
      // A second signal would end it at once, which is not what a second stop asks for.
      if (state !== 'stopping') await signalServer(record, 'SIGTERM');
      const ends = await ended(record, waitMs(record, request), async () => {
        if (stop.signal.aborted && !again) {
          again = true;
          say('Still waiting; Ctrl-C again ends the server at once.');
        }
        if (kill) await signalServer(record, 'SIGKILL');
        else await tellRunning();
      });
      if (!ends) {
        throw new RecuaError('server_failed', `The server (pid ${pid}) has not ended within ${waitMs(record, request) / secondMs} seconds. It goes on stopping; recua serve stop --force ends it at once.`);
      }
    } else {
      await signalServer(record, 'SIGKILL');
      if (!await ended(record, killedMs)) throw new RecuaError('server_failed', `The server (pid ${pid}) was killed but is still there; the system holds it.`);
    }
    retire(places.record, record.identity);
    say(request.force || kill ? `Killed the server (pid ${pid}).` : `Stopped the server (pid ${pid}).`);
    return 0;
  } finally {
    stop.release();
  }
}

/**
 * The server that lives; undefined, with a word, where there is none. One that is just being
 * started is waited for.
 */
async function findServer(places: ServePlaces, signal: AbortSignal): Promise<{ record: ServerRecord; state: ServerState } | undefined> {
  for (let tries = 0; ; tries++) {
    const { state, record, alive, problem } = await findStatus(places);
    if (record && alive) {
      if (await lifeOf(record.identity) === 'unknown') throw new RecuaError('server_failed', problem);
      return { record, state };
    }
    if (record) {
      retire(places.record, record.identity);
      say(`The server is not running: pid ${record.identity.pid} had ended without a word.`);
      return undefined;
    }
    if (state === 'stopped') {
      say('The server is not running.');
      return undefined;
    }
    if (tries === 0) say('A server is just being started; waiting until it can be stopped.');
    if (signal.aborted) throw new RecuaError('cancelled', 'Stopped waiting.');
    await wait(100);
  }
}

async function signalServer(record: ServerRecord, signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
  if (await lifeOf(record.identity) !== 'alive') return;
  try {
    process.kill(record.identity.pid, signal);
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code === 'ESRCH') return;
    throw new RecuaError('server_failed', `The server (pid ${record.identity.pid}) cannot be stopped: ${code === 'EPERM' ? 'it belongs to another user' : (cause as Error).message}.`, { cause });
  }
}

function waitMs(record: ServerRecord, { timeoutSeconds }: StopRequest): number {
  const drain = record.settings['drain-timeout'];
  return (timeoutSeconds > 0 ? timeoutSeconds : (typeof drain === 'number' ? drain : 0) + graceSeconds) * secondMs;
}

/** Says what the server waits for, each time it changes. */
function teller(record: ServerRecord): () => Promise<void> {
  let told = '';
  return async () => {
    const health = await askHealth(record);
    if (!health || health.running === 0) return;
    const text = `Waiting for ${health.running} running ${health.running === 1 ? 'request' : 'requests'} to end.`;
    if (text !== told) say(text);
    told = text;
  };
}
