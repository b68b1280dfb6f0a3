// In a full queue, the client with the most requests gives up its last one to a client with fewer.
// Used by the queues of generating requests, of embeddings, of models that are to be loaded, and of
// an engine process that comes back.
import { RecuaError } from '../errors.js';

/**
 * The client that gives way to another request of `client`: the one with the most requests, if it
 * has at least two more. `counts`: waiting requests by client. Undefined: the queue stays full.
 */
export function whoGivesWay(counts: ReadonlyMap<string, number>, client: string): string | undefined {
  const [greediest, most] = [...counts].reduce((best, one) => (one[1] > best[1] ? one : best), ['', 0]);
  return most < (counts.get(client) ?? 0) + 2 ? undefined : greediest;
}

/** How many requests each client has. */
export function counted(requests: readonly { client: string }[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { client } of requests) counts.set(client, (counts.get(client) ?? 0) + 1);
  return counts;
}

export function gaveWay(): RecuaError {
  return new RecuaError('queue_full', 'The queue is full, and this request gave its place to a client with fewer requests; try again in a moment.');
}
