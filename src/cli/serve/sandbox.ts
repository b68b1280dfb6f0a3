// The bounds in which systemd runs a server that `recua serve install` has it start: a read-only
// file system but for a few folders, and a temporary folder of its own. A user's manager can do
// that only where users may have namespaces, and a service with bounds that cannot be set does not
// start at all. So it is tried beforehand, by the very manager and with the very bounds.
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join, resolve, sep } from 'node:path';
import { promisify } from 'node:util';
import { findPlaces } from '../../models/places.js';
import { socketPath } from '../../settings/address.js';
import type { ServerValues } from '../commands/api.js';

const run = promisify(execFile);
const longestTryMs = 30_000;

/** Sees only what is its own, with PrivateTmp. */
const temporary = ['/tmp', '/var/tmp'];

/** A line of the unit: its name, and words that may hold anything. */
export type Bound = readonly [name: string, ...words: string[]];

/** They filter system calls alone, which any manager can do. */
export const plainBounds: readonly Bound[] = [
  ['NoNewPrivileges', 'true'],
  // AF_NETLINK tells which addresses the machine has.
  ['RestrictAddressFamilies', 'AF_UNIX', 'AF_INET', 'AF_INET6', 'AF_NETLINK'],
  ['RestrictRealtime', 'true'],
  ['RestrictSUIDSGID', 'true'],
  ['LockPersonality', 'true'],
  ['SystemCallArchitectures', 'native'],
];

/**
 * Where the server writes with these settings, and that of files. No MemoryDenyWriteExecute, since
 * V8 writes code, and no PrivateDevices, which would hide GPUs.
 */
export function fileBounds(names: readonly string[], values: ServerValues, folder: string): readonly Bound[] {
  const { hub, sessions, state } = findPlaces();
  const own = [hub, sessions, state, ...(values.logFile === '' ? [] : [dirname(resolve(values.logFile))])];
  // A folder that is not there cannot be made later.
  for (const one of own) mkdirSync(one, { recursive: true });
  const socket = socketPath(values.host);
  // Engines take turns by a file of the session; drivers keep what they have compiled.
  const others = [
    values.slotSavePath, socket === undefined ? '' : dirname(socket), process.env['XDG_RUNTIME_DIR'] ?? '',
    ...['.nv', join('.cache', 'mesa_shader_cache'), join('.cache', 'nvidia')].map((name) => join(homedir(), name)),
  ];
  const writable = [...new Set([...own, ...others.filter((path) => path !== '').map((path) => resolve(path)).filter((path) => existsSync(path))])];
  const read = [folder, ...names.map((name) => resolve(name)).filter((path) => existsSync(path)), ...[values.apiKeyFile, values.tlsCert, values.tlsKey, values.models].filter((path) => path !== '').map((path) => resolve(path))];
  const isShared = [...writable, ...read].some((path) => temporary.some((one) => `${path}${sep}`.startsWith(`${one}${sep}`)));
  return [
    ['ProtectSystem', 'strict'],
    ['ReadWritePaths', ...writable, ...(isShared ? temporary : [])],
    ...(isShared ? [] : [['PrivateTmp', 'true'] as const]),
    ['ProtectKernelTunables', 'true'],
    ['ProtectControlGroups', 'true'],
  ];
}

/**
 * Whether the user's manager sets these bounds here, and the server would find the devices there
 * that it finds without them.
 */
export async function canSet(bounds: readonly Bound[], variables: Readonly<Record<string, string>>, [program, main]: readonly [string, string]): Promise<boolean> {
  const ask = [main, 'api', '--list-devices', '--json'];
  const properties = bounds.map((bound) => `--property=${boundLine(bound)}`);
  const set = Object.entries(variables).map(([name, value]) => `--setenv=${name}=${value}`);
  try {
    const options = { timeout: longestTryMs, env: { ...process.env, ...variables } };
    const inside = await run('systemd-run', ['--user', '--wait', '--pipe', '--collect', '--quiet', ...set, ...properties, '--', program, ...ask], options);
    const outside = await run(program, ask, options);
    return devicesIn(inside.stdout) === devicesIn(outside.stdout);
  } catch {
    return false;
  }
}

function devicesIn(json: string): string {
  const { devices } = JSON.parse(json) as { devices: { name: string; backend: string }[] };
  return devices.map(({ name, backend }) => `${backend} ${name}`).join('\n');
}

/** As a unit's line has it, but for percent signs, which are specifiers only there. */
export function boundLine([name, ...words]: Bound): string {
  return `${name}=${words.map((word) => (/^[\w./:-]+$/.test(word) ? word : `"${word.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`)).join(' ')}`;
}
