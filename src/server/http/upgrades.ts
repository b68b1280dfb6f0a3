// Upgrades connections to WebSockets. Once there is a listener, Node passes it every upgrade
// request, including offers of HTTP/2 that some clients send with each request. An upgrade that no
// route here takes is therefore read again as a plain request. Made by listen; app adds the routes
// of the dialects.
import type { IncomingHttpHeaders, IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { TLSSocket } from 'node:tls';
import { WebSocketServer, type WebSocket } from 'ws';
import type { ApiKey } from '../access/api-keys.js';
import { bytesPerByte, type BodyMemory, type BodyShare } from '../body/body-memory.js';
import type { ReplyMemory } from '../body/reply-memory.js';
import { RecuaError } from '../../errors.js';
import type { Traffic } from './traffic.js';

export interface SocketRoute {
  paths: readonly string[];
  open(socket: WebSocket, opener: Opener): void;
}

export interface Opener {
  /** Whether the key is still valid and has the same name. */
  mayGoOn: () => boolean;
  /**
   * Sends messages, as fast as the client reads. `of`: the reply that they belong to, for the
   * memory of replies.
   * @throws RecuaError `body_memory_full`
   */
  send: (texts: readonly string[], of: object) => Promise<void>;
  /** Name of the key. */
  by: string | undefined;
  /** Name of the key, or without keys the address: those with the same share what there is. */
  who: string;
  headers: IncomingHttpHeaders;
}

export interface SocketLimits {
  /** Charged for messages while they arrive. */
  memory: BodyMemory;
  /** Charged for messages that the client has not read. */
  replies: ReplyMemory;
  traffic: Traffic;
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
/** Most of those for one API key, or for one address without keys. */
const mostSocketsOfOne = 16;
/** Of a ping or pong from a client. */
const controlHeaderBytes = 6;
/** What a client may still send to a socket that closes: its own close frame, and some pongs. */
const mostClosingBytes = 1_024;
/** How long a client that sends more may take to read why its socket closes. */
const closingMs = 1_000;
/** Bytes buffered in a socket before the next message waits. */
const highWaterBytes = 65_536;
/** WebSocket close code: try again later. */
const tryLater = 1013;

export class Upgrades {
  readonly #routes = new Map<string, Added>();
  /** Who opened each socket: the name of the key, or the address. */
  readonly #openers = new WeakMap<WebSocket, string>();
  /** The responses that a connection still owes. */
  readonly #owed = new WeakMap<Duplex, Set<ServerResponse>>();
  /** Connections whose last request is read again. */
  readonly #rereading = new WeakSet<Duplex>();
  /** The response to the last request of a connection. */
  readonly #last = new WeakMap<Duplex, ServerResponse>();
  #isOver = false;

  add(route: SocketRoute, limits: SocketLimits): void {
    const sockets = new WebSocketServer({ noServer: true, maxPayload: limits.mostMessageBytes });
    for (const path of route.paths) this.#routes.set(path, { ...route, ...limits, sockets });
  }

  listenTo(server: Server): void {
    const count = ({ socket }: IncomingMessage, res: ServerResponse): void => {
      const owed = this.#owed.get(socket) ?? new Set();
      this.#owed.set(socket, owed.add(res));
      this.#last.set(socket, res);
      this.#rereading.delete(socket);
      res.once('close', () => owed.delete(res));
    };
    server.on('request', count).on('checkContinue', count).on('checkExpectation', count);
    server.on('upgrade', (req, socket, head) => {
      // It would overtake the responses before it, or be read again for ever.
      if ((this.#owed.get(socket)?.size ?? 0) > 0 || this.#rereading.has(socket)) return void socket.destroy();
      const path = (req.url ?? '').split('?', 1)[0]!;
      const route = asksForWebSocket(req) ? this.#routes.get(path) : undefined;
      const opener = route?.mayOpen(req.headers);
      const who = opener?.key?.name ?? req.socket.remoteAddress ?? '';
      if (!route || this.#isOver || !opener || !this.#hasRoom(route, who)) {
        this.#rereading.add(socket);
        return readAgain(server, req, socket, head);
      }
      route.sockets.handleUpgrade(req, socket, head, (opened) => {
        this.#openers.set(opened, who);
        chargeMessages(opened, socket, route.memory, who);
        stopReadingClosed(opened, socket);
        route.traffic.watch({
          socket: req.socket,
          once: (event, listener) => opened.once(event, listener),
          destroy: () => opened.terminate(),
        });
        route.open(opened, {
          mayGoOn: () => {
            const now = route.mayOpen(req.headers);
            return now !== undefined && now.key?.name === opener.key?.name;
          },
          send: chargingSend(opened, socket, route.replies, who),
          by: opener.key?.name,
          who,
          headers: req.headers,
        });
      });
    });
  }

  /**
   * Whether a response has begun, and it or its request is not over: an error written now would be
   * read as part of it, or be a second response to one request.
   */
  isAnswering(socket: Duplex): boolean {
    const last = this.#last.get(socket);
    const isOver = last?.req.complete ?? true;
    return [...this.#owed.get(socket) ?? [], ...(isOver ? [] : [last!])].some((res) => res.headersSent);
  }

  #hasRoom({ sockets: { clients } }: Added, who: string): boolean {
    return clients.size < mostSockets && [...clients].filter((one) => this.#openers.get(one) === who).length < mostSocketsOfOne;
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

/** Charges the bytes of each message until it is complete; then its receiver holds it. */
function chargeMessages(socket: WebSocket, raw: Duplex, memory: BodyMemory, who: string): void {
  let share: BodyShare | undefined;
  const refuse = (error: RecuaError): void => {
    socket.close(tryLater, error.code);
    // Until it ends it keeps the message so far, which counts no more.
    endSoon(socket);
  };
  const release = (): void => {
    share?.release();
    share = undefined;
  };
  // Before the listener of the socket, which reports messages.
  raw.prependListener('data', (chunk: Buffer) => {
    if (socket.readyState !== socket.OPEN) return;
    if (!share) {
      share = memory.open(who);
      share.onRefusal = refuse;
    }
    try {
      share.add(chunk.length * bytesPerByte);
    } catch (thrown) {
      refuse(RecuaError.from(thrown));
    }
  });
  // A ping or pong, perhaps in the middle of a message: its own bytes are gone, and nothing else.
  const refund = (data: Buffer): void => {
    share?.add(-bytesPerByte * (controlHeaderBytes + data.length));
    if (share && share.bytes <= 0) release();
  };
  socket.on('message', release).on('close', release).on('ping', refund).on('pong', refund);
}

/**
 * A socket that closes would go on collecting a message, which nothing charges, until its client
 * answers the close frame.
 */
function stopReadingClosed(socket: WebSocket, raw: Duplex): void {
  let bytes = 0;
  raw.prependListener('data', (chunk: Buffer) => {
    if (socket.readyState === socket.OPEN) return;
    bytes += chunk.length;
    if (bytes <= mostClosingBytes || socket.isPaused) return;
    socket.pause();
    endSoon(socket);
  });
}

/** Gives the client of a socket that closes a moment to read why. */
function endSoon(socket: WebSocket): void {
  const timer = setTimeout(() => socket.terminate(), closingMs);
  socket.once('close', () => clearTimeout(timer));
}

/** Charges what the socket buffers, and what waits for that, as an unread reply. */
function chargingSend(socket: WebSocket, raw: Duplex, replies: ReplyMemory, who: string): Opener['send'] {
  let reply: object = raw;
  let waitingBytes = 0;
  const hold = (): void => replies.hold(raw, who, socket.bufferedAmount + waitingBytes, reply);
  const recount = (): void => {
    if (raw.destroyed) return;
    try {
      hold();
    } catch {
      socket.terminate();
    }
  };
  // It was answered with a pong, which a client may also leave unread.
  socket.on('ping', recount);
  return async (texts, of) => {
    reply = of;
    waitingBytes = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
    try {
      for (const text of texts) {
        if (socket.readyState !== socket.OPEN) return;
        hold();
        waitingBytes -= Buffer.byteLength(text);
        await new Promise<void>((resolve) => {
          socket.send(text, () => {
            recount();
            resolve();
          });
          if (socket.bufferedAmount < highWaterBytes) resolve();
        });
      }
    } finally {
      waitingBytes = 0;
    }
  };
}

export function asksForWebSocket({ method, headers }: Pick<IncomingMessage, 'method' | 'headers'>): boolean {
  return method === 'GET' && headers.upgrade?.toLowerCase() === 'websocket';
}

/** The headers that make a request an upgrade: Node's parser takes one for the other. */
const connectionHeaders = new Set(['connection', 'proxy-connection']);

/** Replays the request without the word in them that makes it an upgrade. */
function readAgain(server: Server, { method, url, httpVersion, rawHeaders }: IncomingMessage, socket: Duplex, head: Buffer): void {
  const lines = [`${method} ${url} HTTP/${httpVersion}`];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const [name, value] = [rawHeaders[at]!, rawHeaders[at + 1]!];
    const isConnection = connectionHeaders.has(name.toLowerCase());
    const words = isConnection ? value.split(',').filter((word) => word.trim().toLowerCase() !== 'upgrade').join(',') : value;
    if (!isConnection || words.trim() !== '') lines.push(`${name}: ${words}`);
  }
  socket.unshift(Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), head]));
  server.emit(socket instanceof TLSSocket ? 'secureConnection' : 'connection', socket);
}
