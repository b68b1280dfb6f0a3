// The HTTP server around the app: its timeouts, its replies to broken HTTP, and its shutdown.
// Called by `recua api` and by tests. Does not own the models: the creator of their pool closes it,
// after this server.
import { createServer, STATUS_CODES, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { isIP } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { TLSSocket } from 'node:tls';
import { RecuaError } from '../errors.js';
import { socketPath } from '../settings/address.js';
import type { Config } from '../settings/config.js';
import { ApiKeys } from './access/api-keys.js';
import { watchKeys } from './access/key-file.js';
import { TlsFiles } from './access/tls-files.js';
import { createApp, type AppOptions } from './app.js';
import { watchArrivals } from './body/arrival.js';
import { keepWaiting } from './body/body-reader.js';
import { corsHeaders } from './access/cors.js';
import { errorBody } from './http/error-reply.js';
import { markUnixSocket } from './access/peer.js';
import { newRequestId } from './http/request-id.js';
import { Traffic } from './http/traffic.js';
import { Upgrades } from './http/upgrades.js';
import { warnOfUnknown } from './http/visible-models.js';
import { listenLocally } from './local-socket.js';

const limits = {
  /** See body/arrival, which allows large files more time. Answers have no timeout here. */
  requestTimeout: 0,
  /** For the headers alone, so that slow clients do not hold sockets. */
  headersTimeout: 80_000,
  /**
   * Longer than clients and proxies keep idle sockets (4 to 60 s), so that a client never reuses a
   * socket that the server is closing (nodejs/node#47130).
   */
  keepAliveTimeout: 75_000,
  maxHeaderSize: 16 * 1024,
  /** TCP keep-alive detects peers that vanished. */
  keepAlive: true,
  keepAliveInitialDelay: 60_000,
  noDelay: true,
  /** Express can answer requests without the header. */
  requireHostHeader: false,
};

/** For a client that opens a TLS connection and stays silent. */
const handshakeTimeout = 20_000;

/** After the drain time is over: time for the last error events and short replies to be sent. */
const lastWordsMs = 1_000;
/** Time for the refusals of requests whose bodies have not arrived by then. */
const refusalMs = 250;

export interface Listening {
  /** E.g. `http://127.0.0.1:8080`, or `unix:/run/recua.sock`. */
  url: string;
  /** 0 for a Unix socket. */
  port: number;
  /** Fingerprint of the certificate; undefined without TLS. */
  certificate(): string | undefined;
  /** `heard` is called with the fingerprint of each new certificate once it is in use. */
  onCertificate(heard: (fingerprint: string) => void): void;
  server: Server;
  /**
   * Refuses new work, gives running answers `drainMs` to complete, then ends them with an error.
   * Idempotent.
   */
  close(drainMs?: number): Promise<void>;
}

/** `keyFile`: path of `config.apiKeyFile`, which is reloaded when it changes. */
export type ListenOptions = Omit<AppOptions, 'traffic' | 'upgrades' | 'keys' | 'atEnd'> & { keyFile?: string | undefined };

export async function listen(options: ListenOptions): Promise<Listening> {
  const { config: { host, port: wanted, drainMs: configuredDrainMs, socketMode }, log = () => undefined } = options;
  const path = socketPath(host);
  const tls = await TlsFiles.open(options.config, log);
  if (tls && path !== undefined) throw new RecuaError('invalid_usage', 'Expected TLS or a Unix socket, got both: a Unix socket needs no TLS. Leave out --tls-cert and --tls-key.');
  const traffic = new Traffic();
  const upgrades = new Upgrades();
  const { config: { apiKey, apiKeyFile }, ownKey, keyFile } = options;
  const given = { keys: apiKey, file: apiKeyFile, own: ownKey };
  const keys = ApiKeys.read(given);
  const atEnd: (() => Promise<void>)[] = [];
  const app = createApp({ ...options, traffic, upgrades, keys, atEnd: (work) => void atEnd.push(work) });
  const answerBroken = (cause: NodeJS.ErrnoException, socket: Duplex): void =>
    answerBrokenHttp(cause, socket, upgrades.isAnswering(socket), options.config);
  const answer = (req: IncomingMessage, res: ServerResponse): void => {
    req.url = pathOf(req.url ?? '');
    app(req, res);
  };
  const server: Server = tls ? createTlsServer({ ...limits, ...tls.options, handshakeTimeout }, answer) : createServer(limits, answer);
  // Node would leave out those after 2,000, and an upgrade that is read again would lose the length
  // of its body: that would be read as a request. maxHeaderSize limits them.
  server.maxHeadersCount = 0;
  if (path !== undefined) server.on('connection', markUnixSocket);
  const sockets = tls ? socketsOf(server) : new Set<Socket>();
  upgrades.listenTo(server);
  server.on('checkContinue', (req, res) => {
    keepWaiting(req);
    answer(req, res);
  });
  // Node would answer 417 without a body.
  server.on('checkExpectation', answer);
  watchArrivals(server, ({ socket }) => answerBroken(Object.assign(new Error('late'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' }), socket));
  server.on('clientError', answerBroken);
  const local = path === undefined ? undefined : await listenLocally(server, path, socketMode);
  const url = local ? `unix:${local.path}` : await listenOn(server, host, wanted, tls ? 'https' : 'http');
  const port = path === undefined ? (server.address() as AddressInfo).port : 0;
  const listeners: ((fingerprint: string) => void)[] = [];
  const unwatch = tls?.watch(() => {
    (server as ReturnType<typeof createTlsServer>).setSecureContext(tls.options);
    for (const heard of listeners) heard(tls.fingerprint);
  });

  const warn = (): void => void warnOfUnknown(keys, options.pool, log).catch(() => undefined);
  warn();
  const unwatchKeys = keyFile === undefined ? undefined : watchKeys(keyFile, keys, given, log, warn);

  let closing: Promise<void> | undefined;
  const stop = async (drainMs: number): Promise<void> => {
    const startMs = performance.now();
    await traffic.probers.leave(drainMs);
    unwatch?.();
    unwatchKeys?.();
    upgrades.close();
    traffic.drain();
    await traffic.idle(drainMs - (performance.now() - startMs));
    traffic.cancelAll();
    await traffic.idle(lastWordsMs);
    const closed = new Promise<void>((resolve) => {
      if (local) local.close(resolve);
      else server.close(() => resolve());
    });
    upgrades.terminate();
    // A list of models, a deletion: they are no work that a stop waits for, but must not be cut.
    // Nor must a body that is arriving: its client would take that for a crash.
    await traffic.replied(lastWordsMs);
    traffic.refuseArriving();
    await traffic.replied(refusalMs);
    server.closeAllConnections();
    for (const socket of sockets) socket.destroy();
    await closed;
    await traffic.settled(lastWordsMs);
    for (const work of atEnd) await work();
  };
  return {
    url, port, server,
    certificate: () => tls?.fingerprint,
    onCertificate: (heard) => void listeners.push(heard),
    close: (drainMs = configuredDrainMs) => (closing ??= stop(drainMs)),
  };
}

/**
 * The path of a request that names a whole URL, as requests to proxies do. Express would answer one
 * that cannot be read by itself, with a page of HTML.
 */
function pathOf(target: string): string {
  if (target.startsWith('/')) return target;
  const url = URL.canParse(target) ? new URL(target) : undefined;
  return url?.pathname.startsWith('/') ? url.pathname + url.search : `/${target}`;
}

/**
 * The open sockets below TLS. Node does not close those that have not finished their handshake, and
 * a stop would wait for them.
 */
function socketsOf(server: Server): ReadonlySet<Socket> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  return sockets;
}

/** Resolves to the server's URL. */
export async function listenOn(server: Server, host: string, wanted: number, protocol: string): Promise<string> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause: NodeJS.ErrnoException) => reject(listenError(cause, host, wanted)));
    server.listen(wanted, host, resolve);
  });
  const { port } = server.address() as AddressInfo;
  return `${protocol}://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

function listenError(cause: NodeJS.ErrnoException, host: string, port: number): RecuaError {
  const where = `${host} port ${port}`;
  if (cause.code === 'EADDRINUSE') {
    return new RecuaError('port_in_use', `Another program listens on ${where}. Stop it, or choose another port with --port.`, { cause });
  }
  const possible = isIP(host) !== 0 || /^[a-z0-9_]([a-z0-9_.-]*[a-z0-9_.])?$/i.test(host);
  return new RecuaError(possible ? 'address_unavailable' : 'invalid_usage', `Cannot listen on ${where}: ${cause.message}. Choose another --host or --port.`, { cause });
}

/**
 * Bytes that never became a request still get a reply in the API's format, unless it would be read
 * as part of the reply before it.
 */
function answerBrokenHttp(cause: NodeJS.ErrnoException, duplex: Duplex, isAnswering: boolean, { corsOrigins }: Pick<Config, 'corsOrigins'>): void {
  const socket = duplex as Socket;
  // Before the TLS handshake, the client cannot read a reply at all.
  const isUnread = socket instanceof TLSSocket && !/^HPE_|^ERR_HTTP_/.test(cause.code ?? '');
  if (isUnread || cause.code === 'ECONNRESET' || !socket.writable || isAnswering) {
    socket.destroy();
    return;
  }
  const error = cause.code === 'HPE_HEADER_OVERFLOW'
    ? new RecuaError('headers_too_large', `The request headers are over the limit of ${limits.maxHeaderSize} bytes.`)
    : cause.code === 'ERR_HTTP_REQUEST_TIMEOUT'
      ? new RecuaError('request_timeout', 'The request did not arrive completely in time.')
      : new RecuaError('invalid_http', `Expected an HTTP/1.1 request, got something else (${cause.code}).`);
  const body = JSON.stringify(errorBody(error));
  const headers = Object.entries({
    ...corsHeaders,
    // The origin of the request is not known.
    ...(corsOrigins === '*' ? { 'Access-Control-Allow-Origin': '*' } : {}),
    'x-request-id': newRequestId(),
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': Buffer.byteLength(body),
    Connection: 'close',
  });
  const head = [`HTTP/1.1 ${error.status} ${STATUS_CODES[error.status]}`, ...headers.map(([name, value]) => `${name}: ${value}`)];
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
}
