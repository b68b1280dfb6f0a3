// A model hub on this machine: API and file addresses on one server, the bytes on another with
// another host name. It records every request and every byte of a file that it sends, and tests may
// take over single requests to misbehave.
import { createHash, randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { once } from 'node:events';
import { join } from 'node:path';

export interface FakeFile {
  path: string;
  bytes: Buffer;
  /** Not in LFS: identified by git's sha1, and served by the hub itself. */
  small?: boolean;
  /** Instead of the true one. */
  hash?: string;
}

export interface FakeRepo {
  name: string;
  files: FakeFile[];
  /** Branch → commit; main by default. */
  revisions?: Record<string, string>;
  /** Without a token in `members` the repository does not exist. */
  privacy?: 'private' | 'gated';
  members?: string[];
  /** Instead of the listing made from the files. */
  listing?: unknown[];
}

export interface FilePiece {
  request: IncomingMessage;
  response: ServerResponse;
  file: FakeFile;
  /** Undefined without a Range header. */
  range: { from: number; to: number } | undefined;
  /** Counts the requests for bytes, from 1. */
  count: number;
}

export interface Recorded {
  server: 'hub' | 'cdn';
  method: string;
  url: string;
  token: string | undefined;
  range: string | undefined;
}

export const commit = 'a'.repeat(40);
export const otherCommit = 'b'.repeat(40);

/** Bytes that pass for a model's file. */
export function modelBytes(size: number): Buffer {
  return Buffer.concat([Buffer.from('GGUF'), randomBytes(size - 4)]);
}

export function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}

export function hashOf({ bytes, small, hash }: FakeFile): string {
  return hash ?? (small ? createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest('hex') : sha256(bytes));
}

interface Tls {
  key: string;
  cert: string;
}

export class FakeHub {
  readonly requests: Recorded[] = [];
  readonly repos: FakeRepo[];
  /** Requests for files, on either server. */
  bytesSent = 0;
  /** Entries per page of a listing. */
  pageSize = 1000;
  /** Takes over a request to the API; true when it has answered. */
  onApi: (request: IncomingMessage, response: ServerResponse, url: URL) => boolean = () => false;
  /** Takes over a request for bytes; true when it has answered. */
  onBytes: (piece: FilePiece) => boolean | Promise<boolean> = () => false;
  /** Called before each write of bytes. */
  onSend: (piece: FilePiece, offset: number, bytes: number) => void | Promise<void> = () => undefined;
  /** Valid signatures of addresses; a request with another gets 403. */
  signature = 'signed-1';
  sendBytes = 64 * 1024;
  #pieces = 0;
  readonly #hub: Server;
  readonly #cdn: Server;
  readonly #secure: boolean;

  private constructor(repos: FakeRepo[], tls?: Tls) {
    this.repos = repos;
    this.#secure = tls !== undefined;
    const serve = (server: 'hub' | 'cdn') => (request: IncomingMessage, response: ServerResponse) => {
      this.requests.push({
        server,
        method: request.method!,
        url: request.url!,
        token: request.headers.authorization,
        range: request.headers.range,
      });
      void (server === 'hub' ? this.#answerHub(request, response) : this.#answerCdn(request, response)).catch(() => response.destroy());
    };
    this.#hub = tls ? createTlsServer(tls, serve('hub')) : createServer(serve('hub'));
    this.#cdn = tls ? createTlsServer(tls, serve('cdn')) : createServer(serve('cdn'));
  }

  /** Ends with the test. */
  static async start(t: { teardown(end: () => void): unknown }, repos: FakeRepo[], tls?: Tls): Promise<FakeHub> {
    const hub = new FakeHub(repos, tls);
    for (const server of [hub.#hub, hub.#cdn]) {
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
    }
    t.teardown(() => hub.close());
    return hub;
  }

  close(): void {
    for (const server of [this.#hub, this.#cdn]) {
      server.close();
      server.closeAllConnections();
    }
  }

  get endpoint(): string {
    return `${this.#scheme}://127.0.0.1:${(this.#hub.address() as AddressInfo).port}`;
  }

  get cdn(): string {
    return `${this.#scheme}://localhost:${(this.#cdn.address() as AddressInfo).port}`;
  }

  get #scheme(): string {
    return this.#secure ? 'https' : 'http';
  }

  /** Requests for file bytes. */
  get pieces(): Recorded[] {
    return this.requests.filter(({ server, method, url }) => method === 'GET' && (server === 'cdn' || url.includes('/resolve/')));
  }

  /** An environment in which a child process knows this hub and nothing of the machine. */
  environment(folder: string, more: Record<string, string> = {}): Record<string, string> {
    const none = ['HUB_HOME', 'HF_HOME', 'HF_HUB_CACHE', 'HUB_TOKEN', 'HF_TOKEN', 'HF_HUB_OFFLINE', 'XDG_CACHE_HOME', 'XDG_DATA_HOME', 'NODE_EXTRA_CA_CERTS',
      'HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY', 'NO_PROXY', 'http_proxy', 'https_proxy', 'all_proxy', 'no_proxy'];
    return {
      ...Object.fromEntries(none.map((name) => [name, ''])),
      HOME: folder, SERVICE_HOME: folder, HF_TOKEN_PATH: join(folder, 'token'), HF_ENDPOINT: this.endpoint,
      RECUA_TEST_CHUNK_BYTES: String(64 * 1024), RECUA_TEST_STALL_MS: '10000', RECUA_TEST_DELAY_MS: '5', ...more,
    };
  }

  async #answerHub(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url!, this.endpoint);
    if (this.onApi(request, response, url)) return;
    const token = request.headers.authorization?.replace('Bearer ', '');
    const path = decodeURIComponent(url.pathname);
    const repo = this.repos.find(({ name }) => path === `/api/models/${name}` || path.startsWith(`/api/models/${name}/`) || path.startsWith(`/${name}/`));
    const member = token !== undefined && repo?.members?.includes(token);
    if (path === '/api/models') return this.#sendFound(url, response);
    if (token === 'bad') return refuse(response, 401, '', 'Invalid credentials in Authorization header');
    if (!repo || (repo.privacy === 'private' && !member)) return refuse(response, token === undefined ? 401 : 404, 'RepoNotFound', 'Repository not found');
    const revisions = repo.revisions ?? { main: commit };
    const [, revision] = /^\/api\/models\/.+?\/revision\/(.+)$/.exec(path) ?? [];
    if (revision !== undefined) {
      const found = revisions[revision] ?? Object.values(revisions).find((one) => one === revision);
      return found === undefined ? refuse(response, 404, 'RevisionNotFound', 'Invalid rev id') : sendJson(response, { sha: found });
    }
    if (path.startsWith(`/api/models/${repo.name}/tree/`)) return this.#sendTree(repo, url, response);
    const [, file] = /\/resolve\/[^/]+\/(.+)$/.exec(path) ?? [];
    if (file === undefined) return sendJson(response, { id: repo.name });
    if (repo.privacy === 'gated' && !member) {
      return refuse(response, token === undefined ? 401 : 403, 'GatedRepo', `Access to model ${repo.name} is restricted`);
    }
    const found = repo.files.find((one) => one.path === file);
    if (!found) return refuse(response, 404, 'EntryNotFound', 'Entry not found');
    if (found.small) return await this.#sendFile(request, response, found);
    response.writeHead(302, {
      Location: `${this.cdn}/${repo.name}/${encodeURIComponent(file)}?${this.signature}`,
      'X-Repo-Commit': commit, 'X-Linked-Size': found.bytes.length, 'X-Linked-Etag': `"${hashOf(found)}"`,
    }).end();
  }

  #sendFound(url: URL, response: ServerResponse): void {
    const words = (url.searchParams.get('search') ?? '').toLowerCase();
    const found = this.repos.filter(({ name, privacy }) => privacy !== 'private' && name.toLowerCase().includes(words));
    sendJson(response, found.map(({ name, privacy }, at) => ({ id: name, downloads: 1_000 - at, likes: at, gated: privacy === 'gated' && 'manual' })));
  }

