// What the routes of saved chats say of themselves. Mounted with them by dialect.
import { errorResponse as error } from '../reference/errors.js';
import type { Operation } from '../reference/operation.js';
import { anything, boolean, integer, list, mapOf, named, object, text, told } from '../reference/schema.js';
import { changeBody, newBody } from './session-request.js';

const topic = 'Saved chats';

const entry = object({
  name: text, updated_ms: told(integer, 'Milliseconds since 1970.'), 'model?': told(text, 'As `recua chat` was given it.'), 'exchanges?': integer,
  'error?': told(text, 'What is wrong with its file.'),
});

const saved = named('SavedChat', object({
  name: text, etag: told(text, 'Also in the header `ETag`.'), open: told(boolean, 'A `recua chat` has it open, and writes it alone.'),
  session: told(mapOf(anything), 'As it stands in the file.'),
}));

const params = { name: 'Of the chat.' };
const errors = ['client_refused', 'store_unwritable', 'file_unreadable', 'invalid_usage'] as const;
const ofOne = [...errors, 'session_not_found', 'invalid_session'] as const;
const headers = { 'If-Match': { description: 'The `ETag` of what is replaced, or `*`.', example: '*' } };

export const operations = {
  list: { id: 'listSavedChats', topic, summary: 'The saved chats, the newest first.', reply: { schema: object({ object: 'list', data: list(entry) }) }, error, errors },
  create: {
    id: 'createSavedChat', topic, summary: 'Save a chat.', about: 'Without `name` it gets one as in `recua chat`. What the session does not say is as in a new chat there.',
    body: newBody, reply: { schema: saved }, error, errors: [...errors, 'invalid_session', 'session_locked'],
  },
  get: { id: 'getSavedChat', topic, summary: 'A saved chat.', params, reply: { schema: saved }, error, errors: ofOne },
  write: {
    id: 'writeSavedChat', topic, summary: 'Write a saved chat anew, or rename it.', params, headers, body: changeBody,
    reply: { schema: saved }, error, errors: [...ofOne, 'session_changed', 'session_locked', 'invalid_value'],
  },
  remove: {
    id: 'deleteSavedChat', topic, summary: 'Delete a saved chat.', params, headers,
    reply: { schema: object({ name: text, deleted: boolean }) }, error, errors: [...ofOne, 'session_changed', 'session_locked', 'invalid_value'],
  },
} as const satisfies Record<string, Operation>;
