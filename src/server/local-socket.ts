// Listens on a Unix socket, private to its user unless `socketMode` says otherwise. A socket left
// by a killed server is replaced; the socket of a running one is not.
import { randomUUID } from 'node:crypto';
import { lstatSync, renameSync, rmSync } from 'node:fs';
import { connect, type Server } from 'node:net';
import { resolve } from 'node:path';
import { RecuaError } from '../errors.js';
import { tryLock } from '../system/lock-file.js';

/** The longest path of a socket, without its terminating zero. */
const mostPathBytes = process.platform === 'darwin' ? 103 : 107;

export interface LocalSocket {
  path: string;
  /** Instead of the server's own `close`. */
  close(closed: () => void): void;
}

/**
 * `mode`: its permissions, as three octal digits.
 * @throws RecuaError `port_in_use` if another server listens there, or the path is another file
 */
export async function listenLocally(server: Server, given: string, mode: string): Promise<LocalSocket> {
  if (process.platform === 'win32') throw new RecuaError('invalid_usage', `Expected an address for --host, got the socket ${given}: HTTP clients cannot use Unix sockets on Windows.`);
  if (given === '') throw new RecuaError('invalid_usage', 'Expected the path of a socket after unix: in --host, got none.');
  const path = resolve(given);
  if (Buffer.byteLength(path) > mostPathBytes) throw new RecuaError('invalid_usage', `Expected a path of at most ${mostPathBytes} bytes for the socket of --host, got ${path}.`);
  // Without the lock, two servers that find an old socket would both replace it.
  const lock = await tryLock(`${path}.lock`).catch((cause: Error) => { throw unusable(path, cause); });
  if (!lock) throw new RecuaError('port_in_use', `Another server is about to listen on the socket ${path}.`);
  try {
    await makeRoom(path);
    await listenWith(server, path, 0o777 & ~Number.parseInt(mode, 8));
  } finally {
    await lock.release();
  }
  const own = inodeAt(path);
  return { path, close: (closed) => closeBeside(server, path, own, closed) };
}

/**
 * Node removes whatever is at the path, even the socket that another server has put there since.
 */
function closeBeside(server: Server, path: string, own: number | undefined, closed: () => void): void {
  const there = inodeAt(path);
  const aside = `${path}.${randomUUID()}`;
  let isAside = false;
  if (there !== undefined && there !== own) {
    try {
      renameSync(path, aside);
      isAside = true;
    } catch { /* What cannot be renamed cannot be removed either. */ }
  }
  server.close(closed);
  if (isAside) renameSync(aside, path);
}

function inodeAt(path: string): number | undefined {
  return lstatSync(path, { throwIfNoEntry: false })?.ino;
}

async function listenWith(server: Server, path: string, umask: number): Promise<void> {
  await new Promise<void>((done, reject) => {
    server.once('error', (cause) => reject(unusable(path, cause)));
    // Set before listening, since clients that connect before a chmod would stay connected.
    const before = process.umask(umask);
    try {
      server.listen(path, done);
    } finally {
      process.umask(before);
    }
  });
}

async function makeRoom(path: string): Promise<void> {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (!found) return;
  if (!found.isSocket()) throw new RecuaError('port_in_use', `${path} exists and is not a socket. Remove it, or choose another path with --host.`);
  if (await answers(path)) throw new RecuaError('port_in_use', `Another server listens on the socket ${path}. Stop it, or choose another path with --host.`);
  try {
    rmSync(path, { force: true });
  } catch (cause) {
    throw unusable(path, cause as Error);
  }
}

/** Only a refused connection, or a missing file, proves that no server listens. */
function answers(path: string): Promise<boolean> {
  return new Promise((done) => {
    const socket = connect(path);
    socket.once('connect', () => { socket.destroy(); done(true); });
    socket.once('error', ({ code }: NodeJS.ErrnoException) => done(code !== 'ECONNREFUSED' && code !== 'ENOENT'));
  });
}

function unusable(path: string, cause: Error): RecuaError {
  return new RecuaError('address_unavailable', `Cannot listen on the socket ${path}: ${cause.message}.`, { cause });
}
