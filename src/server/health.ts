// GET /health: of one model 200 exactly when a completion can succeed now; of several 200 while the
// server takes work, with what each of them is at. Answers at once in every state. Route mounted by
// app.
import type { Request, RequestHandler, Response } from 'express';
import type { Engine } from '../engine/api.js';
import { RecuaError } from '../errors.js';
import { errorBody, errorHeaders } from './http/error-reply.js';
import type { Gateway } from './http/gateway.js';
import { statusOf } from './openai/models.js';

export function health(gateway: Gateway): RequestHandler {
  const { sole } = gateway.pool;
  return sole ? healthOfOne(gateway, sole) : healthOfSeveral(gateway);
}

function healthOfOne({ traffic }: Gateway, engine: Engine): RequestHandler {
  return (_req: Request, res: Response) => {
    const state = engine.state;
    const { crashes } = engine;
    const requests = traffic.total;
    res.set('Cache-Control', 'no-store');
    if (state.state === 'failed') {
      res.status(503).set(errorHeaders(state.error)).json({ status: 'error', model: 'failed', requests, crashes, ...errorBody(state.error) });
    } else if (state.state === 'closed' || traffic.draining) {
      const stopping = new RecuaError('shutting_down', 'The server is stopping and takes no new work.');
      res.status(503).json({ status: 'stopping', model: state.state === 'ready' ? 'loaded' : 'closed', running: traffic.size, requests, crashes, ...errorBody(stopping) });
    } else if (state.state === 'ready') {
      res.json({ status: 'ok', model: 'loaded', running: state.status.running, waiting: state.status.waiting, requests, crashes });
    } else {
      const loading = new RecuaError('model_loading', 'The model is loading.');
      res.status(503).set(errorHeaders(loading)).json({ status: 'loading', model: 'loading', progress: state.fraction, requests, crashes });
    }
  };
}

function healthOfSeveral({ pool, traffic }: Gateway): RequestHandler {
  return async (_req: Request, res: Response) => {
    const all = await pool.list();
    const models = Object.fromEntries(all.map(({ id, state }) => [id, statusOf(state)]));
    const numbers = { running: traffic.size, requests: traffic.total };
    res.set('Cache-Control', 'no-store');
    if (traffic.draining) {
      const stopping = new RecuaError('shutting_down', 'The server is stopping and takes no new work.');
      res.status(503).json({ status: 'stopping', models, ...numbers, ...errorBody(stopping) });
    } else {
      res.json({ status: 'ok', models, ...numbers });
    }
  };
}
