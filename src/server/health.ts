// GET /health/live and /health/ready are for orchestrators and load balancers. GET /health: with a
// single model, 200 exactly when a completion can begin now; with several, 200 while the server
// accepts work, with the state of each model. All reply at once in every state. Routes mounted by
// app.
import { setTimeout as wait } from 'node:timers/promises';
import type { Request, RequestHandler, Response } from 'express';
import type { Engine } from '../engine/api.js';
import type { ModelPool, ModelState, PoolModel } from '../engine/pool-api.js';
import { RecuaError } from '../errors.js';
import { isStranger } from './access/guard.js';
import { rounds } from './body/rounds.js';
import { errorBody, errorHeaders } from './http/error-reply.js';
import type { Gateway } from './http/gateway.js';
import { stopping } from './http/traffic.js';
import { statusOf } from './openai/models.js';

/** A pool reads a model's file before it says whether it is tried again. */
const betweenRetriesMs = 2_000;
const longestTryMs = 30_000;

export function health(gateway: Gateway): RequestHandler {
  const { sole } = gateway.pool;
  return sole ? healthOfOne(gateway, sole) : healthOfSeveral(gateway);
}

function healthOfOne({ traffic, pool }: Gateway, engine: Engine): RequestHandler {
  return async (_req: Request, res: Response) => {
    const [only] = await pool.list();
    const state = engine.state;
    const { crashes } = engine;
    const requests = traffic.total;
    res.set('Cache-Control', 'no-store');
    if (state.state === 'failed') {
      const error = tellable(state.error, only!, res);
      res.status(503).set(errorHeaders(error)).json({ status: 'error', model: 'failed', requests, crashes, ...errorBody(error) });
    } else if (state.state === 'closed' || traffic.draining) {
      res.status(503).json({ status: 'stopping', model: state.state === 'ready' ? 'loaded' : 'closed', running: traffic.size, requests, crashes, ...errorBody(stopping()) });
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
    await rounds.next();
    const models = Object.fromEntries(all.map((model) => [model.id, statusOf(tellableState(model, res))]));
    const crashes = all.reduce((sum, model) => sum + model.crashes, 0);
    const numbers = { running: traffic.size, requests: traffic.total, crashes };
    res.set('Cache-Control', 'no-store');
    if (traffic.draining) {
      res.status(503).json({ status: 'stopping', models, ...numbers, ...errorBody(stopping()) });
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
export function ready({ pool, traffic, isStarting }: Gateway): RequestHandler {
  const tryAgain = retries(pool);
  // At the start, the models that are loaded then may push each other out.
  let wasReady = false;
  return async (_req: Request, res: Response) => {
    traffic.probers.note(`${res.req.socket.remoteAddress ?? ''} ${res.req.get('user-agent') ?? ''}`);
    const isStopping = traffic.draining || traffic.probers.isLeaving;
    const models = isStopping ? [] : await pool.list();
    const states = models.map((model) => tellableState(model, res));
    res.set('Cache-Control', 'no-store');
    const starts = isStarting() && !wasReady;
    // After the start, models that are not loaded count, since the first request for one loads it.
    // Models that take turns are loaded again and again, and requests wait meanwhile.
    const comes = ({ state: { state }, hasFailed }: PoolModel): boolean => state === 'loading' && !pool.sole && !starts && !hasFailed;
    const serves = ({ state: { state } }: PoolModel): boolean => state === 'loaded' || (!pool.sole && !starts && isLoadable.has(state));
    const isReady = models.some((model) => serves(model) || comes(model));
    wasReady ||= isReady;
    if (isReady) return void res.json({ status: 'ready' });
    const refuse = (status: string, error: RecuaError): void =>
      void res
        .status(503)
        .set(errorHeaders(error))
        .json({ status, ...errorBody(error) });
    const failed = states.find((state) => state.state === 'failed');
    if (failed && !pool.sole && !starts) tryAgain(models);
    if (isStopping || (pool.sole && pool.sole.state.state === 'closed')) refuse('stopping', stopping());
    else if (states.some(({ state }) => state === 'loading' || (starts && isLoadable.has(state)))) refuse('loading', new RecuaError('model_loading', 'No model is loaded yet.'));
    else if (failed) refuse('failed', RecuaError.fromPlain(failed.error));
    else refuse('failed', new RecuaError('model_not_found', 'The server has no model that can answer.'));
  };
}

/**
 * A pool tries a failed model again at the next request after a pause. A balancer sends none before
 * this server is ready, so its question counts as one.
 */
function retries(pool: Pick<ModelPool, 'lease'>): (models: readonly PoolModel[]) => void {
  let isTrying = false;
  return (models) => {
    if (isTrying) return;
    isTrying = true;
    const found = new AbortController();
    const tries = models.filter(({ state }) => state.state === 'failed').map(async ({ id }) => {
      const lease = await pool.lease(id, { signal: found.signal });
      lease.release();
      // One is enough: others would only push it out.
      found.abort();
    });
    // A load may hang: then others go first, and it goes on if there is room.
    void Promise.race([Promise.allSettled(tries), wait(longestTryMs, undefined, { ref: false }).then(() => found.abort())])
      .then(() => wait(betweenRetriesMs, undefined, { ref: false })).then(() => (isTrying = false));
  };
}

/** The next request loads a model in one of these states. */
const isLoadable: ReadonlySet<ModelState['state']> = new Set(['unloaded', 'sleeping', 'unloading']);

/** The state of a model, with what this client may know about it. */
function tellableState(model: PoolModel, res: Response): ModelState {
  const { state } = model;
  return state.state === 'failed' ? { ...state, error: tellable(RecuaError.fromPlain(state.error), model, res) } : state;
}

/** Why a model cannot be used holds paths and the file's words, which are not for everybody. */
function tellable(error: RecuaError, { id }: PoolModel, res: Response): RecuaError {
  return isStranger(res) ? new RecuaError(error.code, `The model ${id} cannot be loaded; the server's log says why, and so does this route with an API key.`) : error;
}
