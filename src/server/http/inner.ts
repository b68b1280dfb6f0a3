// Requests that the server asks of itself: a response in the background, a line of a batch. They go
// the way of all requests, over a connection within the process, so that their answers, limits,
// errors and order are those of the API, and hanging up stops their work. Made by app.
import { createServer, request as httpRequest, type IncomingMessage, type Server } from 'node:http';
import type { Request, RequestHandler } from 'express';
import { Duplex } from 'node:stream';

/** One end of a connection between two parts of this process. */
class InnerSocket extends Duplex {
  /** Why the request is asked: nothing from outside has it. */
  readonly reason: object | undefined;
  readonly by: string | undefined;
  #other: InnerSocket | undefined;
  /** Of what the other end wrote and this one has not read. */
  #taken: (() => void) | undefined;

  constructor(reason?: object, by?: string) {
    super({ allowHalfOpen: true });
    this.reason = reason;
    this.by = by;
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
    // What waits to be read is read no more.
    this.#taken?.();
    this.#taken = undefined;
    process.nextTick(() => other.destroy());
    done(error);
  }

  // What node:http asks of a socket, which has no meaning here: nobody is slow, nothing is idle.
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

/** What a request says of the trace that it belongs to: `traceparent` and what goes with it. */
export type TraceHeaders = Readonly<Record<string, string>>;

export interface InnerReply {
  status: number;
  requestId: string;
  /** Empty where it was not to be kept. */
  body: Buffer;
}

export interface InnerAsk {
  path: string;
  /** JSON text. */
  body: string;
  /** What `reasonOf` gives for the request. */
  reason: object;
  /** Name of the API key that it is asked with. */
  by: string | undefined;
  /** The trace that it belongs to. */
  trace?: TraceHeaders | undefined;
  /** Hangs up. */
  signal: AbortSignal;
  /** The body of a reply with status 200 is read and dropped. */
  dropsBody?: boolean;
  /** Reads the body of a reply with status 200 as it comes, to its end. */
  read?: (reply: IncomingMessage) => Promise<void>;
}

export class Inner {
  readonly #server: Server;

  constructor(app: RequestHandler) {
    this.#server = createServer({ requestTimeout: 0, headersTimeout: 0, keepAliveTimeout: 0 }, app as unknown as Parameters<typeof createServer>[1]);
  }

  /** Rejects where the connection ended before the reply did. */
  ask({ path, body, reason, by, trace, signal, dropsBody = false, read }: InnerAsk): Promise<InnerReply> {
    const near = new InnerSocket();
    const far = new InnerSocket(reason, by);
    near.join(far);
    this.#server.emit('connection', far);
    return new Promise<InnerReply>((resolve, reject) => {
      const headers = { ...trace, host: 'localhost', 'content-type': 'application/json', 'content-length': Buffer.byteLength(body), connection: 'close' };
      const asked = httpRequest({ method: 'POST', path, headers, signal, createConnection: () => near }, (reply) => {
        const { statusCode: status = 0 } = reply;
        const requestId = String(reply.headers['x-request-id'] ?? '');
        if (read && status === 200) return void read(reply).then(() => resolve({ status, requestId, body: Buffer.alloc(0) }), reject);
        const chunks: Buffer[] = [];
        reply.on('data', (chunk: Buffer) => {
          if (!dropsBody || status !== 200) chunks.push(chunk);
        });
        reply.once('error', reject);
        reply.once('end', () => resolve({ status, requestId, body: Buffer.concat(chunks) }));
      });
      asked.once('error', reject);
      asked.end(body);
    });
  }
}


/** The reason of work that is done while nobody waits for the server. */
export class IdleWork {}

/** Why the server asks itself; undefined where somebody else asks. */
export function reasonOf(req: Pick<Request, 'socket'>): object | undefined {
  return req.socket instanceof InnerSocket ? (req.socket as InnerSocket).reason : undefined;
}

/** The name of the API key with which the server asks itself. */
export function askedBy(req: Pick<Request, 'socket'>): string | undefined {
  return req.socket instanceof InnerSocket ? (req.socket as InnerSocket).by : undefined;
}
