// A chat without messages, or an empty prompt: Ollama's way to load a model, or with `keep_alive` 0
// to unload it. Wraps the routes that generate.
import type { Request, RequestHandler, Response } from 'express';
import { Fields, isObject } from '../../request/fields.js';
import { readAdmission, residence } from '../exchange/admission.js';
import { adminOnly } from '../access/guard.js';
import { takeBody } from '../body/json-body.js';
import type { Gateway } from '../http/gateway.js';
import { refusePages } from '../access/pages.js';

export function orResidence({ poolFor, staysAnyway, traffic }: Gateway, text: 'messages' | 'prompt', otherwise: RequestHandler): RequestHandler {
  return async (req: Request, res: Response, next) => {
    if (saysSomething(req.body, text)) return await otherwise(req, res, next);
    refusePages(req, res, () => undefined);
    const pool = poolFor(res);
    const { name, keepAliveMs } = readAdmission(Fields.of(takeBody(req)));
    const { id } = await pool.find(name);
    const { keepAliveMs: kept, warnings } = residence(keepAliveMs, staysAnyway(res));
    const unloads = keepAliveMs === 0 && !pool.sole;
    if (unloads) {
      adminOnly(req, res, () => undefined);
      await pool.unload(id);
    } else {
      const signal = traffic.enter(res);
      (await pool.lease(id, { signal, ...(kept === undefined ? {} : { keepAliveMs: kept }) })).release();
    }
    const empty = text === 'messages' ? { message: { role: 'assistant', content: '' } } : { response: '' };
    res.json({ model: id, created_at: new Date().toISOString(), ...empty, done: true, done_reason: unloads ? 'unload' : 'load', ...(warnings.length > 0 && !unloads ? { warnings } : {}) });
  };
}

/** Values of a wrong type count as content: the reader of the request refuses them. */
function saysSomething(body: unknown, text: 'messages' | 'prompt'): boolean {
  const value = isObject(body) ? body[text] : undefined;
  const isEmpty = text === 'messages' ? Array.isArray(value) && value.length === 0 : value === '';
  return value !== undefined && value !== null && !isEmpty;
}
