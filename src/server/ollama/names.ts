// Names as Ollama's clients write them: some add `:latest` to a name without a tag. Wraps the
// routes that take a model.
import type { Request, RequestHandler, Response } from 'express';
import { isObject } from '../../request/fields.js';
import { maxModelName } from '../exchange/admission.js';
import type { Gateway } from '../http/gateway.js';

const latest = ':latest';

export function named({ pool }: Pick<Gateway, 'pool'>, handler: RequestHandler): RequestHandler {
  return async (req: Request, res: Response, next) => {
    const body: unknown = req.body;
    if (isObject(body)) {
      for (const field of ['model', 'name']) {
        const name = Object.hasOwn(body, field) ? body[field] : undefined;
        // One that is too long is refused with the other fields.
        if (typeof name !== 'string' || !name.endsWith(latest) || name.length > maxModelName) continue;
        // A model may really have this name.
        if (!await pool.find(name).then(() => true, () => false)) body[field] = withoutLatest(name);
      }
    }
    await handler(req, res, next);
  };
}

export function withoutLatest(name: string): string {
  return name.endsWith(latest) ? name.slice(0, -latest.length) : name;
}
