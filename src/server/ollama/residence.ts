// A chat without messages, or an empty prompt: Ollama's way to load a model, or with `keep_alive` 0
// to unload it. The rest of the request is checked as if it had a text, so that a misspelled name
// of the text does not load the model. Wraps the routes that generate.
import type { Request, RequestHandler, Response } from 'express';
import { Fields, isObject } from '../../request/fields.js';
import { checkUnknown, refuseNear } from '../../request/unknown-fields.js';
import { anyContext, readAdmission, residence } from '../exchange/admission.js';
import { adminOnly } from '../access/guard.js';
import { takeBody } from '../body/json-body.js';
import type { Gateway } from '../http/gateway.js';
import { refusePages } from '../access/pages.js';
import { failureOf, untilAborted } from '../http/traffic.js';
import { readChat, readGenerate } from './chat-request.js';

type Text = 'messages' | 'prompt';

export function orResidence({ poolFor, staysAnyway, traffic }: Gateway, text: Text, otherwise: RequestHandler): RequestHandler {
  return async (req: Request, res: Response, next) => {
    if (saysSomething(req.body, text)) return await otherwise(req, res, next);
    refusePages(req, res, () => undefined);
    const pool = poolFor(res);
    const { name, keepAliveMs, warnings: told } = readResidence(takeBody(req), text);
    const { id } = await pool.find(name);
    const { keepAliveMs: kept, warnings: ofStay } = residence(keepAliveMs, staysAnyway(res));
    const unloads = keepAliveMs === 0 && !pool.sole;
    const warnings = unloads ? told : [...ofStay, ...told];
    if (unloads) {
      adminOnly(req, res, () => undefined);
      const signal = traffic.enter(res, 'transfer');
      await untilAborted(pool.unload(id), signal);
    } else {
      const signal = traffic.enter(res);
      const leased = pool.lease(id, { signal, ...(kept === undefined ? {} : { keepAliveMs: kept }) });
      (await leased.catch((thrown: unknown) => { throw failureOf(thrown, signal); })).release();
    }
    const empty = text === 'messages' ? { message: { role: 'assistant', content: '' } } : { response: '' };
    res.json({ model: id, created_at: new Date().toISOString(), ...empty, done: true, done_reason: unloads ? 'unload' : 'load', ...(warnings.length > 0 ? { warnings } : {}) });
  };
}

/** Stand for the text, which the reader of the request would miss. */
const placeholder = { messages: [{ role: 'user', content: '.' }], prompt: '.' };

function readResidence(
  given: unknown,
  text: Text,
): { name: string | undefined; keepAliveMs: number | undefined; warnings: readonly string[] } {
  const body = Fields.of(isObject(given) ? { ...given, [text]: placeholder[text] } : given);
  const admission = readAdmission(body);
  const { warnings } = (text === 'messages' ? readChat : readGenerate)(body, anyContext);
  refuseNear(body, text);
  return { ...admission, warnings: [...warnings, ...checkUnknown(body)] };
}

/** Values of a wrong type count as content: the reader of the request refuses them. */
function saysSomething(body: unknown, text: Text): boolean {
  const value = isObject(body) ? body[text] : undefined;
  const isEmpty = text === 'messages' ? Array.isArray(value) && value.length === 0 : value === '';
  return value !== undefined && value !== null && !isEmpty;
}