  #sendTree(repo: FakeRepo, url: URL, response: ServerResponse): void {
    const entries = repo.listing ?? repo.files.map((file) => ({
      type: 'file', path: file.path, size: file.bytes.length, oid: file.small ? hashOf(file) : '0'.repeat(40),
      ...(file.small ? {} : { lfs: { oid: hashOf(file), size: file.bytes.length, pointerSize: 134 } }),
    }));
    const start = Number(url.searchParams.get('cursor') ?? 0);
    const end = start + this.pageSize;
    if (end < entries.length) {
      url.searchParams.set('cursor', String(end));
      response.setHeader('Link', `<${url.href}>; rel="next"`);
    }
    sendJson(response, entries.slice(start, end));
  }

  async #answerCdn(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url!, this.cdn);
    const path = decodeURIComponent(url.pathname);
    const repo = this.repos.find(({ name }) => path.startsWith(`/${name}/`))!;
    const file = repo.files.find((one) => `/${repo.name}/${one.path}` === path)!;
    if (url.search !== `?${this.signature}`) {
      response.writeHead(403, { 'Content-Type': 'application/xml' }).end('<Error><Code>AccessDenied</Code></Error>');
      return;
    }
    await this.#sendFile(request, response, file);
  }

  async #sendFile(request: IncomingMessage, response: ServerResponse, file: FakeFile): Promise<void> {
    const size = file.bytes.length;
    const etag = file.small ? `"${hashOf(file)}"` : '"cdn-etag"';
    if (request.method === 'HEAD') {
      response.writeHead(200, { ETag: etag, 'Content-Length': size }).end();
      return;
    }
    const match = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '');
    const range = match ? { from: Number(match[1]), to: Math.min(Number(match[2]) + 1, size) } : undefined;
    const piece: FilePiece = { request, response, file, range, count: ++this.#pieces };
    if (await this.onBytes(piece)) return;
    const { from, to } = range ?? { from: 0, to: size };
    response.writeHead(range ? 206 : 200, {
      'Content-Type': 'binary/octet-stream', ETag: etag, 'Content-Length': to - from, ...(range ? { 'Content-Range': `bytes ${from}-${to - 1}/${size}` } : {}),
    });
    await this.send(piece, from, to);
    response.end();
  }

  /** Sends the bytes of a piece, slowly enough to be counted exactly. */
  async send(piece: FilePiece, from: number, to: number): Promise<void> {
    const { response, file } = piece;
    for (let at = from; at < to; at += this.sendBytes) {
      const bytes = file.bytes.subarray(at, Math.min(to, at + this.sendBytes));
      await this.onSend(piece, at, bytes.length);
      if (response.destroyed) return;
      this.bytesSent += bytes.length;
      await new Promise<void>((resolve) => {
        response.once('close', resolve);
        response.write(bytes, () => {
          response.off('close', resolve);
          resolve();
        });
      });
    }
  }
}

function sendJson(response: ServerResponse, value: unknown): void {
  response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(value));
}

function refuse(response: ServerResponse, status: number, code: string, message: string): void {
  response.writeHead(status, { ...(code === '' ? {} : { 'X-Error-Code': code }), 'X-Error-Message': message, 'Content-Type': 'application/json' })
    .end(JSON.stringify({ error: message }));
}
