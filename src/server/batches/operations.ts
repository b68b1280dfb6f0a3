// The reference entries of the batch routes. Mounted with the routes by dialect.
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
    input_file_id: 'An uploaded file with one request per line, at most 50,000: `{"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": {…}}`.',
    endpoint: 'The route of all requests in the file.',
    completion_window: 'How long the batch may take, such as `24h`; at most `30d`.',
    metadata: 'Echoed in the batch: up to 16 pairs of strings.',
    output_expires_after: 'How long to keep the output files. If omitted, until they are deleted.',
    'output_expires_after.anchor': { text: '`created_at`.', default: 'created_at' },
    'output_expires_after.seconds': 'Seconds from the creation of each file.',
  },
};

const batch = named(
  'Batch',
  object({
    id: text,
    object: 'batch',
    endpoint: text,
    errors: nullable(
      object({ object: 'list', data: list(object({ code: text, line: nullable(integer), message: text, param: nullable(text) })) }),
    ),
    input_file_id: text,
    completion_window: text,
    status: words('validating', 'failed', 'in_progress', 'finalizing', 'completed', 'expired', 'cancelling', 'cancelled'),
    output_file_id: told(nullable(text), 'File of answers, one per line.'),
    error_file_id: told(nullable(text), 'File of the requests that failed, one per line.'),
    created_at: integer,
    in_progress_at: at('When it started, in seconds since 1970.'),
    expires_at: integer,
    finalizing_at: nullable(integer),
    completed_at: nullable(integer),
    failed_at: nullable(integer),
    expired_at: nullable(integer),
    cancelling_at: nullable(integer),
    cancelled_at: nullable(integer),
    request_counts: object({ total: integer, completed: integer, failed: integer }),
    metadata: nullable(mapOf(anything)),
  }),
);

const params = { id: 'Id of the batch.' };

export const operations = {
  create: { id: 'createBatch', topic, summary: 'Answer the requests of a file while the server is otherwise idle.', body, reply: { schema: batch }, error, errors: ['unknown_parameter', 'file_not_found', 'queue_full', 'disk_full', 'store_unwritable'] },
  list: { id: 'listBatches', topic, summary: 'List the batches, newest first.', query: pageQuery(20, 100), reply: { schema: pageOf('BatchList', batch) }, error, errors: ['invalid_value', 'invalid_type', 'store_unwritable'] },
  get: { id: 'retrieveBatch', topic, summary: 'Get the state of a batch.', params, reply: { schema: batch }, error, errors: ['batch_not_found', 'store_unwritable'] },
  cancel: { id: 'cancelBatch', topic, summary: 'Cancel a batch; the answers so far are kept.', params, reply: { schema: batch }, error, errors: ['batch_not_found', 'invalid_value', 'disk_full', 'store_unwritable'] },
} as const satisfies Record<string, Operation>;
