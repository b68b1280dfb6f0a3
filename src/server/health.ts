// GET /health: 200 exactly when a completion can succeed now. Answers at once in every state, since it asks nobody.
// Route mounted by app.
import type { Request, RequestHandler, Response } from 'express';
import { RecuaError } from '../errors.js';
import { errorBody, errorHeaders } from './http/error-reply.js';
import type { Gateway } from './http/gateway.js';

export function health({ engine, traffic }: Gateway): RequestHandler {
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
