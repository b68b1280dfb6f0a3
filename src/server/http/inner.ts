// Requests that the server makes to itself: background responses, lines of batches. They are
// ordinary requests over a connection inside the process, so they get the API's replies, limits,
// errors and order, and hanging up stops their work. Made by app.
import { createServer, request as httpRequest, type IncomingMessage, type Server } from 'node:http';
import type { Request, RequestHandler } from 'express';
import { Duplex } from 'node:stream';
import { RecuaError } from '../../errors.js';

/** One end of a connection between two parts of this process. */
class InnerSocket extends Duplex {
  /** Why the request is made. Requests from outside have none. */
  readonly reason: object | undefined;
  readonly by: string | undefined;
  readonly client: string | undefined;
  #other: InnerSocket | undefined;
  /** Callback of the other end's last write, until this end reads. */
  #taken: (() => void) | undefined;

  constructor({ reason, by, client }: Partial<Pick<InnerAsk, 'reason' | 'by' | 'client'>> = {}) {
    super({ allowHalfOpen: true });
    this.reason = reason;
    this.by = by;
    this.client = client;
  }

  join(other: InnerSocket): void {
    this.#other = other;
    other.#other = this;
  }

  override _read(): void {
    const taken = this.#taken;
    this.#taken = undefined;
    taken?.();
  }

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    const other = this.#other!;
    if (chunk.length === 0 || other.destroyed) return process.nextTick(done);
    other.#taken = done;
    other.push(chunk);
  }

  override _final(done: () => void): void {
    const other = this.#other!;
    if (!other.destroyed) other.push(null);
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    const other = this.#other!;
    // Pending data will not be read any more.
    this.#taken?.();
    this.#taken = undefined;
    // Why a reply broke off. Nothing else that happens to one end is an error of the other.
    process.nextTick(() => other.destroy(error instanceof RecuaError ? error : undefined));
    done(error);
  }

  // Methods that node:http calls on a socket. They have no meaning inside a process.
  setTimeout(): this {
    return this;
  }

  setNoDelay(): this {
    return this;
  }

  setKeepAlive(): this {
    return this;
  }

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }
}

/** `traceparent` and related headers, and those that tell pages from programs. */
export type CarriedHeaders = Readonly<Record<string, string>>;

export interface InnerReply {
  status: number;
  requestId: string;
  /** From `Retry-After`. */
  retryAfterSeconds?: number | undefined;
  /** Empty if the caller did not want it. */
  body: Buffer;
}

export interface InnerAsk {
  path: string;
  /** JSON text. */
  body: string;
  /** Returned by `reasonOf` for the request. */
  reason: object;
  /** Name of the API key for the request. */
  by: string | undefined;
  /** The client for whom the request is made, if it has one without an API key: its address. */
  client?: string | undefined;
  /** From the request of the client for whom it is made: its trace, and whether a page asked. */
  carried?: CarriedHeaders | undefined;
  /** Aborting it hangs up. */
  signal: AbortSignal;
  /** Discards the body of a reply with status 200. */
  dropsBody?: boolean;
  /** Reads the body of a reply with status 200 as a stream. */
  read?: (reply: IncomingMessage) => Promise<void>;
}

export class Inner {
  readonly #server: Server;

  constructor(app: RequestHandler) {
    this.#server = createServer(
      { requestTimeout: 0, headersTimeout: 0, keepAliveTimeout: 0 },
      app as unknown as Parameters<typeof createServer>[1],
    );
  }

  /** Rejects if the connection ends before the reply does. */
  ask({ path, body, reason, by, client, carried, signal, dropsBody = false, read }: InnerAsk): Promise<InnerReply> {
    const near = new InnerSocket();
    const far = new InnerSocket({ reason, by, client });
    near.join(far);
    this.#server.emit('connection', far);
    return new Promise<InnerReply>((resolve, reject) => {
      const headers = { host: 'localhost', ...carried, 'content-type': 'application/json', 'content-length': Buffer.byteLength(body), connection: 'close' };
      const asked = httpRequest({ method: 'POST', path, headers, signal, createConnection: () => near }, (reply) => {
        const { statusCode: status = 0 } = reply;
        const requestId = String(reply.headers['x-request-id'] ?? '');
        const { 'retry-after': retryAfter } = reply.headers;
        const retryAfterSeconds = retryAfter === undefined ? undefined : Number(retryAfter);
        if (read && status === 200) return void read(reply).then(() => resolve({ status, requestId, body: Buffer.alloc(0) }), reject);
        const chunks: Buffer[] = [];
        reply.on('data', (chunk: Buffer) => {
          if (!dropsBody || status !== 200) chunks.push(chunk);
        });
        reply.once('error', reject);
        reply.once('end', () => resolve({ status, requestId, retryAfterSeconds, body: Buffer.concat(chunks) }));
      });
      asked.once('error', reject);
      asked.end(body);
    });
  }
}

/** The reason of work for times when the server is otherwise idle. */
export class IdleWork {}

/** Why the server makes this request to itself; undefined for requests of clients. */
export function reasonOf(req: Pick<Request, 'socket'>): object | undefined {
  return req.socket instanceof InnerSocket ? (req.socket as InnerSocket).reason : undefined;
}

/** Name of the API key of a request that the server makes to itself. */
export function askedBy(req: Pick<Request, 'socket'>): string | undefined {
  return req.socket instanceof InnerSocket ? (req.socket as InnerSocket).by : undefined;
}

/** The address of the client of a request that the server makes to itself for one. */
export function askedFor(req: Pick<Request, 'socket'>): string | undefined {
  return req.socket instanceof InnerSocket ? (req.socket as InnerSocket).client : undefined;
}
