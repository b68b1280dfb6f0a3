// Ends requests whose body arrives too slowly, so that slow clients do not hold sockets. Node's own
// limit (`requestTimeout`) would also end the long upload of a large file. Called by listen.
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
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
  const watch = (req: IncomingMessage, res: ServerResponse): void => {
    if (!hasBody(req)) return;
    const { socket } = req;
    const beforeBytes = socket.bytesRead;
    const startMs = performance.now();
    const check = (): void => {
      if (req.complete || socket.destroyed) return;
      const dueBytes = (performance.now() - startMs) / 1_000 * leastBytesPerSecond;
      // After the reply, nobody needs the rest.
      if (res.writableEnded || socket.bytesRead - beforeBytes < dueBytes) late(req);
      timer = setTimeout(check, checkMs).unref();
    };
    let timer = setTimeout(check, freeMs).unref();
    req.once('close', () => clearTimeout(timer));
  };
  for (const event of ['request', 'checkContinue', 'checkExpectation']) server.on(event, watch);
}
