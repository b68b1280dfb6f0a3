// Polls a model's state while a request to load or unload it is under way, because that request is
// answered only at the end. Called by load and unload.
import { setTimeout as wait } from 'node:timers/promises';
import { modelOf } from './served-model.js';
import type { ServedModel } from './served-model.js';
import type { ServerClient } from './server-client.js';

const pollMs = 250;

/** Shows the model's state until `work` settles; settles like `work`. */
export async function watchModel<T>(client: ServerClient, name: string, work: Promise<T>, show: (model: ServedModel) => void): Promise<T> {
  const done = new AbortController();
  const settled = work.finally(() => done.abort());
  // Awaited below.
  settled.catch(() => undefined);
  while (!done.signal.aborted) {
    await wait(pollMs, undefined, { signal: done.signal }).catch(() => undefined);
    if (done.signal.aborted) break;
    // The request itself reports what is wrong.
    const model = await modelOf(client, name).catch(() => undefined);
    if (model && !done.signal.aborted) show(model);
  }
  return await settled;
}
