// The page for people: GET / for clients that accept HTML, its files under /ui/, and the answers
// that only the page needs. Other clients pass on to the routes, where Ollama's clients check at /
// whether a server is up. Express middleware, mounted by app if the setting `ui` is on.
import { fileURLToPath } from 'node:url';
import type { NextFunction, Request, RequestHandler, Response } from 'express';
import type { Answers } from './answers.js';
import { encodings, readWebFiles, type WebFile } from './web-files.js';

const folder = fileURLToPath(new URL('../../../web', import.meta.url));

/**
 * Only our own files as code and style, no requests to other servers, no embedding in frames. The
 * one trusted type names the file of the PDF reader (web/chat/pdf.js).
 */
const policy = [
  "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'", "manifest-src 'self'",
  "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'", 'trusted-types recua-pdf',
].join('; ');

const headers = {
  'Content-Security-Policy': policy,
  'X-Content-Type-Options': 'nosniff',
  'X-DNS-Prefetch-Control': 'off',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Resource-Policy': 'same-origin',
  // Revalidated each time with a 304, so that updates take effect at once.
  'Cache-Control': 'no-cache',
};

/**
 * Cuts the tie to the page that opened this one. Chromium starts a new process for it, which delays
 * the first paint, so it is left out where the browser says that no other site led here.
 */
function openerPolicy({ headers: { 'sec-fetch-site': site } }: Request): Record<string, string> {
  return site === 'none' || site === 'same-origin' ? {} : { 'Cross-Origin-Opener-Policy': 'same-origin' };
}

export function page(answers: Answers): RequestHandler {
  let files: Promise<ReadonlyMap<string, WebFile>> | undefined;
  return async (req: Request, res: Response, next: NextFunction) => {
    const name = nameOf(req);
    if (name === undefined) return next();
    const answer = answers.get(name);
    if (answer) return answer(req, res, next);
    files ??= readWebFiles(folder).catch((thrown: unknown) => {
      files = undefined;
      throw thrown;
    });
    const file = (await files).get(name);
    if (!file) return next();
    // Its relative URLs start at its folder, wherever a program mounts the app.
    const [path = '', query] = req.originalUrl.split('?');
    if (name === 'index.html' && path.startsWith('/') && !path.endsWith('/')) return res.redirect(308, `${path}/${query === undefined ? '' : `?${query}`}`);
    await send(file, req, res);
  };
}

function nameOf({ method, path, headers: { accept = '' } }: Request): string | undefined {
  if (method !== 'GET' && method !== 'HEAD') return undefined;
  if (path === '/') return accept.includes('text/html') ? 'index.html' : undefined;
  // Its relative URLs start at /.
  return path.startsWith('/ui/') && path !== '/ui/index.html' ? path.slice('/ui/'.length) : undefined;
}

async function send(file: WebFile, req: Request, res: Response): Promise<void> {
  const accepted = file.packs ? encodings.find((encoding) => req.acceptsEncodings(encoding)) : undefined;
  const etag = `"${file.etag}${accepted === undefined ? '' : `-${accepted}`}"`;
  res.set({ ...headers, ...openerPolicy(req), ETag: etag, Vary: 'Accept, Accept-Encoding, Sec-Fetch-Site', 'Content-Type': file.type });
  if (req.headers['if-none-match']?.includes(etag)) return void res.status(304).end();
  if (accepted !== undefined) res.set('Content-Encoding', accepted);
  const bytes = accepted === undefined ? file.bytes : await file.packed(accepted);
  res.set('Content-Length', String(bytes.length)).end(bytes);
}
