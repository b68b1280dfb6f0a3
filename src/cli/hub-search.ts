// Searching the hub, for search and the menu, and what all commands say while the hub makes them
// wait.
import { Hub, type HubRepository } from '../models/hub/hub.js';
import { setbackWords } from '../models/hub/retry.js';
import { RecuaError } from '../errors.js';
import { say } from './terminal/output.js';
import { watchSignals } from './terminal/signals.js';

/** The repositories that match, and the address of the hub. Ctrl-C throws `cancelled`. */
export async function searchHub(words: string): Promise<{ found: HubRepository[]; endpoint: string }> {
  const hub = await Hub.fromEnvironment(process.env, saySetback);
  const stop = watchSignals();
  try {
    return { found: await hub.search(words, stop.signal), endpoint: hub.endpoint };
  } catch (thrown) {
    throw stop.signal.aborted ? new RecuaError('cancelled', 'Stopped.', { cause: thrown }) : thrown;
  } finally {
    stop.release();
  }
}

export function saySetback(what: string, waitMs: number): void {
  say(`${setbackWords(what, waitMs)}.`);
}
