// What becomes of a model while a request to load or unload it is under way: asked for again and
// again, since the answer comes when all is done. Called by load and unload.
import { setTimeout as wait } from 'node:timers/promises';
import { modelOf } from './served-model.js';
import type { ServedModel } from './served-model.js';
import type { ServerClient } from './server-client.js';

const pollMs = 250;

/** Shows the model's state until `work` is settled, as whose promise it settles. */
export async function watchModel<T>(client: ServerClient, name: string, work: Promise<T>, show: (model: ServedModel) => void): Promise<T> {
  const done = new AbortController();
  const settled = work.finally(() => done.abort());
  // Awaited below.
  settled.catch(() => undefined);
  while (!done.signal.aborted) {
    await wait(pollMs, undefined, { signal: done.signal }).catch(() => undefined);
    if (done.signal.aborted) break;
    // Who asks is told by the request itself what is wrong.
    const model = await modelOf(client, name).catch(() => undefined);
    if (model && !done.signal.aborted) show(model);
  }
  return await settled;
}
