// Whether a request comes from this machine. The address of a TCP socket is unknown once its client
// has reset the connection, as it always is for a Unix socket: listen marks those. Gateway process.
import type { Socket } from 'node:net';
import type { Request } from 'express';

const unixSockets = new WeakSet<Socket>();

/** For a server's event 'connection', if it listens on a Unix socket. */
export function markUnixSocket(socket: Socket): void {
  unixSockets.add(socket);
}

export function isRemote({ socket, headers }: Pick<Request, 'socket' | 'headers'>): boolean {
  // A proxy on this machine names the client.
  if (headers.forwarded !== undefined || headers['x-forwarded-for'] !== undefined) return true;
  const address = socket.remoteAddress?.replace(/^::ffff:/, '');
  if (address === undefined) return !unixSockets.has(socket);
  return address !== '::1' && !address.startsWith('127.');
}
