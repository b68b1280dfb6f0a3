// The saved chats: maps paths to routes. Chats from a terminal belong to its user. They are served
// only if the setting `uiSessions` is on: to keys with `admin`, or without keys to clients on this
// machine. Mounted by app.
import type { NextFunction, Request, RequestHandler, Response } from 'express';
import { RecuaError, type ErrorCode } from '../../errors.js';
import { readAll } from '../exchange/admission.js';
import type { Dialect } from '../exchange/dialect.js';
import { refuseOthers, refusePages } from '../access/pages.js';
import { sendJson } from '../exchange/send-json.js';
import type { SavedChat, SavedChats } from '../http/saved-chats.js';
import { Query } from '../http/query.js';
import { keepingError } from '../kept/kept-folder.js';
import { operations as about } from './operations.js';
import { etagOf, readChange, readNew } from './session-request.js';

export const sessions: Dialect = {
  before: [refusePages, refuseOthers],
  routes({ savedChats }) {
    const nameOf = (req: Request): string => String(req.params['name']);
    const guarded =
      (answer: (chats: SavedChats, req: Request, res: Response) => Promise<void>): RequestHandler =>
        async (req: Request, res: Response, _next: NextFunction) => {
          if (!savedChats)
            throw new RecuaError('client_refused', 'This server does not show the chats that recua chat saved; start it with --ui-sessions.');
          res.set('Cache-Control', 'no-store');
          await answer(savedChats, req, res).catch(refuse);
        };
    const send = async (res: Response, { name, etag, isOpen, session }: SavedChat, told: object = {}): Promise<void> => {
      await sendJson(res.set('ETag', `"${etag}"`), { name, etag, open: isOpen, session, ...told });
    };
    return [
      {
        method: 'get', paths: ['/sessions'], about: about.list,
        handler: guarded(async (chats, req, res) => {
          const data = (await chats.list(new Query(req).text('search'))).map(({ updatedMs, ...entry }) => ({ ...entry, updated_ms: Math.round(updatedMs) }));
          res.json({ object: 'list', data });
        }),
        also: {
          method: 'post', about: about.create,
          handler: guarded(async (chats, req, res) => {
            const { asked: { session, name }, told } = readAll(req, readNew);
            await send(res, await chats.create(session, name), told);
          }),
        },
      },
      {
        method: 'get', paths: ['/sessions/:name'], about: about.get, handler: guarded(async (chats, req, res) => send(res, await chats.read(nameOf(req)))),
        also: [{
          method: 'put', about: about.write, takesBody: true,
          handler: guarded(async (chats, req, res) => {
            const { asked: { session, name }, told } = readAll(req, readChange);
            await send(res, await chats.write(nameOf(req), etagOf(req), session, name), told);
          }),
        }, {
          method: 'delete', about: about.remove,
          handler: guarded(async (chats, req, res) => {
            await chats.remove(nameOf(req), etagOf(req));
            res.json({ name: nameOf(req), deleted: true });
          }),
        }],
      },
    ];
  },
};

/** Errors of the disk. */
const ofDisk: ReadonlySet<ErrorCode> = new Set(['file_unreadable', 'store_unwritable', 'disk_full', 'internal_error']);

/** What the disk said has paths, which only the log gets. */
function refuse(thrown: unknown): never {
  const error = RecuaError.from(thrown);
  if (!ofDisk.has(error.code)) throw error;
  if (typeof (error.cause as NodeJS.ErrnoException | undefined)?.code === 'string') throw keepingError(error.cause);
  throw error.code === 'internal_error' ? error : new RecuaError('store_unwritable', 'The server cannot read or write what it stores; its log says which file.', { cause: error });
}
