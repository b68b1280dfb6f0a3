// `recua serve install` and `uninstall`: let the system start the server at each login, and again
// if it exits.
import { existsSync } from 'node:fs';
import { readFile, readlink, rm } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { RecuaError } from '../../errors.js';
import { findPlaces, standardFolder } from '../../models/places.js';
import { shellWord } from '../../models/names/shell-word.js';
import { afterDrainSeconds } from '../../settings/stop-time.js';
import { serverFlags } from '../commands/api.js';
import { flagWord, misuse, quote, type Flag } from '../flags/flags.js';
import { print, say } from '../terminal/output.js';
import { createFolder } from '../../system/create-folder.js';
import { homeFolder } from '../../system/home-folder.js';
import { nodePath } from '../../system/programs.js';
import { readModelsFile } from '../flags/models-file.js';
import { canSet, fileBounds, hasManager, ownFolders, plainBounds } from './sandbox.js';
import { launchdAgent, systemdUnit, type Service } from './service-file.js';
import { checkedServing, fileKeys, mainPath, placeVariables, type StartRequest } from './start.js';

/** What is written where, how to enable it, and how to stop it. */
interface Target {
  path: string;
  /** A link to it, which enabling makes. */
  link?: string;
  text(service: Service): string;
  enable: readonly string[];
  /** Lets a service that may run already take a new file. */
  restart: readonly string[];
  stop: readonly string[];
  isSystemd: boolean;
}

const label = 'com.recua.server';
/** Variables about the hub. Proxies and the hub's address may have a password before an `@`. */
const hubVariables = ['HF_ENDPOINT', 'HF_HUB_OFFLINE', 'HUB_TOKEN', 'HF_TOKEN', ...['http_proxy', 'https_proxy', 'all_proxy', 'no_proxy'].flatMap((name) => [name, name.toUpperCase()])];

function target(platform = process.platform): Target {
  if (platform === 'linux') {
    const units = join(standardFolder('XDG_CONFIG_HOME') ?? join(homeFolder(), '.config'), 'systemd', 'user');
    return {
      path: join(units, 'recua.service'), link: join(units, 'default.target.wants', 'recua.service'),
      isSystemd: true, text: systemdUnit,
      enable: ['systemctl --user daemon-reload', 'systemctl --user enable --now recua', 'loginctl enable-linger      # also while you are not logged in'],
      restart: ['systemctl --user daemon-reload', 'systemctl --user enable recua', 'systemctl --user restart recua'],
      stop: ['systemctl --user stop recua', 'systemctl --user daemon-reload'],
    };
  }
  if (platform === 'darwin') {
    const path = join(homeFolder(), 'Library', 'LaunchAgents', `${label}.plist`);
    const [begin, end] = [`launchctl bootstrap gui/$(id -u) ${shellWord(path)}`, `launchctl bootout gui/$(id -u)/${label}`];
    return {
      isSystemd: false, path, text: (service) => launchdAgent(service, label, join(findPlaces().state, 'launchd.log')),
      enable: [begin], restart: [end, begin], stop: [end],
    };
  }
  throw misuse('recua serve install writes a systemd unit (Linux) or a launchd agent (macOS). On this system, let the task scheduler run: recua serve start');
}

