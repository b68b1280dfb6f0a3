// The HTTP server around the app: its time limits, set on purpose, what it says to broken HTTP, and
// how it stops. Called by `recua api` and by tests. Does not own the models: who made their pool
// closes it, after this.
import { createServer, STATUS_CODES, type Server } from 'node:http';
import { isIP } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { RecuaError } from '../errors.js';
import type { Config } from '../settings/config.js';
import { createApp, type AppOptions } from './app.js';
import { keepWaiting } from './body/body-reader.js';
import { corsHeaders } from './http/cors.js';
import { errorBody } from './http/error-reply.js';
import { newRequestId } from './http/request-id.js';
import { Traffic } from './http/traffic.js';
import { Upgrades } from './http/upgrades.js';

const limits = {
  /** For the whole request to arrive. An answer may take as long as it takes. */
  requestTimeout: 5 * 60_000,
  /** For the headers alone, so that trickled ones do not hold sockets. */
  headersTimeout: 80_000,
  /**
   * Longer than clients and proxies keep idle sockets (4 to 60 s): a reused socket must not meet
   * our close (nodejs/node#47130).
   */
  keepAliveTimeout: 75_000,
  maxHeaderSize: 16 * 1024,
  /** Finds peers that vanished without a word. */
  keepAlive: true,
  keepAliveInitialDelay: 60_000,
  noDelay: true,
  /** Express answers these requests as well as any. */
  requireHostHeader: false,
};

/** After a drain's time is up: for the last error events to leave. */
const lastWordsMs = 1_000;

export interface Listening {
  /** E.g. `http://127.0.0.1:8080`. */
  url: string;
  port: number;
  server: Server;
  /**
   * Refuses new work, lets running answers end for `drainMs`, then ends them with an error.
   * Idempotent.
   */
  close(drainMs?: number): Promise<void>;
}

export async function listen(options: Omit<AppOptions, 'traffic' | 'upgrades'>): Promise<Listening> {
  const { host, port: wanted, drainMs: configuredDrainMs } = options.config;
  const traffic = new Traffic();
  const upgrades = new Upgrades();
  const app = createApp({ ...options, traffic, upgrades });
  const server = createServer(limits, app);
  upgrades.listenTo(server);
  server.on('checkContinue', (req, res) => {
    keepWaiting(req);
    app(req, res);
  });
  server.on('clientError', (cause: NodeJS.ErrnoException, socket) => answerBrokenHttp(cause, socket, options.config));
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause: NodeJS.ErrnoException) => reject(listenError(cause, host, wanted)));
    server.listen(wanted, host, resolve);
  });
  const { port } = server.address() as AddressInfo;

  let closing: Promise<void> | undefined;
  const stop = async (drainMs: number): Promise<void> => {
    upgrades.close();
    traffic.drain();
    await traffic.idle(drainMs);
    traffic.cancelAll();
    await traffic.idle(lastWordsMs);
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    upgrades.terminate();
    server.closeAllConnections();
    await closed;
  };
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${port}`,
    port,
    server,
    close: (drainMs = configuredDrainMs) => (closing ??= stop(drainMs)),
  };
}

function listenError(cause: NodeJS.ErrnoException, host: string, port: number): RecuaError {
  const where = `${host} port ${port}`;
  if (cause.code === 'EADDRINUSE') {
    return new RecuaError('port_in_use', `Another program listens on ${where}. Stop it, or choose another port with --port.`, { cause });
  }
  const possible = isIP(host) !== 0 || /^[a-z0-9_]([a-z0-9_.-]*[a-z0-9_.])?$/i.test(host);
  return new RecuaError(possible ? 'address_unavailable' : 'invalid_usage', `Cannot listen on ${where}: ${cause.message}. Choose another --host or --port.`, { cause });
}

/** Bytes that never became a request still get a reply in the API's shape. */
function answerBrokenHttp(cause: NodeJS.ErrnoException, duplex: Duplex, { corsOrigins }: Pick<Config, 'corsOrigins'>): void {
  const socket = duplex as Socket;
  // A reply written behind an earlier one, perhaps into a running stream, would be read as a part
  // of it.
  if (cause.code === 'ECONNRESET' || !socket.writable || socket.bytesWritten > 0) {
    socket.destroy();
    return;
  }
  const error = cause.code === 'HPE_HEADER_OVERFLOW'
    ? new RecuaError('headers_too_large', `The request headers are over the limit of ${limits.maxHeaderSize} bytes.`)
    : cause.code === 'ERR_HTTP_REQUEST_TIMEOUT'
      ? new RecuaError('request_timeout', 'The request did not arrive whole in time.')
      : new RecuaError('invalid_http', `Expected an HTTP/1.1 request, got bytes that are none (${cause.code}).`);
  const body = JSON.stringify(errorBody(error));
  const headers = Object.entries({
    ...corsHeaders,
    // What was asked for, and by whom, is not known.
    ...(corsOrigins === '*' ? { 'Access-Control-Allow-Origin': '*' } : {}),
    'x-request-id': newRequestId(),
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': Buffer.byteLength(body),
    Connection: 'close',
  });
  const head = [`HTTP/1.1 ${error.status} ${STATUS_CODES[error.status]}`, ...headers.map(([name, value]) => `${name}: ${value}`)];
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
}
