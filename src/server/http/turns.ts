// HTTP/1.1 lets a client send its next request before the last is answered (pipelining). Answers go
// out in order, so a request waits here until it is its connection's turn: work begun earlier would
// outlive a client that goes away, since Node tells only the response that has the socket of the
// socket's end. Express middleware, mounted first by app.
import type { Socket } from 'node:net';
import type { NextFunction, Request, Response } from 'express';

/**
 * Requests that may wait behind each other on one connection. One that sends more has its
 * connection closed.
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
        // The client is gone, or the connection ends after that answer: this one gets no socket,
        // nor do those behind it.
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
