// OpenAI's batches: which path is answered by which route. Mounted by app.
import type { Request, RequestHandler } from 'express';
import { RecuaError } from '../../errors.js';
import { Fields, wrongType, wrongValue } from '../../request/fields.js';
import { takeBody } from '../body/json-body.js';
import type { Dialect } from '../exchange/dialect.js';
import { FileStore, newFileId } from '../files/file-store.js';
import { pageOf } from '../http/page.js';
import { refusePages } from '../http/pages.js';
import { Query } from '../http/query.js';
import { BatchStore, isOver, newBatchId, type Batch, type BatchRecord } from './batch-store.js';
import { Idle } from './idle.js';
import { BatchQueue } from './queue.js';
import { endpoints } from './requests.js';

/** Worked on at once, however many the engine takes: each holds its request and its answer. */
const mostLines = 8;
const usualPage = 20;
const mostPage = 100;
const maxIdLength = 256;
const unitSeconds = { h: 3_600, d: 86_400 } as const;
const longestWindowSeconds = 30 * unitSeconds.d;
const shortestKeptSeconds = 3_600;

export const batches: Dialect = {
  before: [refusePages],
  routes(gateway) {
    const store = new BatchStore(gateway.kept);
    const files = new FileStore(gateway.kept);
    const queue = new BatchQueue({ gateway, store, files, idle: new Idle(gateway.traffic, Math.min(gateway.config.parallel, mostLines)) });
    if (gateway.kept.has('batches')) queue.resume().catch((thrown: unknown) => gateway.log('debug', `Batches do not go on: ${RecuaError.from(thrown).message}`));
    const find = async (id: string): Promise<BatchRecord> => queue.find(id) ?? await store.get(id);
    const idOf = (req: Request): string => String(req.params['id']);

    const create: RequestHandler = async (req, res) => {
      const record = readBatch(Fields.of(takeBody(req)));
      const { id, input_file_id: input } = record.batch;
      if (queue.isFull) throw new RecuaError('queue_full', 'Too many batches wait; come again when some have ended, or cancel some.');
      await files.get(input, 'input_file_id');
      await store.forgetOldest();
      await store.takeInput(id, await files.pathOf(input));
      await store.put(record);
      // As it was taken: by the time this is read it may have begun.
      const taken = structuredClone(record.batch);
      queue.add(id);
      res.json(taken);
    };
    return [
      {
        method: 'post', paths: ['/v1/batches', '/batches'], handler: create,
        also: { method: 'get', handler: async (req, res) => {
          const all = (await store.list()).map(({ batch }) => queue.find(batch.id)?.batch ?? batch);
          res.json(pageOf(all, new Query(req), usualPage, mostPage));
        } },
      },
      { method: 'get', paths: ['/v1/batches/:id', '/batches/:id'], handler: async (req, res) => void res.json((await find(idOf(req))).batch) },
      {
        method: 'post', paths: ['/v1/batches/:id/cancel', '/batches/:id/cancel'], bodiless: true,
        async handler(req, res) {
          const record = await find(idOf(req));
          if (isOver(record.batch)) throw new RecuaError('invalid_value', `The batch ${record.batch.id} has ended: it is ${record.batch.status}.`);
          res.json((await queue.cancel(record)).batch);
        },
      },
    ];
  },
};

function readBatch(body: Fields): BatchRecord {
  const endpoint = body.word('endpoint', endpoints);
  if (endpoint === undefined) throw wrongType('endpoint', `one of ${endpoints.join(', ')}`, undefined);
  const created = Math.floor(Date.now() / 1_000);
  const [window, seconds] = readWindow(body);
  const batch: Batch = {
    id: newBatchId(), object: 'batch', endpoint, errors: null, input_file_id: body.name('input_file_id', maxIdLength), completion_window: window,
    status: 'validating', output_file_id: null, error_file_id: null, created_at: created, in_progress_at: null, expires_at: created + seconds,
    finalizing_at: null, completed_at: null, failed_at: null, expired_at: null, cancelling_at: null, cancelled_at: null,
    request_counts: { total: 0, completed: 0, failed: 0 }, metadata: body.object('metadata') ?? null,
  };
  const kept = body.fields('output_expires_after');
  kept?.word('anchor', ['created_at']);
  return { batch, outputId: newFileId(), errorId: newFileId(), outputSeconds: kept?.integer('seconds', { min: shortestKeptSeconds, max: longestWindowSeconds }) };
}

/** OpenAI has "24h" alone; what nobody is charged for may take longer. */
function readWindow(body: Fields): [text: string, seconds: number] {
  const text = body.string('completion_window');
  const [, amount = '', unit] = /^(\d{1,4})([hd])$/.exec(text ?? '') ?? [];
  const seconds = Number(amount) * unitSeconds[unit as 'h' | 'd'];
  if (text === undefined || !(seconds >= 1 && seconds <= longestWindowSeconds)) throw wrongValue('completion_window', 'a time such as "24h" or "7d", up to "30d"', text);
  return [text, seconds];
}
