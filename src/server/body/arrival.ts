// Ends requests whose body arrives too slowly, so that slow clients do not hold sockets. Node's own
// limit (`requestTimeout`) would also end the long upload of a large file. Called by listen.
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { hasBody } from './json-body.js';

const limits = {
  /** Within this time a body may arrive as it likes. */
  freeMs: 5 * 60_000,
  /** A body that takes longer must have arrived at this speed, on average from its beginning. */
  leastBytesPerSecond: 64 * 1024,
  /** Between two looks at a body that takes longer. */
  checkMs: 30_000,
};

/**
 * `late` is called for a body that is too slow, and again after `checkMs` as long as the connection
 * is still open.
 */
export function watchArrivals(server: Server, late: (req: IncomingMessage) => void, own: Partial<typeof limits> = {}): void {
  const { freeMs, leastBytesPerSecond, checkMs } = { ...limits, ...own };
  const stopping = new WeakMap<Socket, Set<() => void>>();
  /** Called when the connection closes. One listener for all of its requests. */
  const stopsOf = (socket: Socket): Set<() => void> => {
    const known = stopping.get(socket);
    if (known) return known;
    const stops = new Set<() => void>();
    stopping.set(socket, stops);
    socket.once('close', () => stops.forEach((stop) => stop()));
    return stops;
  };
  const watch = (req: IncomingMessage, res: ServerResponse): void => {
    if (!hasBody(req)) return;
    const { socket } = req;
    let beforeBytes = socket.bytesRead;
    let startMs = performance.now();
    let hasWaited = false;
    const check = (): void => {
      if (req.complete || socket.destroyed) return;
      // The client sent it before the reply to its last request was complete (pipelining).
      const waits = !res.socket && !res.writableEnded;
      if (waits || hasWaited) {
        hasWaited = waits;
        beforeBytes = socket.bytesRead;
        startMs = performance.now();
        timer = setTimeout(check, waits ? checkMs : freeMs).unref();
        return;
      }
      const dueBytes = (performance.now() - startMs) / 1_000 * leastBytesPerSecond;
      // After the reply, nobody needs the rest.
      if (res.writableEnded || socket.bytesRead - beforeBytes < dueBytes) late(req);
      timer = setTimeout(check, checkMs).unref();
    };
    let timer = setTimeout(check, freeMs).unref();
    const stop = (): void => {
      clearTimeout(timer);
      stops.delete(stop);
    };
    // A request that was answered before all of it arrived does not close with its connection.
    const stops = stopsOf(socket);
    stops.add(stop);
    req.once('close', stop);
  };
  for (const event of ['request', 'checkContinue', 'checkExpectation']) server.on(event, watch);
}
