// HTTP/1.1 lets a client send its next request before the last is answered (pipelining). Replies go
// out in order, so a request waits here until its connection gets to it. If it started earlier, its
// work would continue after the client disconnects, since Node reports the end of a socket only to
// the response that holds it. Express middleware, mounted first by app.
import type { Socket } from 'node:net';
import type { NextFunction, Request, Response } from 'express';

/**
 * Most requests that may wait on one connection; with more, the connection is closed.
 */
const mostWaiting = 64;

interface Line {
  last: Response;
  waiting: number;
}

export function inTurn(): (req: Request, res: Response, next: NextFunction) => void {
  const lines = new WeakMap<Socket, Line>();
  return (req, res, next) => {
    const { socket } = req;
    if (socket.destroyed) return;
    const line = lines.get(socket);
    if (!line) {
      const own: Line = { last: res, waiting: 0 };
      lines.set(socket, own);
      leave(own);
      next();
    } else if (line.waiting >= mostWaiting) {
      socket.destroy();
    } else {
      const before = line.last;
      line.last = res;
      line.waiting++;
      before.once('close', () => {
        line.waiting--;
        // The client is gone, or the connection closes after that reply: neither this request nor
        // the ones after it get the socket.
        if (socket.destroyed || !res.socket) return;
        leave(line);
        next();
      });
    }

    function leave(line: Line): void {
      res.once('close', () => {
        if (line.last === res) lines.delete(socket);
      });
    }
  };
}
