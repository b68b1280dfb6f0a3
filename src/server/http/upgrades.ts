// Requests to turn a connection into a WebSocket. Node hands over all that ask for an upgrade once
// there is a listener, those for HTTP/2 among them, which some clients offer with each request: so
// what no route here takes is read once more, as the plain request that it is too. Made by listen;
// app adds what
// dialects offer.
import type { IncomingHttpHeaders, IncomingMessage, Server } from 'node:http';
import type { Duplex } from 'node:stream';
import { TLSSocket } from 'node:tls';
import { WebSocketServer, type WebSocket } from 'ws';
import type { ApiKey } from '../access/api-keys.js';

export interface SocketRoute {
  paths: readonly string[];
  /**
   * `mayGoOn`: whether the key that it was opened with still counts; `by` is its name, `headers`
   * what it was opened with.
   */
  open(socket: WebSocket, mayGoOn: () => boolean, by: string | undefined, headers: IncomingHttpHeaders): void;
}

export interface SocketLimits {
  mostMessageBytes: number;
  /** Who may not is read again, and told as by all routes what is missing. */
  mayOpen(headers: IncomingHttpHeaders): { key: ApiKey | undefined } | undefined;
}

interface Added extends SocketRoute, SocketLimits {
  sockets: WebSocketServer;
}

/** Of a route. Each may hold a message; who comes later is told to ask by plain requests. */
const mostSockets = 64;

export class Upgrades {
  readonly #routes = new Map<string, Added>();
  #isOver = false;

  add(route: SocketRoute, limits: SocketLimits): void {
    const sockets = new WebSocketServer({ noServer: true, maxPayload: limits.mostMessageBytes });
    for (const path of route.paths) this.#routes.set(path, { ...route, ...limits, sockets });
  }

  listenTo(server: Server): void {
    server.on('upgrade', (req, socket, head) => {
      const path = (req.url ?? '').split('?', 1)[0]!;
      const route = asksForWebSocket(req) ? this.#routes.get(path) : undefined;
      const opener = route?.mayOpen(req.headers);
      if (!route || this.#isOver || !opener || route.sockets.clients.size >= mostSockets) readAgain(server, req, socket, head);
      else route.sockets.handleUpgrade(req, socket, head, (opened) => route.open(opened, () => route.mayOpen(req.headers) !== undefined, opener.key?.name, req.headers));
    });
  }

  /** From now on nobody is let in. */
  close(): void {
    this.#isOver = true;
  }

  /** Those that are left end now. */
  terminate(): void {
    for (const { sockets } of this.#routes.values()) for (const socket of sockets.clients) socket.terminate();
  }
}

export function asksForWebSocket({ method, headers }: Pick<IncomingMessage, 'method' | 'headers'>): boolean {
  return method === 'GET' && headers.upgrade?.toLowerCase() === 'websocket';
}

/** Without the header that makes it an upgrade. */
function readAgain(server: Server, { method, url, httpVersion, rawHeaders }: IncomingMessage, socket: Duplex, head: Buffer): void {
  const lines = [`${method} ${url} HTTP/${httpVersion}`];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (rawHeaders[at]!.toLowerCase() !== 'connection') lines.push(`${rawHeaders[at]}: ${rawHeaders[at + 1]}`);
  }
  socket.unshift(Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), head]));
  server.emit(socket instanceof TLSSocket ? 'secureConnection' : 'connection', socket);
}
