// Parses and checks the body of POST /v1/batches → the record of a batch. Called by dialect.
import { readMetadata } from '../../request/metadata.js';
import { wrongType, wrongValue, type Fields } from '../../request/fields.js';
import { newFileId } from '../files/file-store.js';
import { newBatchId, type Batch, type BatchRecord } from './batch-store.js';
import { endpoints } from './requests.js';

const maxIdLength = 256;
const unitSeconds = { h: 3_600, d: 86_400 } as const;
const longestWindowSeconds = 30 * unitSeconds.d;
const shortestKeptSeconds = 3_600;

export function readBatch(body: Fields): BatchRecord {
  const endpoint = body.word('endpoint', endpoints);
  if (endpoint === undefined) throw wrongType('endpoint', `one of ${endpoints.join(', ')}`, undefined);
  const created = Math.floor(Date.now() / 1_000);
  const [window, seconds] = readWindow(body);
  const batch: Batch = {
    id: newBatchId(), object: 'batch', endpoint, errors: null, input_file_id: body.name('input_file_id', maxIdLength), completion_window: window,
    status: 'validating', output_file_id: null, error_file_id: null, created_at: created, in_progress_at: null, expires_at: created + seconds,
    finalizing_at: null, completed_at: null, failed_at: null, expired_at: null, cancelling_at: null, cancelled_at: null,
    request_counts: { total: 0, completed: 0, failed: 0 }, metadata: readMetadata(body) ?? null,
  };
  const kept = body.fields('output_expires_after');
  kept?.word('anchor', ['created_at']);
  return { batch, outputId: newFileId(), errorId: newFileId(), outputSeconds: kept?.integer('seconds', { min: shortestKeptSeconds, max: longestWindowSeconds }) };
}

/** OpenAI only accepts "24h"; here a batch may take longer. */
function readWindow(body: Fields): [text: string, seconds: number] {
  const text = body.string('completion_window');
  const [, amount = '', unit] = /^(\d{1,4})([hd])$/.exec(text ?? '') ?? [];
  const seconds = Number(amount) * unitSeconds[unit as 'h' | 'd'];
  if (text === undefined || !(seconds >= 1 && seconds <= longestWindowSeconds)) throw wrongValue('completion_window', 'a time such as "24h" or "7d", up to "30d"', text);
  return [text, seconds];
}
