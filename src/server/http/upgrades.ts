// Upgrades connections to WebSockets. Once there is a listener, Node passes it every upgrade
// request, including offers of HTTP/2 that some clients send with each request. An upgrade that no
// route here takes is therefore read again as a plain request. Made by listen; app adds the routes
// of the dialects.
import type { IncomingHttpHeaders, IncomingMessage, Server } from 'node:http';
import type { Duplex } from 'node:stream';
import { TLSSocket } from 'node:tls';
import { WebSocketServer, type WebSocket } from 'ws';
import type { ApiKey } from '../access/api-keys.js';

export interface SocketRoute {
  paths: readonly string[];
  /**
   * `mayGoOn`: whether the key that opened it is still valid; `by` is the key's name, `headers` are
   * those of the opening request.
   */
  open(socket: WebSocket, mayGoOn: () => boolean, by: string | undefined, headers: IncomingHttpHeaders): void;
}

export interface SocketLimits {
  mostMessageBytes: number;
  /**
   * If undefined, the request is read again as a plain one, whose route reports what is missing.
   */
  mayOpen(headers: IncomingHttpHeaders): { key: ApiKey | undefined } | undefined;
}

interface Added extends SocketRoute, SocketLimits {
  sockets: WebSocketServer;
}

/**
 * Most sockets per route, since each may hold a message. Further clients must use plain requests.
 */
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

  /** Refuses all upgrades from now on. */
  close(): void {
    this.#isOver = true;
  }

  /** Terminates the remaining sockets. */
  terminate(): void {
    for (const { sockets } of this.#routes.values()) for (const socket of sockets.clients) socket.terminate();
  }
}

export function asksForWebSocket({ method, headers }: Pick<IncomingMessage, 'method' | 'headers'>): boolean {
  return method === 'GET' && headers.upgrade?.toLowerCase() === 'websocket';
}

/** Replays the request without the header that makes it an upgrade. */
function readAgain(server: Server, { method, url, httpVersion, rawHeaders }: IncomingMessage, socket: Duplex, head: Buffer): void {
  const lines = [`${method} ${url} HTTP/${httpVersion}`];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (rawHeaders[at]!.toLowerCase() !== 'connection') lines.push(`${rawHeaders[at]}: ${rawHeaders[at + 1]}`);
  }
  socket.unshift(Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), head]));
  server.emit(socket instanceof TLSSocket ? 'secureConnection' : 'connection', socket);
}
