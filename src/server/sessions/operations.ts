// The reference entries of the routes of saved chats. Mounted with the routes by dialect.
import { errorResponse as error } from '../reference/errors.js';
import type { Operation } from '../reference/operation.js';
import { warnings } from '../reference/shapes.js';
import { anything, boolean, integer, list, mapOf, named, object, text, told } from '../reference/schema.js';
import { changeBody, newBody } from './session-request.js';

const topic = 'Saved chats';

const entry = object({
  name: told(text, 'Name of the chat.'), updated_ms: told(integer, 'Milliseconds since 1970.'), 'model?': told(text, 'The name that `recua chat` was given.'), 'exchanges?': told(integer, 'Messages with their answers.'),
  'error?': told(text, 'Problem with its file.'),
});

const fields = {
  name: text, etag: told(text, 'Also in the header `ETag`.'), open: told(boolean, 'A `recua chat` has it open, so only that may write it.'),
  session: told(mapOf(anything), 'The contents of its file.'),
};
const saved = named('SavedChat', object(fields));
const written = named('WrittenChat', object({ ...fields, 'warnings?': warnings }));

const filled = 'Missing fields of the session get the values of a new chat.';
const params = { name: 'Name of the chat.' };
const errors = ['store_unwritable', 'invalid_usage'] as const;
const ofWrite = ['unknown_parameter', 'disk_full', 'session_locked'] as const;
const ofOne = [...errors, 'session_not_found', 'invalid_session'] as const;
const ifMatch = (what: string) => ({ 'If-Match': { description: `The \`ETag\` of the version to ${what}, or \`*\` for any.`, example: '*' } });

export const operations = {
  list: {
    id: 'listSavedChats', topic, summary: 'List the saved chats, newest first.',
    query: { search: told(text, 'Only chats whose name, messages or answers contain this text, in any case.') }, reply: { schema: object({ object: 'list', data: list(entry) }) }, error, errors,
  },
  create: {
    id: 'createSavedChat', topic, summary: 'Save a chat.', about: `If \`name\` is omitted, the server picks one as \`recua chat\` does. ${filled}`,
    body: newBody, reply: { schema: written }, error, errors: [...errors, ...ofWrite, 'invalid_session'],
  },
  get: { id: 'getSavedChat', topic, summary: 'Get a saved chat.', params, reply: { schema: saved }, error, errors: ofOne },
  write: {
    id: 'writeSavedChat', topic, summary: 'Replace or rename a saved chat.', about: filled, params, headers: ifMatch('replace'), body: changeBody,
    reply: { schema: written }, error, errors: [...ofOne, ...ofWrite, 'session_changed', 'invalid_value'],
  },
  remove: {
    id: 'deleteSavedChat', topic, summary: 'Delete a saved chat.', params, headers: ifMatch('delete'),
    reply: { schema: object({ name: text, deleted: boolean }) }, error, errors: [...ofOne, 'disk_full', 'session_changed', 'session_locked', 'invalid_value'],
  },
} as const satisfies Record<string, Operation>;