export async function install(
  { names, values, given }: StartRequest,
  { printed, force }: { printed: boolean; force: boolean },
): Promise<number> {
  const { path, text, enable, restart, isSystemd } = target();
  if (given.has('apiKey'))
    throw misuse(
      'An API key does not belong in a file that others may read: put it in a file of your own and give that with --api-key-file.',
    );
  await checkedServing({ names, values });
  const whole = { ...values, ...Object.fromEntries(fileKeys.map((key) => [key, values[key] === '' ? '' : resolve(values[key])])) };
  const flags = Object.entries<Flag<unknown>>(serverFlags).filter(([key]) => given.has(key as keyof typeof values) && key !== 'model');
  const folder = process.cwd();
  const hub = hubVariables.flatMap((name) => (process.env[name] ? [[name, process.env[name]] as const] : []));
  const isSecret = ([name, value]: readonly [string, string]): boolean => name.endsWith('TOKEN') || value.includes('@');
  const variables = { ...placeVariables(), ...Object.fromEntries(hub.filter((one) => !isSecret(one))) };
  const secret = hub.filter(isSecret).map(([name]) => name);
  const own = isSystemd ? ownFolders(values) : [];
  if (!printed) for (const one of own) await makeOwn(one);
  const ofFiles = isSystemd ? fileBounds([...names, ...(await pathsIn(values.models))], values, folder) : [];
  const bounds =
    isSystemd && (await canSet([...plainBounds, ...ofFiles], variables, [nodePath(), mainPath]))
      ? [...plainBounds, ...ofFiles]
      : plainBounds;
  if (isSystemd) checkPaths(folder, bounds.flat());
  const written = text({
    command: [nodePath(), mainPath, 'api', ...names, ...flags.map(([key, flag]) => flagWord(flag, whole[key as keyof typeof whole]))],
    folder,
    variables,
    stopSeconds: values.drainSeconds + afterDrainSeconds,
    bounds,
  });
  if (isSystemd && !(await hasManager()))
    say(
      'Warning: no systemd answers for this user, so systemctl --user will fail here. In a container, or as root without a login session, use a system service: docs/deployment.md.',
    );
  else if (isSystemd && bounds === plainBounds)
    say('Note: the service will be able to write to all your files, because systemd on this machine cannot restrict user services.');
  if (secret.length > 0) say(`Note: without ${secret.join(', ')}, since secrets do not belong in such a file. The token for the hub can be in ${findPlaces().tokenFile}.`);
  if (printed) {
    const missing = bounds === plainBounds ? [] : own.filter((one) => !existsSync(one));
    if (missing.length > 0) say(`Note: create these folders before the service starts: ${missing.map(shellWord).join(' ')}`);
    await print(written);
    return 0;
  }
  const before = await readFile(path, 'utf8').catch(() => undefined);
  if (before !== undefined && before !== written && !force)
    throw new RecuaError('server_failed', `${path} already exists with other settings. --force replaces it.`);
  try {
    await createFolder(dirname(path));
    // A write that fails leaves an earlier unit as it was.
    const { default: writeFileAtomic } = await import('write-file-atomic');
    await writeFileAtomic(path, written, { mode: 0o600 });
  } catch (cause) {
    throw new RecuaError('server_failed', `${path} cannot be written: ${(cause as Error).message}.`, { cause });
  }
  const isReplaced = before !== undefined && before !== written;
  say(isReplaced ? `Replaced ${path}. So that a server that runs gets the new settings:` : `Wrote ${path}. To enable it:`);
  for (const line of isReplaced ? restart : enable) say(`  ${line}`);
  return 0;
}

async function makeOwn(folder: string): Promise<void> {
  await createFolder(folder).catch((cause: Error) => {
    throw new RecuaError('file_unreadable', `The server's folder ${folder} cannot be made: ${cause.message}.`, { cause });
  });
}

/** What may be paths in the models file. */
async function pathsIn(modelsFile: string): Promise<string[]> {
  if (modelsFile === '') return [];
  const { folder, models } = await readModelsFile(modelsFile);
  return [...models.values()].flatMap(({ model, templatePath }) => [
    resolve(folder, model),
    ...(templatePath === undefined ? [] : [templatePath]),
  ]);
}

/** Refuses what ends a line: the rest of the path would be a setting of the unit. */
function checkPaths(folder: string, others: readonly string[]): void {
  const wrong = /[\\\s]$/.test(folder) ? folder : [folder, ...others].find((path) => /[\n\r]/.test(path));
  if (wrong !== undefined) throw misuse(`A systemd unit cannot hold the path ${quote(wrong)}: expected no line break in it, nor a blank or backslash at the end of the current folder. Rename it.`);
}

export async function uninstall(): Promise<number> {
  const { path, link, stop } = target();
  const text = await readFile(path, 'utf8').catch(() => undefined);
  const isThere = text !== undefined;
  if (isThere && !text.includes('Written by recua serve install')) throw new RecuaError('server_failed', `${path} was not written by recua serve install. If you do not need it, remove it yourself.`);
  await rm(path, { force: true });
  if (link && await readlink(link).then(() => true, () => false)) await rm(link, { force: true });
  say(isThere ? `Removed ${path}. If the system still runs it, stop it:` : `There is no ${path}.`);
  if (isThere) for (const line of stop) say(`  ${line}`);
  return 0;
}
