// What the routes of files say of themselves. Mounted with them by dialect.
import { errorResponse as error } from '../reference/errors.js';
import type { Operation } from '../reference/operation.js';
import { pageOf, pageQuery } from '../reference/shapes.js';
import { boolean, integer, named, object, text, told } from '../reference/schema.js';
import { longestSeconds, purposes, shortestSeconds } from './upload.js';

const topic = 'Files and batches';

const file = named('File', object({
  id: text, object: 'file', bytes: integer, created_at: integer, 'expires_at?': integer, filename: text, purpose: text, status: 'processed',
}));

const params = { id: 'Of the file.' };
const pages = 'client_refused';

export const operations = {
  list: {
    id: 'listFiles', topic, summary: 'The files that were uploaded or written by batches.',
    query: { ...pageQuery(10_000, 10_000), purpose: told(text, 'Only those for that.'), order: { type: 'string', enum: ['asc', 'desc'], default: 'desc', description: 'The newest first, or the oldest.' } },
    reply: { schema: pageOf('FileList', file) }, error, errors: [pages, 'invalid_value', 'invalid_type', 'store_unwritable'],
  },
  upload: {
    id: 'uploadFile', topic, summary: 'Upload a file, of up to 512 MiB.',
    body: {
      form: {
        type: 'object',
        properties: {
          file: { type: 'string', contentMediaType: 'application/octet-stream', description: 'The file.' },
          purpose: { type: 'string', enum: purposes, description: 'What it is for; here only batches use files.' },
          'expires_after[anchor]': { type: 'string', enum: ['created_at'], description: 'From when on it is kept; without it the file is kept until it is deleted.' },
          'expires_after[seconds]': { type: 'string', description: `How long it is kept: ${shortestSeconds} to ${longestSeconds} seconds.` },
        },
        required: ['file', 'purpose'],
      },
      shown: ['-F purpose=batch', '-F file=@requests.jsonl'],
    },
    reply: { schema: file }, error, errors: [pages, 'disk_full', 'store_unwritable', 'cancelled'],
  },
  get: { id: 'retrieveFile', topic, summary: 'What a file is.', params, reply: { schema: file }, error, errors: [pages, 'file_not_found', 'store_unwritable'] },
  remove: { id: 'deleteFile', topic, summary: 'Delete a file.', params, reply: { schema: object({ id: text, object: 'file', deleted: boolean }) }, error, errors: [pages, 'file_not_found', 'store_unwritable'] },
  content: { id: 'downloadFile', topic, summary: 'The bytes of a file.', params, reply: { schema: {}, type: 'application/octet-stream' }, error, errors: [pages, 'file_not_found', 'store_unwritable'] },
} as const satisfies Record<string, Operation>;
