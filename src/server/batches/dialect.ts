// OpenAI's batches: maps paths to routes. Mounted by app.
import type { Request, RequestHandler, Response } from 'express';
import { RecuaError } from '../../errors.js';
import { ownIdentity } from '../../system/process-identity.js';
import { readAll } from '../exchange/admission.js';
import type { Dialect } from '../exchange/dialect.js';
import { fileNotFound, filesOf } from '../files/file-store.js';
import { refusePages } from '../access/pages.js';
import { pageOf, Query } from '../http/query.js';
import { readBatch } from './batch-request.js';
import { BatchStore, isOver, notFound, type BatchRecord } from './batch-store.js';
import { Idle } from './idle.js';
import { LineCounts } from './line-counts.js';
import { operations as about } from './operations.js';
import { BatchQueue } from './queue.js';

/** Most concurrent lines, since each holds its request and its answer in memory. */
const mostLines = 8;
const usualPage = 20;
const mostPage = 100;

export const batches: Dialect = {
  before: [refusePages],
  routes(gateway) {
    const store = new BatchStore(gateway.kept, undefined, (text) => gateway.log('warn', text));
    const files = filesOf(gateway);
    const counts = new LineCounts();
    const idle = new Idle(gateway.traffic, Math.min(gateway.config.parallel, mostLines), undefined, gateway.pool);
    const queue = new BatchQueue({ gateway, store, files, idle });
    if (gateway.kept.has('batches')) queue.resume().catch((thrown: unknown) => gateway.log('warn', `Batches cannot be resumed: ${RecuaError.logText(thrown)}`));
    const shown = async (record: BatchRecord): Promise<BatchRecord> => {
      const working = queue.find(record.batch.id);
      if (working) return working;
      queue.notice(record);
      await store.heedCancelMark(record);
      if (!isOver(record.batch) && record.batch.in_progress_at !== null) await counts.countDone(record, files);
      return record;
    };
    const find = async (req: Request, res: Response): Promise<BatchRecord> => {
      const id = String(req.params['id']);
      const record = queue.find(id) ?? await store.get(id);
      if (!gateway.ownerOf(res).has(record.by)) throw notFound(id);
      return await shown(record);
    };

    const create: RequestHandler = async (req, res) => {
      const owner = gateway.ownerOf(res);
      const { asked, told } = readAll(req, readBatch);
      const server = await ownIdentity().catch(() => undefined);
      const record: BatchRecord = { ...asked, ...(owner.name === undefined ? {} : { by: owner.name }), ...(server && { server }) };
      const { id, input_file_id: input } = record.batch;
      const giveUpPlace = queue.place(owner.name);
      try {
        const param = 'input_file_id';
        await (await files.open(await files.get(input, owner, param), param)).close();
        await store.forgetOldest();
        if (!await store.takeInput(id, await files.pathOf(input))) throw fileNotFound(input, param);
        await store.put(record).catch(async (thrown: unknown) => {
          await store.dropInput(id);
          throw thrown;
        });
        // A snapshot, since the batch may start before the reply is written.
        const taken = structuredClone(record.batch);
        queue.add(id, owner.name);
        res.json({ ...taken, ...told });
      } finally {
        giveUpPlace();
      }
    };
    return [
      {
        method: 'post', paths: ['/v1/batches', '/batches'], about: about.create, handler: create,
        also: { method: 'get', about: about.list, handler: async (req, res) => {
          const all = (await Promise.all((await store.list(gateway.ownerOf(res))).map(shown))).map(({ batch }) => batch);
          res.json(pageOf(all, new Query(req), usualPage, mostPage));
        } },
      },
      { method: 'get', paths: ['/v1/batches/:id', '/batches/:id'], about: about.get, handler: async (req, res) => void res.json((await find(req, res)).batch) },
      {
        method: 'post', paths: ['/v1/batches/:id/cancel', '/batches/:id/cancel'], about: about.cancel, bodiless: true, endsWork: true,
        async handler(req, res) {
          const record = await find(req, res);
          if (isOver(record.batch)) throw new RecuaError('invalid_value', `The batch ${record.batch.id} has ended: it is ${record.batch.status}.`);
          res.json((await queue.cancel(record)).batch);
        },
      },
    ];
  },
};
