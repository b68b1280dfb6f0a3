// Responses that are there: shown, streamed once more, listed by their input, cancelled, deleted.
import type { Request, RequestHandler, Response } from 'express';
import { RecuaError } from '../../errors.js';
import { lifeOf } from '../../system/process-identity.js';
import { sse, Stream } from '../http/stream.js';
import { pageOf } from '../http/page.js';
import { Query } from '../http/query.js';
import { streamRun, type Places } from './create.js';
import { replay } from './replay.js';
import type { StoredResponse, WireResponse } from './store.js';

const mostPage = 100;
const usualPage = 20;

export function showStored(places: Places): RequestHandler {
  return async (req: Request, res: Response) => {
    const id = String(req.params['id']);
    const query = new Query(req);
    const after = query.integer('starting_after', 0, Number.MAX_SAFE_INTEGER);
    const run = places.runs.find(id, places.gateway.ownerOf(res));
    if (query.boolean('stream') ?? false) {
      if (run) return await streamRun(places.gateway, res, run, after === undefined ? 0 : after + 1);
      const stored = await find(places, res, id);
      if (isUnfinished(stored.response)) throw new RecuaError('invalid_value', `The response ${id} is being made by another server; its stream is there.`, { param: 'stream' });
      const stream = new Stream(res, sse);
      stream.open({ afterMs: 0, frame: () => ({ data: '' }) });
      stream.send(...replay(stored, after));
      return stream.end();
    }
    if (after !== undefined) throw new RecuaError('invalid_value', 'starting_after is for a stream: ask with stream=true, too.', { param: 'starting_after' });
    res.json(run ? run.now : (await find(places, res, id)).response);
  };
}

export function inputItems(places: Places): RequestHandler {
  return async (req: Request, res: Response) => {
    const query = new Query(req);
    const order = query.word('order', ['asc', 'desc']) ?? 'desc';
    const id = String(req.params['id']);
    const { input } = places.runs.find(id, places.gateway.ownerOf(res)) ?? await find(places, res, id);
    const all = order === 'asc' ? [...input] : [...input].reverse();
    res.json(pageOf(all, query, usualPage, mostPage));
  };
}

export function cancelStored(places: Places): RequestHandler {
  return async (req: Request, res: Response) => {
    const id = String(req.params['id']);
    const run = places.runs.find(id, places.gateway.ownerOf(res));
    if (run) {
      if (!run.ended) run.cancel();
      await run.over();
      return void res.json(run.now);
    }
    const { response } = await find(places, res, id);
    if (!response.background) throw new RecuaError('invalid_value', `The response ${id} was not made in the background; only those can be cancelled.`);
    if (isUnfinished(response)) throw new RecuaError('invalid_value', `The response ${id} is being made by another server; only that can cancel it.`);
    res.json(response);
  };
}

export function removeStored({ store, runs, gateway }: Places): RequestHandler {
  return async (req: Request, res: Response) => {
    const id = String(req.params['id']);
    const owner = gateway.ownerOf(res);
    const run = runs.find(id, owner);
    if (run && !run.ended) run.cancel();
    await run?.over();
    if (run) runs.drop(id);
    res.json(await store.remove(id, owner));
  };
}

function isUnfinished({ status }: WireResponse): boolean {
  return status === 'queued' || status === 'in_progress';
}

/** One that was being made when its server ended has failed. */
async function find({ store, gateway }: Places, res: Response, id: string): Promise<StoredResponse> {
  const stored = await store.get(id, gateway.ownerOf(res));
  if (!isUnfinished(stored.response) || (stored.owner && await lifeOf(stored.owner) !== 'dead')) return stored;
  const error = { code: 'shutting_down', message: 'The server ended before the response was complete.' };
  const failed: StoredResponse = { ...stored, response: { ...stored.response, status: 'failed', error }, owner: undefined };
  await store.put(failed);
  return failed;
}
