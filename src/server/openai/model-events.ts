// GET /models/sse: an event for each change of a model's state from now on, in llama-server's
// format. Route mounted by app. A stop of the server ends these streams.
import type { Request, RequestHandler, Response } from 'express';
import type { PoolModel } from '../../engine/pool-api.js';
import type { Gateway } from '../http/gateway.js';
import { Stream } from '../http/stream.js';
import { statusOf } from './models.js';

export function modelEvents({ poolFor, config, traffic }: Gateway): RequestHandler {
  const open = new Set<Stream>();
  traffic.onDrain(() => {
    for (const events of open) events.end();
  });
  return (_req: Request, res: Response) => {
    traffic.admit();
    const events = new Stream(res);
    events.open({ afterMs: config.pingIntervalMs, frame: () => ({ data: { model: '*', event: 'ping' } }) });
    /**
     * The latest change of each model, while the client is slow. Changes in between may be skipped.
     */
    const changed = new Map<string, PoolModel>();
    let sending = false;
    const send = async (): Promise<void> => {
      if (sending) return;
      sending = true;
      for (let next = first(changed); next; next = first(changed)) {
        changed.delete(next.id);
        events.send({ data: changeEvent(next) });
        await events.writable();
      }
      sending = false;
    };
    const stop = poolFor(res).onChange((model) => {
      changed.set(model.id, model);
      void send();
    });
    open.add(events);
    res.once('close', () => {
      open.delete(events);
      stop();
    });
  };
}

function first(changed: ReadonlyMap<string, PoolModel>): PoolModel | undefined {
  return changed.values().next().value;
}

function changeEvent({ id, state }: PoolModel): object {
  const { value, fraction, reason } = statusOf(state);
  return {
    model: id,
    event: 'status_change',
    data: { status: value, ...(fraction === undefined ? {} : { progress: fraction }), ...(reason ? { error: reason } : {}) },
  };
}
