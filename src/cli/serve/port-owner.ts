// Finds the program that listens on a port, if the system shows it, for the error that the port is
// in use. Used by `recua api`.
import { execFile } from 'node:child_process';
import { readFile, readdir, readlink } from 'node:fs/promises';
import { basename } from 'node:path';
import { promisify } from 'node:util';
import { RecuaError } from '../../errors.js';
import { reachable } from '../servers/connection.js';
import { runningServers } from '../servers/registry.js';
import { ServerClient } from '../servers/server-client.js';
import { plain } from '../terminal/wording.js';

export interface PortOwner {
  pid: number;
  /** Name of its program: `nginx`. */
  name: string;
}

const execute = promisify(execFile);
/** A server that does not identify itself as Recua within this time counts as another program. */
const askMs = 1_000;
const mostNamed = 3;

/** The same error, naming the program that has the port. */
export async function describePortInUse(error: RecuaError, host: string, port: number): Promise<RecuaError> {
  const owner = await portOwner(port).catch(() => undefined);
  const models = await servedByRecua(host, port, owner?.pid).catch(() => undefined);
  const pid = owner === undefined ? '' : `, pid ${owner.pid},`;
  const who = models !== undefined ? `Another recua${pid}${servesText(models)} listens`
    : owner !== undefined ? `${owner.name} (pid ${owner.pid}) listens`
      : 'Another program, perhaps of another user, listens';
  return new RecuaError('port_in_use', `${who} on ${host} port ${port}. Stop it, or choose another port with --port.`, { cause: error });
}

function servesText(models: readonly string[]): string {
  if (models.length === 0) return '';
  const named = models.slice(0, mostNamed).join(', ');
  return ` which serves ${named}${models.length > mostNamed ? ` and ${models.length - mostNamed} more` : ''},`;
}

/** The process that listens on this port; undefined if the system does not show it. */
export async function portOwner(port: number): Promise<PortOwner | undefined> {
  if (process.platform === 'linux') return await linuxOwner(port);
  return process.platform === 'win32' ? await windowsOwner(port) : await unixOwner(port);
}

/** The models of the Recua server on this port; undefined for other programs. */
async function servedByRecua(host: string, port: number, owner: number | undefined): Promise<string[] | undefined> {
  const registered = owner === undefined ? undefined : (await runningServers()).find(({ pid }) => pid === owner);
  const url = reachable(`http://${host.includes(':') ? `[${host}]` : host}:${port}`);
  const reply = await new ServerClient(registered ?? { url, key: undefined, certificate: undefined }).getJson('/v1/models', askMs).catch(() => undefined);
  const { data } = (reply ?? {}) as { data?: { id?: unknown; owned_by?: unknown }[] };
  const models = Array.isArray(data) ? data.filter((model) => model?.owned_by === 'recua').map(({ id }) => plain(String(id))) : [];
  return registered || models.length > 0 ? models : undefined;
}

async function linuxOwner(port: number): Promise<PortOwner | undefined> {
  const tables = await Promise.all(['/proc/net/tcp', '/proc/net/tcp6'].map((path) => readFile(path, 'utf8').catch(() => '')));
  const sockets = new Set(tables.flatMap((table) => listeningSockets(table, port)).map((inode) => `socket:[${inode}]`));
  if (sockets.size === 0) return undefined;
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number)) {
    // Only the owner of a process and root see its files.
    const files = await readdir(`/proc/${pid}/fd`).catch(() => []);
    for (const file of files) {
      const target = await readlink(`/proc/${pid}/fd/${file}`).catch(() => '');
      if (sockets.has(target)) return { pid, name: await linuxName(pid) };
    }
  }
  return undefined;
}

/** Inodes of the sockets in state 0A (listening) with this port, from the text of /proc/net/tcp. */
export function listeningSockets(table: string, port: number): string[] {
  const wanted = port.toString(16).toUpperCase().padStart(4, '0');
  return table.split('\n').slice(1).map((line) => line.trim().split(/\s+/))
    .filter((fields) => fields[3] === '0A' && fields[1]?.endsWith(`:${wanted}`))
    .flatMap((fields) => (fields[9] === undefined || fields[9] === '0' ? [] : [fields[9]]));
}

/** The program's file name; a thread may have renamed the process. */
async function linuxName(pid: number): Promise<string> {
  const program = await readlink(`/proc/${pid}/exe`).catch(() => '');
  return basename(program).replace(/ \(deleted\)$/, '') || (await readFile(`/proc/${pid}/comm`, 'utf8').catch(() => 'a program')).trim();
}

async function unixOwner(port: number): Promise<PortOwner | undefined> {
  const { stdout } = await execute('lsof', ['-nP', `-iTCP:${port}`, '-sTCP:LISTEN', '-Fpc']);
  const pid = /^p(\d+)$/m.exec(stdout)?.[1];
  return pid === undefined ? undefined : { pid: Number(pid), name: /^c(.+)$/m.exec(stdout)?.[1] ?? 'a program' };
}

async function windowsOwner(port: number): Promise<PortOwner | undefined> {
  const { stdout } = await execute('netstat', ['-ano', '-p', 'TCP'], { windowsHide: true });
  const fields = stdout.split('\n').map((line) => line.trim().split(/\s+/)).find((one) => one[1]?.endsWith(`:${port}`) && /^0\.0\.0\.0:0$|^\[::\]:0$/.test(one[2] ?? ''));
  if (fields === undefined) return undefined;
  const pid = Number(fields.at(-1));
  const tasks = await execute('tasklist', ['/FI', `PID eq ${pid}`, '/FO', 'CSV', '/NH'], { windowsHide: true });
  return { pid, name: /^"([^"]+)"/.exec(tasks.stdout.trim())?.[1] ?? 'a program' };
}
