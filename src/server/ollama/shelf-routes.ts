// POST /api/pull and /api/copy, DELETE /api/delete. They change which models are on this machine,
// so only clients on it may use them.
import type { Request, RequestHandler, Response } from 'express';
import { RecuaError } from '../../errors.js';
import { wrongType, type Fields } from '../../request/fields.js';
import { maxModelName, readAll, readModelName } from '../exchange/admission.js';
import { logError } from '../http/error-reply.js';
import type { Gateway } from '../http/gateway.js';
import { keyOf } from '../access/guard.js';
import { refusePages, refuseRemote } from '../access/pages.js';
import type { ModelShelf, Pull, PulledFile } from '../http/shelf.js';
import { ndjson, Stream } from '../http/stream.js';
import { failureOf } from '../http/traffic.js';
import { errorBody } from './error-body.js';
import { withoutLatest } from './names.js';

/** Between two lines of progress. */
const lineMs = 100;

export function shelfRoutes(gateway: Gateway): Record<'pull' | 'copy' | 'remove', RequestHandler> {
  const guarded =
    <Asked>(
      read: (body: Fields) => Asked,
      handler: (asked: Asked, shelf: ModelShelf, res: Response, told: object) => Promise<void>,
    ): RequestHandler =>
      async (req: Request, res: Response) => {
        refusePages(req, res, () => undefined);
        refuseRemote(req, res, () => undefined);
        if (!gateway.shelf)
          throw new RecuaError('model_fixed', 'This server has the models of its program; requests can neither pull, copy nor delete them.');
        const { asked, told } = readAll(req, read);
        await handler(asked, gateway.shelf, res, told);
      };
  return {
    pull: guarded(readPull, async ({ name, stream }, shelf, res, told) => {
      const signal = gateway.traffic.enter(res, 'transfer');
      const pull = await shelf.open(name, signal).catch((thrown: unknown) => { throw failureOf(thrown, signal); });
      if (stream) return await tell(gateway, pull, res, signal);
      await pull.run(() => undefined).catch((thrown: unknown) => { throw failureOf(thrown, signal); });
      res.json({ status: 'success', ...told });
    }),
    copy: guarded(readCopy, async ({ source, destination }, shelf, res) => {
      await mayUse(gateway, res, source);
      await shelf.copy(source, destination);
      res.status(200).end();
    }),
    remove: guarded(readRemove, async (name, shelf, res) => {
      await mayUse(gateway, res, name);
      await shelf.remove(name, async (models) => {
        for (const model of models) {
          await mayUse(gateway, res, model);
          await unload(gateway, model);
        }
      });
      res.status(200).end();
    }),
  };
}

async function tell({ config, log }: Gateway, pull: Pull, res: Response, signal: AbortSignal): Promise<void> {
  const stream = new Stream(res, ndjson);
  let line: object = { status: 'pulling manifest' };
  stream.open({ afterMs: config.pingIntervalMs, frame: () => ({ data: line }) });
  const send = (next: object): void => stream.send({ data: (line = next) });
  send(line);
  const tellOf = ({ digest, totalBytes }: PulledFile, doneBytes: number): void => {
    send({ status: `pulling ${digest.replace(/^.*:/, '').slice(0, 12)}`, digest, total: totalBytes, completed: doneBytes });
  };
  // So that a client knows the size of all.
  if (pull.files.length > 1) for (const file of pull.files) tellOf(file, 0);
  let toldMs = -Infinity;
  try {
    await pull.run((file, doneBytes) => {
      const nowMs = performance.now();
      const isWhole = doneBytes >= file.totalBytes;
      if (!isWhole && nowMs - toldMs < lineMs) return;
      toldMs = nowMs;
      tellOf(file, doneBytes);
    }, (status) => send({ status }));
    for (const status of ['verifying sha256 digest', 'writing manifest', 'success']) send({ status });
  } catch (thrown) {
    const error = failureOf(thrown, signal);
    logError(log, res, error);
    send(errorBody(error));
  }
  stream.end();
}

/** Refuses a key that is limited to other models. */
async function mayUse({ poolFor }: Gateway, res: Response, name: string): Promise<void> {
  if (keyOf(res)?.models) await poolFor(res).find(name);
}

/** Unloads the model before it is deleted, except on a server with a single model. */
async function unload({ pool }: Gateway, name: string): Promise<void> {
  if (pool.sole) return;
  const model = await pool.find(name).catch(() => undefined);
  if (model && model.state.state !== 'unloaded') await pool.unload(model.id).catch(() => undefined);
}

export function readPull(body: Fields): { name: string; stream: boolean } {
  body.allow('insecure');
  return { stream: body.boolean('stream') ?? true, name: readRemove(body) };
}

export function readCopy(body: Fields): { source: string; destination: string } {
  return { source: withoutLatest(body.name('source', maxModelName)), destination: withoutLatest(body.name('destination', maxModelName)) };
}

/** The name of a model. */
export function readRemove(body: Fields): string {
  const name = readModelName(body) ?? readModelName(body, 'name');
  if (!name) throw wrongType('model', 'the name of a model', name);
  return withoutLatest(name);
}
