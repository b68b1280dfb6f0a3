// Listening on a socket in the file system, which is private to its user unless the server is told
// otherwise. What a server that was killed has left there gives way; one that lives does not.
import { lstatSync, rmSync } from 'node:fs';
import { connect, type Server } from 'node:net';
import { resolve } from 'node:path';
import { RecuaError } from '../errors.js';
import { tryLock } from '../system/lock-file.js';

/** What systems take as the path of a socket, with its end. */
const mostPathBytes = process.platform === 'darwin' ? 103 : 107;

/**
 * Resolves to the socket's path. `mode`: its rights, as three octal digits.
 * @throws RecuaError `port_in_use` where another server listens there, or another file lies there
 */
export async function listenLocally(server: Server, given: string, mode: string): Promise<string> {
  if (process.platform === 'win32') throw new RecuaError('invalid_usage', `Expected an address for --host, got the socket ${given}: Windows has none that HTTP clients reach.`);
  if (given === '') throw new RecuaError('invalid_usage', 'Expected the path of a socket behind unix: of --host, got none.');
  const path = resolve(given);
  if (Buffer.byteLength(path) > mostPathBytes) throw new RecuaError('invalid_usage', `Expected a path of at most ${mostPathBytes} bytes for the socket of --host, got ${path}.`);
  // Of two servers that find an old socket both would put theirs in its place.
  const lock = await tryLock(`${path}.lock`).catch((cause: Error) => { throw unusable(path, cause); });
  if (!lock) throw new RecuaError('port_in_use', `Another server is about to listen on the socket ${path}.`);
  try {
    await makeRoom(path);
    await listenWith(server, path, 0o777 & ~Number.parseInt(mode, 8));
  } finally {
    await lock.release();
  }
  return path;
}

async function listenWith(server: Server, path: string, umask: number): Promise<void> {
  await new Promise<void>((done, reject) => {
    server.once('error', (cause) => reject(unusable(path, cause)));
    // From its first moment on: whoever opened it earlier would stay connected.
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
  if (!found.isSocket()) throw new RecuaError('port_in_use', `${path} is there already, and no socket. Remove it, or choose another path with --host.`);
  if (await answers(path)) throw new RecuaError('port_in_use', `Another server listens on the socket ${path}. Stop it, or choose another path with --host.`);
  try {
    rmSync(path, { force: true });
  } catch (cause) {
    throw unusable(path, cause as Error);
  }
}

/** Only a refusal tells that nobody is there. */
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
