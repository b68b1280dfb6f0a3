// `recua serve stop`: asks the managed server to exit in order, and waits for it. Signals only the
// process of the record, after comparing its start time right before.
import { setTimeout as wait } from 'node:timers/promises';
import { RecuaError } from '../../errors.js';
import { afterDrainSeconds } from '../../settings/stop-time.js';
import { lifeOf } from '../../system/process-identity.js';
import { say } from '../terminal/output.js';
import { watchSignals } from '../terminal/signals.js';
import { askHealth } from './health.js';
import { retire } from './state-file.js';
import type { ServePlaces, ServerRecord } from './state-file.js';
import { ended, findStatus } from './status.js';
import type { ServerState } from './status.js';

const secondMs = 1000;
const killedMs = 10_000;

export interface StopRequest {
  /** Kill it at once. */
  force: boolean;
  /** How long to wait; 0 means as long as an orderly exit may take. */
  timeoutSeconds: number;
  /** The caller holds the start lock: nobody else is starting a server. */
  isRestart?: boolean;
}

export async function stopServer(places: ServePlaces, request: StopRequest): Promise<number> {
  let kill = false;
  let again = false;
  const stop = watchSignals(() => { kill = true; });
  try {
    const found = await findServer(places, stop.signal, request.isRestart);
    if (!found) return 0;
    const { record, state } = found;
    const { pid } = record.identity;
    if (!request.force) {
      const tellRunning = teller(record);
      // A second SIGTERM would end the server at once; a second `recua serve stop` must not.
      if (state !== 'stopping') await signalServer(record, 'SIGTERM');
      const ends = await ended(record, waitMs(record, request), async () => {
        if (stop.signal.aborted && !again) {
          again = true;
          say('Still waiting; Ctrl-C again kills the server at once.');
        }
        if (kill) await signalServer(record, 'SIGKILL');
        else await tellRunning();
      });
      if (!ends) {
        throw new RecuaError('server_failed', `The server (pid ${pid}) has not exited within ${waitMs(record, request) / secondMs} seconds. It is still stopping; recua serve stop --force kills it at once.`);
      }
    } else {
      await signalServer(record, 'SIGKILL');
      if (!await ended(record, killedMs)) throw new RecuaError('server_failed', `The server (pid ${pid}) was killed but is still there; the operating system has not released it.`);
    }
    retire(places.record, record.identity);
    say(request.force || kill ? `Killed the server (pid ${pid}).` : `Stopped the server (pid ${pid}).`);
    return 0;
  } finally {
    stop.release();
  }
}

/**
 * The living server. Without one, prints a message and returns undefined. Waits for a server that
 * is being started.
 */
async function findServer(
  places: ServePlaces,
  signal: AbortSignal,
  isRestart = false,
): Promise<{ record: ServerRecord; state: ServerState } | undefined> {
  for (let tries = 0; ; tries++) {
    const { state, record, alive, problem } = await findStatus(places);
    if (record && alive) {
      if ((await lifeOf(record.identity)) === 'unknown') throw new RecuaError('server_failed', problem);
      return { record, state };
    }
    if (record) {
      retire(places.record, record.identity);
      say(`The server is not running: pid ${record.identity.pid} ended unexpectedly.`);
      return undefined;
    }
    if (problem !== '') throw new RecuaError('server_failed', problem);
    if (state === 'stopped' || isRestart) {
      say('The server is not running.');
      return undefined;
    }
    if (tries === 0) say('A server is being started; waiting until it can be stopped.');
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
  return (timeoutSeconds > 0 ? timeoutSeconds : (typeof drain === 'number' ? drain : 0) + afterDrainSeconds) * secondMs;
}

/** Prints what the server waits for, whenever that changes. */
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
