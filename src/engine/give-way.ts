// Who gets a place in a full queue. Idle work (batches, `service_tier` "flex") takes none from
// other requests. Among requests of the same kind, the client with the most gives up its last one
// to a client with fewer. Used by the queues of generating requests, of embeddings, of models that
// are to be loaded, and of an engine process that comes back.
import { RecuaError } from '../errors.js';
import type { Asker } from './protocol.js';

type Rival = Pick<Asker, 'client' | 'priority'>;

const isIdle = ({ priority }: Rival): boolean => priority < 0;

/** Those that compete with a request for places: not idle work, unless the request is idle work. */
export function rivalsOf<One extends Rival>(asker: Rival, all: readonly One[]): readonly One[] {
  return isIdle(asker) ? all : all.filter((one) => !isIdle(one));
}

/**
 * The requests of the client that gives way to another request, by priority, then by arrival: the
 * last one does. It is the client with the most requests of the same kind, idle work or not, if it
 * has at least two more. None: the queue stays full. `waiting`: in order of arrival.
 */
export function givingWay<One extends Rival>(asker: Rival, waiting: readonly One[]): One[] {
  const own = new Map<string, One[]>();
  for (const one of waiting) {
    if (isIdle(one) !== isIdle(asker)) continue;
    const before = own.get(one.client);
    if (before) before.push(one);
    else own.set(one.client, [one]);
  }
  const most = [...own.values()].reduce((best, one) => (one.length > best.length ? one : best), []);
  return most.length < (own.get(asker.client)?.length ?? 0) + 2 ? [] : most.sort((a, b) => b.priority - a.priority);
}

export function gaveWay(): RecuaError {
  return new RecuaError('queue_full', 'The queue is full, and this request gave its place to a client with fewer requests; try again in a moment.');
}
