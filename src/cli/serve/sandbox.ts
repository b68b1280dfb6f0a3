// The systemd sandbox of a server installed by `recua serve install`: a file system that is
// read-only except for a few folders, and a private temporary folder. A user's systemd can set this
// up only if users may create namespaces, and a service whose sandbox fails does not start at all.
// So install tries the same sandbox first, with the same systemd.
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join, resolve, sep } from 'node:path';
import { promisify } from 'node:util';
import { findPlaces, pathIn } from '../../models/places.js';
import { socketPath } from '../../settings/address.js';
import type { ServerValues } from '../commands/api.js';
import { configPath } from '../flags/settings.js';
import { homeFolder } from '../../system/home-folder.js';

const run = promisify(execFile);
const longestTryMs = 30_000;

/** Folders that PrivateTmp replaces with private ones. */
const temporary = ['/tmp', '/var/tmp'];

/** A line of the unit: its name and its values, which may contain any characters. */
export type Bound = readonly [name: string, ...words: string[]];

/** These only filter system calls, which works for every user. */
export const plainBounds: readonly Bound[] = [
  ['NoNewPrivileges', 'true'],
  // AF_NETLINK lists the machine's addresses.
  ['RestrictAddressFamilies', 'AF_UNIX', 'AF_INET', 'AF_INET6', 'AF_NETLINK'],
  ['RestrictRealtime', 'true'],
  ['RestrictSUIDSGID', 'true'],
  ['LockPersonality', 'true'],
  ['SystemCallArchitectures', 'native'],
];

/** Folders that the server writes to, which the sandbox cannot create if they are missing. */
export function ownFolders(values: ServerValues): readonly string[] {
  const { hub, sessions, state } = findPlaces();
  return [hub, sessions, state, ...(values.logFile === '' ? [] : [dirname(resolve(values.logFile))])];
}

/**
 * Restricts files to what the server needs with these settings. `names` may be paths, also those of
 * the models file. MemoryDenyWriteExecute would break V8, which generates code; PrivateDevices
 * would hide GPUs.
 */
export function fileBounds(names: readonly string[], values: ServerValues, folder: string): readonly Bound[] {
  const socket = socketPath(values.host);
  // Engines take turns through a file in XDG_RUNTIME_DIR; drivers cache compiled code.
  const others = [
    values.slotSavePath, socket === undefined ? '' : dirname(socket), process.env['XDG_RUNTIME_DIR'] ?? '',
    ...['.nv', join('.cache', 'mesa_shader_cache'), join('.cache', 'nvidia')].map((name) => join(homeFolder(), name)),
  ];
  const writable = [...new Set([...ownFolders(values), ...others.filter((path) => path !== '').map((path) => resolve(path))])];
  const files = [values.apiKeyFile, values.tlsCert, values.tlsKey, values.models, values.chatTemplateFile, configPath(), findPlaces().tokenFile, pathIn('NODE_EXTRA_CA_CERTS') ?? ''];
  const read = [folder, ...names.map((name) => resolve(name)).filter((path) => existsSync(path)), ...files.filter((path) => path !== '').map((path) => resolve(path))];
  const isShared = [...writable, ...read].some((path) => temporary.some((one) => `${path}${sep}`.startsWith(`${one}${sep}`)));
  return [
    ['ProtectSystem', 'strict'],
    // Without the dash, the service would not start at all if one of them is gone.
    ['ReadWritePaths', ...[...writable, ...(isShared ? temporary : [])].map((path) => `-${path}`)],
    ...(isShared ? [] : [['PrivateTmp', 'true'] as const]),
    ['ProtectKernelTunables', 'true'],
    ['ProtectControlGroups', 'true'],
  ];
}

/**
 * Whether the user's systemd can set up this sandbox, and the server finds the same devices inside
 * as outside.
 */
export async function canSet(
  bounds: readonly Bound[],
  variables: Readonly<Record<string, string>>,
  [program, main]: readonly [string, string],
): Promise<boolean> {
  const ask = [main, 'api', '--list-devices', '--json'];
  const properties = bounds.map((bound) => `--property=${boundLine(bound)}`);
  const set = Object.entries(variables).map(([name, value]) => `--setenv=${name}=${value}`);
  try {
    const options = { timeout: longestTryMs, env: { ...process.env, ...variables } };
    const inside = await run(
      'systemd-run',
      ['--user', '--wait', '--pipe', '--collect', '--quiet', ...set, ...properties, '--', program, ...ask],
      options,
    );
    const outside = await run(program, ask, options);
    return devicesIn(inside.stdout) === devicesIn(outside.stdout);
  } catch {
    return false;
  }
}

/** Whether a systemd runs for this user. */
export async function hasManager(): Promise<boolean> {
  return await run('systemctl', ['--user', 'show', '--property=Version'], { timeout: longestTryMs }).then(() => true, () => false);
}

function devicesIn(json: string): string {
  const { devices } = JSON.parse(json) as { devices: { name: string; backend: string }[] };
  return devices.map(({ name, backend }) => `${backend} ${name}`).join('\n');
}

/** A line of a unit, without escaped percent signs: these are specifiers only in units. */
export function boundLine([name, ...words]: Bound): string {
  return `${name}=${words.map((word) => (/^[\w./:-]+$/.test(word) ? word : `"${word.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`)).join(' ')}`;
}
