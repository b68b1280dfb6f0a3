// What the routes of batches say of themselves. Mounted with them by dialect.
import { errorResponse as error } from '../reference/errors.js';
import type { Body, Operation } from '../reference/operation.js';
import { pageOf, pageQuery } from '../reference/shapes.js';
import { anything, integer, list, mapOf, named, nullable, object, text, told, words, type Schema } from '../reference/schema.js';
import { readBatch } from './batch-request.js';

const topic = 'Files and batches';
const at = (what: string): Schema => told(nullable(integer), what);

const body: Body = {
  name: 'CreateBatchRequest',
  read: readBatch,
  examples: [{ input_file_id: 'file-0123', endpoint: '/v1/chat/completions', completion_window: '24h' }, { input_file_id: 'a', endpoint: '/v1/embeddings', completion_window: '1h', output_expires_after: {} }],
  words: {
    input_file_id: 'An uploaded file: a request in each line, `{"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": {…}}`.',
    endpoint: 'The route that all of them ask.',
    completion_window: 'How long it may take: `24h`, up to `30d`.',
    metadata: 'Repeated in the batch.',
    output_expires_after: 'How long the files of answers are kept. Without it, until they are deleted.',
    'output_expires_after.anchor': { text: '`created_at`.', default: 'created_at' },
    'output_expires_after.seconds': 'From then on.',
  },
};

const batch = named('Batch', object({
  id: text, object: 'batch', endpoint: text,
  errors: nullable(object({ object: 'list', data: list(object({ code: text, line: nullable(integer), message: text, param: nullable(text) })) })),
  input_file_id: text, completion_window: text,
  status: words('validating', 'failed', 'in_progress', 'finalizing', 'completed', 'expired', 'cancelling', 'cancelled'),
  output_file_id: told(nullable(text), 'The answers, a line each.'), error_file_id: told(nullable(text), 'What became of the other lines.'),
  created_at: integer, in_progress_at: at('When it began, in seconds since 1970.'), expires_at: integer,
  finalizing_at: nullable(integer), completed_at: nullable(integer), failed_at: nullable(integer), expired_at: nullable(integer), cancelling_at: nullable(integer), cancelled_at: nullable(integer),
  request_counts: object({ total: integer, completed: integer, failed: integer }),
  metadata: nullable(mapOf(anything)),
}));

const params = { id: 'Of the batch.' };
const pages = 'client_refused';

export const operations = {
  create: { id: 'createBatch', topic, summary: 'Answer the requests of a file while nobody else asks.', body, reply: { schema: batch }, error, errors: [pages, 'file_not_found', 'queue_full', 'disk_full', 'store_unwritable'] },
  list: { id: 'listBatches', topic, summary: 'The batches, the newest first.', query: pageQuery(20, 100), reply: { schema: pageOf('BatchList', batch) }, error, errors: [pages, 'invalid_value', 'invalid_type', 'store_unwritable'] },
  get: { id: 'retrieveBatch', topic, summary: 'What a batch is at.', params, reply: { schema: batch }, error, errors: [pages, 'batch_not_found', 'store_unwritable'] },
  cancel: { id: 'cancelBatch', topic, summary: 'End a batch; what was answered stays.', params, reply: { schema: batch }, error, errors: [pages, 'batch_not_found', 'invalid_value', 'store_unwritable'] },
} as const satisfies Record<string, Operation>;
