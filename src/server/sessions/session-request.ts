// Reads the body that writes a saved chat, and the ETag of the version it replaces. The session
// itself is checked where its file is written. Pure.
import type { Request } from 'express';
import { RecuaError } from '../../errors.js';
import { wrongType, type Fields } from '../../request/fields.js';
import type { Body } from '../reference/operation.js';

const longestName = 100;

interface Written {
  session: Record<string, unknown> | undefined;
  name: string | undefined;
}

function readWritten(body: Fields): Written {
  const session = body.object('session');
  const name = body.peek('name') === undefined || body.peek('name') === null ? void body.allow('name') : body.name('name', longestName);
  return { session, name };
}

export function readNew(body: Fields): Written & { session: Record<string, unknown> } {
  const { session, name } = readWritten(body);
  if (!session) throw wrongType('session', 'an object', undefined);
  return { session, name };
}

export function readChange(body: Fields): Written {
  const written = readWritten(body);
  if (!written.session && written.name === undefined) throw wrongType('session', 'an object, or a name beside it or alone', undefined);
  return written;
}

/**
 * Without the header, one client could overwrite what another has added. Proxies that compress
 * replies mark the ETag as weak.
 */
export function etagOf({ headers: { 'if-match': given = '' } }: Request): string {
  const etag = /^\s*(?:(?:W\/)?"([\w-]+)"|(\*))\s*$/.exec(given);
  if (!etag) throw new RecuaError('invalid_value', 'Expected the header If-Match with the ETag that the chat had when it was read, or with *.', { param: 'If-Match' });
  return etag[1] ?? '*';
}

const messages = [{ role: 'user', content: 'Hello!', sent_at: '2026-01-31T10:00:00.000Z' }, { role: 'assistant', content: 'Hi.', ended: 'stop' }];
const words = { name: 'Name of the chat: letters, digits, spaces and `. _ -`.', session: 'The chat, in the format of its file; unknown fields are kept.' };

export const newBody: Body = {
  name: 'NewSavedChat', read: readNew, examples: [{ session: { model: 'builtin', messages } }, { session: { messages: [] }, name: 'hello' }],
  words,
};

export const changeBody: Body = {
  name: 'SavedChatChange', read: readChange, examples: [{ name: 'hello' }, { session: { model: 'builtin', messages } }],
  words: { ...words, name: 'The new name.' },
};
