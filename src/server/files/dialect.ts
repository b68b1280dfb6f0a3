// OpenAI's files: maps paths to routes. Mounted by app.
import { pipeline } from 'node:stream/promises';
import type { Request } from 'express';
import type { Dialect } from '../exchange/dialect.js';
import { refusePages } from '../access/pages.js';
import { pageOf, Query } from '../http/query.js';
import { keepingError } from '../kept/kept-folder.js';
import { keepTidy } from '../kept/tidying.js';
import { filesOf } from './file-store.js';
import { operations as about } from './operations.js';
import { upload } from './upload.js';

const mostPage = 10_000;

export const files: Dialect = {
  before: [refusePages],
  routes(gateway) {
    const { traffic, ownerOf } = gateway;
    const store = filesOf(gateway);
    keepTidy(gateway, 'files', () => store.removeExpired());
    const idOf = (req: Request): string => String(req.params['id']);
    return [
      {
        method: 'get', paths: ['/v1/files', '/files'], about: about.list,
        async handler(req, res) {
          const query = new Query(req);
          const purpose = query.text('purpose');
          const all = (await store.list(ownerOf(res))).filter((file) => purpose === undefined || file.purpose === purpose);
          if (query.word('order', ['asc', 'desc']) === 'asc') all.reverse();
          res.json(pageOf(all, query, mostPage, mostPage));
        },
        also: {
          method: 'post', about: about.upload, bodiless: true,
          async handler(req, res) {
            res.json(await upload(req, res, store, ownerOf(res), traffic.enter(res, 'transfer')));
          },
        },
      },
      {
        method: 'get', paths: ['/v1/files/:id', '/files/:id'], about: about.get, handler: async (req, res) => void res.json(await store.get(idOf(req), ownerOf(res))),
        also: { method: 'delete', about: about.remove, handler: async (req, res) => void res.json(await store.remove(idOf(req), ownerOf(res))) },
      },
      {
        method: 'get', paths: ['/v1/files/:id/content', '/files/:id/content'], about: about.content,
        async handler(req, res) {
          const signal = traffic.enter(res, 'transfer');
          const found = await store.get(idOf(req), ownerOf(res));
          const { bytes } = found;
          const file = await store.open(found);
          // Keeps browsers from showing an uploaded file as a page of this server.
          res.set({ 'Content-Type': 'application/octet-stream', 'Content-Length': String(bytes), 'X-Content-Type-Options': 'nosniff', 'Content-Disposition': 'attachment' });
          if (req.method === 'HEAD') {
            await file.close();
            return void res.end();
          }
          const from = file.createReadStream(bytes === 0 ? {} : { end: bytes - 1 });
          // A client that disconnects early is not an error, but what the disk says is.
          await pipeline(from, res, { signal }).catch((cause: NodeJS.ErrnoException) => {
            if (cause.syscall === 'read') throw keepingError(cause);
          });
        },
      },
    ];
  },
};
