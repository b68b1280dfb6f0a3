// The reference entries of the file routes. Mounted with the routes by dialect.
import { errorResponse as error } from '../reference/errors.js';
import type { Operation } from '../reference/operation.js';
import { pageOf, pageQuery, warnings } from '../reference/shapes.js';
import { boolean, integer, named, object, text, told } from '../reference/schema.js';
import { longestSeconds, purposes, shortestSeconds } from './upload.js';

const topic = 'Files and batches';

const fields = { id: text, object: 'file', bytes: integer, created_at: integer, 'expires_at?': integer, filename: text, purpose: text, status: 'processed' } as const;
const file = named('File', object(fields));

const params = { id: 'Id of the file.' };

export const operations = {
  list: {
    id: 'listFiles', topic, summary: 'List the files that were uploaded or written by batches.',
    query: { ...pageQuery(10_000, 10_000), purpose: told(text, 'Only files with this purpose.'), order: { type: 'string', enum: ['asc', 'desc'], default: 'desc', description: 'Newest first (`desc`) or oldest first.' } },
    reply: { schema: pageOf('FileList', file) }, error, errors: ['invalid_value', 'invalid_type', 'store_unwritable'],
  },
  upload: {
    id: 'uploadFile', topic, summary: 'Upload a file of up to 512 MiB.',
    about: 'An upload may last longer than five minutes as long as it averages at least 64 KiB a second.',
    body: {
      form: {
        type: 'object',
        properties: {
          file: { type: 'string', contentMediaType: 'application/octet-stream', description: 'The file.' },
          purpose: { type: 'string', enum: purposes, description: 'Purpose of the file; only batches use files here.' },
          'expires_after[anchor]': { type: 'string', enum: ['created_at'], description: 'When the expiry time starts. If omitted, the file is kept until it is deleted.' },
          'expires_after[seconds]': { type: 'string', description: `How long to keep it: ${shortestSeconds} to ${longestSeconds} seconds.` },
        },
        required: ['file', 'purpose'],
      },
      shown: ['-F purpose=batch', '-F file=@requests.jsonl'],
    },
    reply: { schema: named('UploadedFile', object({ ...fields, 'warnings?': warnings })) }, error, errors: ['unknown_parameter', 'disk_full', 'store_unwritable', 'cancelled'],
  },
  get: { id: 'retrieveFile', topic, summary: 'Get the metadata of a file.', params, reply: { schema: file }, error, errors: ['file_not_found', 'store_unwritable'] },
  remove: { id: 'deleteFile', topic, summary: 'Delete a file.', params, reply: { schema: object({ id: text, object: 'file', deleted: boolean }) }, error, errors: ['file_not_found', 'store_unwritable'] },
  content: { id: 'downloadFile', topic, summary: 'Download a file.', params, reply: { schema: { type: 'string', contentMediaType: 'application/octet-stream' }, type: 'application/octet-stream' }, error, errors: ['file_not_found', 'store_unwritable'] },
} as const satisfies Record<string, Operation>;
