// GET /health/live and /health/ready are for orchestrators and load balancers. GET /health: with a
// single model, 200 exactly when a completion can succeed now; with several, 200 while the server
// accepts work, with the state of each model. All reply at once in every state. Routes mounted by
// app.
import type { Request, RequestHandler, Response } from 'express';
import type { Engine } from '../engine/api.js';
import type { ModelState } from '../engine/pool-api.js';
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

/** 200 even while the server drains, since that is no reason to kill it. */
export const live: RequestHandler = (_req: Request, res: Response) => {
  res.set('Cache-Control', 'no-store').json({ status: 'live' });
};

/** 200 exactly when a balancer should send requests here. */
export function ready({ pool, traffic }: Gateway): RequestHandler {
  return async (_req: Request, res: Response) => {
    const states = traffic.draining ? [] : (await pool.list()).map(({ state }) => state);
    res.set('Cache-Control', 'no-store');
    // Models that are not loaded count, since the first request for one loads it.
    if (!traffic.draining && states.some(({ state }) => canServe(state, pool.sole !== undefined))) return void res.json({ status: 'ready' });
    const refuse = (status: string, error: RecuaError): void => void res.status(503).set(errorHeaders(error)).json({ status, ...errorBody(error) });
    const failed = states.find((state) => state.state === 'failed');
    if (traffic.draining || (pool.sole && pool.sole.state.state === 'closed')) refuse('stopping', new RecuaError('shutting_down', 'The server is stopping and takes no new work.'));
    else if (states.some(({ state }) => state === 'loading')) refuse('loading', new RecuaError('model_loading', 'No model is loaded yet; one is loading.'));
    else if (failed) refuse('failed', RecuaError.fromPlain(failed.error));
    else refuse('failed', new RecuaError('model_not_found', 'The server has no model that can answer.'));
  };
}

function canServe(state: ModelState['state'], isSole: boolean): boolean {
  return state === 'ready' || (!isSole && (state === 'unloaded' || state === 'sleeping' || state === 'unloading'));
}
