// `recua serve start`: runs `recua api` in a process that outlives this one and the terminal.
// Returns when the server answers, or reports why it does not.
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { RecuaError } from '../../errors.js';
import { tryLock } from '../../system/lock-file.js';
import type { Lock } from '../../system/lock-file.js';
import { createFolder } from '../../system/create-folder.js';
import { nodePath } from '../../system/programs.js';
import { shellWord } from '../../models/names/shell-word.js';
import { pathIn, standardFolder } from '../../models/places.js';
import { socketPath } from '../../settings/address.js';
import { configSettings, makeConfig } from '../../settings/config.js';
import { ApiKeys } from '../../server/access/api-keys.js';
import { Visitors } from '../../server/access/visitors.js';
import { serverFlags } from '../commands/api.js';
import type { ServerValues } from '../commands/api.js';
import type { Flag } from '../flags/flags.js';
import { flagWord, misuse, settingNames, variableNames } from '../flags/flags.js';
import { settingValues } from '../flags/setting-flags.js';
import { LoadingLine, say } from '../terminal/output.js';
import { stopCode, watchSignals } from '../terminal/signals.js';
import type { StopSignal } from '../terminal/signals.js';
import { pageLines, reachable } from '../servers/connection.js';
import { recuaVersion } from '../commands/version.js';
import { askHealth } from './health.js';
import { curlLine, servingOf } from './serving.js';
import type { Serving } from './serving.js';
import { endOf, isWarning, messageOf, readLog } from './log-lines.js';
import type { LogEnd } from './log-lines.js';
import { readRecord } from './state-file.js';
import type { ServePlaces, ServerRecord } from './state-file.js';
import { ended, findStatus } from './status.js';
import { tryAddress } from './try-address.js';

const pollMs = 100;
/** The flags of `api`, with a smaller default context. */
export const startFlags = { ...serverFlags, contextSize: { ...serverFlags.contextSize, fallback: 2048 } } as const;
/** Values that name files. The server runs in another folder, so their paths are made absolute. */
export const fileKeys = ['models', 'chatTemplateFile', 'apiKeyFile', 'logFile', 'slotSavePath', 'tlsCert', 'tlsKey'] as const;
/** Those of them that name files to read. */
const readKeys = ['models', 'chatTemplateFile', 'apiKeyFile', 'tlsCert', 'tlsKey'] as const;
/** Lines of the log quoted when a start fails. */
const quotedLines = 10;
export const mainPath = fileURLToPath(new URL('../main.js', import.meta.url));

/** A request to start; `given` are the flags that were set, by any origin. */
export interface StartRequest {
  /** Operands: models, as `recua api` takes them. */
  names: readonly string[];
  values: ServerValues;
  given: ReadonlySet<keyof ServerValues>;
}

interface Wanted extends StartRequest {
  served: ServerRecord['model'];
}

/**
 * What such a server would serve. Finds and checks the models, reads the models file, and checks
 * the keys and who may visit.
 */
export async function checkedServing({ names, values }: Pick<StartRequest, 'names' | 'values'>): Promise<Pick<Serving, 'record' | 'defaultFailure'>> {
  await refusePipes(values);
  const config = makeConfig({ ...await settingValues(configSettings, values), model: '' });
  ApiKeys.read({ keys: config.apiKey, file: config.apiKeyFile });
  new Visitors(config);
  return await servingOf(names, config);
}

/** A pipe gives its text once, here; the server itself, and each restart, would find it empty. */
async function refusePipes(values: ServerValues): Promise<void> {
  for (const key of readKeys) {
    const isPipe = values[key] !== '' && await stat(values[key]).then((found) => found.isFIFO(), () => false);
    if (isPipe) throw misuse(`Expected a file behind ${serverFlags[key].names[0]}, got the pipe ${values[key]}: a server in the background reads it again at each start. recua api takes pipes.`);
  }
}

/** `held` is the start lock, if the caller has taken it. */
export async function startServer(places: ServePlaces, request: StartRequest, held?: Lock): Promise<number> {
  const files = fileKeys.map((key): [string, string] => [key, request.values[key] === '' ? '' : resolve(request.values[key])]);
  const path = socketPath(request.values.host);
  const host = path === undefined ? request.values.host : `unix:${resolve(path)}`;
  const values: ServerValues = { ...request.values, host, ...Object.fromEntries(files) as Partial<ServerValues> };
  const wanted: Wanted = { ...request, values, served: (await checkedServing(request)).record };

  let child: ChildProcess | undefined;
  const stop = watchSignals(() => {
    child?.kill('SIGKILL');
    process.exit(stopCode());
  });
  try {
    const lock = held ?? await startLock(places, stop.signal);
    try {
      const running = await findRunning(places, stop.signal);
      if (running) return await join(running, wanted, places, stop.signal);
      await tryAddress(values);
      const before = await endOf(logOf(places, wanted));
      child = await spawnServer(places, wanted);
      await becomeReady(child, places, wanted, before, stop);
    } finally {
      await lock.release();
    }
  } finally {
    stop.release();
  }
  return 0;
}

function unusable(what: string, { folder }: ServePlaces, cause: Error): RecuaError {
  return new RecuaError('file_unreadable', `The state folder ${folder} cannot be ${what}: ${cause.message}. To move it, set SERVICE_HOME.`, { cause });
}

/**
 * Taken by whoever starts a server. Creates the state folder, and fails if that cannot be written.
 */
export async function startLock(places: ServePlaces, signal?: AbortSignal): Promise<Lock> {
  await createFolder(places.folder, 0o700).catch((cause: Error) => {
    throw unusable('made', places, cause);
  });
  for (let tries = 0; ; tries++) {
    const lock = await tryLock(places.startLock).catch((cause: Error) => {
      throw unusable('written', places, cause);
    });
    if (lock) return lock;
    if (tries === 0) say('Another recua serve start is running; waiting for it.');
    await pause(signal);
  }
}

/** The living server. Waits for one that is stopping. */
async function findRunning(places: ServePlaces, signal: AbortSignal): Promise<ServerRecord | undefined> {
  for (let tries = 0; ; tries++) {
    const { state, record, alive, problem } = await findStatus(places);
    if (!record && problem !== '') throw new RecuaError('server_failed', problem);
    if (!record || !alive) return undefined;
    if (state !== 'stopping') return record;
    if (tries === 0) say(`The server (pid ${record.identity.pid}) is stopping; waiting for it to exit.`);
    await pause(signal);
  }
}

/** A server already runs: success if it is the wanted one, else an error. */
async function join(record: ServerRecord, wanted: Wanted, places: ServePlaces, signal: AbortSignal): Promise<number> {
  const { pid } = record.identity;
  if (!servesSame(record, wanted)) {
    const words = [...wanted.served.names.map(shellWord), ...(wanted.given.has('models') ? [`--models ${shellWord(wanted.values.models)}`] : [])].join(' ');
    throw new RecuaError('server_running', `A server is already running (pid ${pid}, ${record.url || 'still starting'}) with ${record.model.id}. `
      + `${words === '' ? '' : `recua serve restart ${words} changes that, `}recua serve stop stops it.`);
  }
  refuseOtherAddress(record, wanted);
  const line = new LoadingLine(`Loading ${record.model.id}`, record.state === 'running');
  try {
    for (;;) {
      const now = await readRecord(places.record);
      const health = await askHealth(now);
      if (health?.status === 'ok') break;
      if (health?.status === 'error') throw new RecuaError('server_failed', `A server is already running (pid ${pid}) but has no model: ${health.problem} Try recua serve restart.`);
      if (health?.status === 'loading') line.show(health.progress);
      else if (now?.state === 'running') throw new RecuaError('server_failed', `A server is already running (pid ${pid}) but does not answer. Try recua serve restart.`);
      if (await ended(record, 0)) throw new RecuaError('server_failed', `The server (pid ${pid}) exited before it was ready. recua serve logs shows more.`);
      await pause(signal);
    }
  } finally {
    line.end();
  }
  const now = await readRecord(places.record) ?? record;
  say(`Already running: ${now.model.id} at ${now.url} (pid ${pid})`);
  if (now.version !== recuaVersion()) say(`Note: the server is recua ${now.version}, this is recua ${recuaVersion()}. recua serve restart updates it.`);
  const differing = (Object.entries(serverFlags) as [keyof ServerValues, Flag<unknown>][])
    .filter(([key, flag]) => key !== 'model' && key !== 'port' && wanted.given.has(key) && now.settings[settingNames(flag)[0]!] !== wanted.values[key]);
  if (differing.some(([, flag]) => flag.secret)) say('Note: the server runs with another --api-key. To change that: recua serve restart, with --api-key or RECUA_API_KEY.');
  const words = differing.filter(([, flag]) => !flag.secret).map(([key, flag]) => shellWord(flagWord(flag, wanted.values[key]))).join(' ');
  if (words !== '') say(`Note: the server runs without ${words}. To change that: recua serve restart ${words}`);
  return 0;
}

function servesSame(record: ServerRecord, { served, values }: Wanted): boolean {
  if (record.model.path !== '' || served.path !== '') return record.model.path === served.path;
  return record.model.names.join('\n') === served.names.join('\n') && (record.settings['models'] ?? '') === values.models;
}

/** A server on another address than the requested one is an error. */
function refuseOtherAddress({ host, port, url, settings, identity, model }: ServerRecord, { values, given }: Wanted): void {
  const otherHost = given.has('host') && values.host !== host;
  // Port 0 means any free port, which includes the current one.
  const otherPort = given.has('port') && values.port !== 0 && values.port !== port && values.port !== settings['port'];
  if (!otherHost && !otherPort) return;
  const words = [...(otherHost ? [`--host ${shellWord(values.host)}`] : []), ...(otherPort ? [`--port ${values.port}`] : [])].join(' ');
  throw new RecuaError('server_running', `A server is already running (pid ${identity.pid}) with ${model.id}, but at ${url || `port ${port}`}. `
    + `recua serve restart ${words} moves it there, recua serve stop stops it.`);
}

async function spawnServer(places: ServePlaces, wanted: Wanted): Promise<ChildProcess> {
  const { values, served: { names } } = wanted;
  const whole: ServerValues = { ...values, model: names.length === 1 ? names[0]! : '', logFile: logOf(places, wanted) };
  // Every value is passed, so that neither the config file nor a variable changes anything for
  // `api`. Secrets are passed in variables, which other users cannot read.
  const flags = Object.entries<Flag<unknown>>(serverFlags).map(([key, flag]) => ({ flag, value: whole[key as keyof ServerValues] }));
  const words = flags.filter(({ flag }) => !flag.secret).map(({ flag, value }) => flagWord(flag, value));
  const secrets = flags.filter(({ flag }) => flag.secret).map(({ flag, value }) => [variableNames(flag)[0]!, String(value)]);
  let errors: number;
  try {
    errors = openSync(places.errors, 'w', 0o600);
  } catch (cause) {
    throw unusable('written', places, cause as Error);
  }
  try {
    const child = spawn(nodePath(), [mainPath, 'api', ...(names.length > 1 ? names : []), ...words, `--state-file=${places.record}`], {
      detached: true, stdio: ['ignore', errors, errors], cwd: places.folder, env: { ...environment(), ...Object.fromEntries(secrets) as NodeJS.ProcessEnv }, windowsHide: true,
    });
    child.unref();
    await once(child, 'spawn');
    return child;
  } catch (cause) {
    throw new RecuaError('server_failed', `The server's process cannot be started: ${(cause as Error).message}.`, { cause });
  } finally {
    closeSync(errors);
  }
}

/** With absolute paths in variables, because the server runs in another folder. */
function environment(): NodeJS.ProcessEnv {
  return { ...process.env, ...placeVariables() };
}

/** Variables that name files and folders, as absolute paths. */
export function placeVariables(): Record<string, string> {
  const named = ['SERVICE_HOME', 'HUB_HOME', 'HF_HOME', 'HF_HUB_CACHE', 'HF_TOKEN_PATH', 'XDG_CACHE_HOME', 'NODE_EXTRA_CA_CERTS', 'RECUA_ADDON', 'RECUA_CONFIG'].map((name) => [name, pathIn(name)]);
  const standard = ['XDG_DATA_HOME', 'XDG_CONFIG_HOME'].map((name) => [name, standardFolder(name)]);
  return Object.fromEntries([...named, ...standard].filter(([, path]) => path !== undefined)) as Record<string, string>;
}

async function becomeReady(
  child: ChildProcess,
  places: ServePlaces,
  wanted: Wanted,
  before: LogEnd | undefined,
  { signal }: StopSignal,
): Promise<void> {
  const { names, path, id } = wanted.served;
  let line: LoadingLine | undefined;
  try {
    while (child.exitCode === null && child.signalCode === null) {
      const record = await readRecord(places.record);
      if (record && record.identity.pid === child.pid) {
        // Before it has its address, it may still find that its port is taken.
        if (record.url !== '') line ??= new LoadingLine(names.length > 0 || path !== '' ? `Loading ${id}` : 'Starting the server');
        const health = await askHealth(record);
        // A server of several models answers before the models to load at start are loaded.
        if (health?.status === 'ok' && record.state === 'running') {
          line?.end();
          say(`Recua serves ${record.model.id} at ${record.url} (pid ${child.pid})`);
          for (const line of await freshLines(logOf(places, wanted), before)) {
            const text = messageOf(line);
            if (/^(\S+: )?(Note|Warning): | tokens of context\b/.test(text)) say(text);
            else if (isWarning(line)) say(`Warning: ${text}`);
          }
          if (wanted.values.ui && record.port !== 0) say(pageLines(record.url).join('\n'));
          say(
            `Try: ${record.model.path === '' ? `recua ps --all, recua load <model>` : curlLine(record.firstUse ?? 'chat', reachable(record.url), wanted.values.apiKey !== '' || wanted.values.apiKeyFile !== '', wanted.values.tlsCert)}`,
          );
          say('To stop it: recua serve stop');
          return;
        }
        if (health?.status === 'loading') line?.show(health.progress);
      }
      await pause(signal);
    }
  } catch (thrown) {
    if (!signal.aborted) throw thrown;
    line?.end();
    say('Stopping the server that was being started; Ctrl-C again kills it at once.');
    child.ref();
    child.kill('SIGTERM');
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    throw new RecuaError('cancelled', 'Stopped; no server was started.');
  } finally {
    line?.end();
  }
  throw await failure(child, places, wanted, before);
}

/** Why the server exited: its last words on stderr, and its log since the start. */
async function failure(child: ChildProcess, places: ServePlaces, wanted: Wanted, before: LogEnd | undefined): Promise<RecuaError> {
  const words = (await readFile(places.errors, 'utf8').catch(() => '')).trim().split('\n').filter((line) => line !== '');
  const reason = words.findLast((line) => line.startsWith('recua: '))?.slice('recua: '.length);
  const how = child.signalCode ? `by ${child.signalCode}` : `with exit code ${child.exitCode}`;
  const log = logOf(places, wanted);
  const lines = (await freshLines(log, before))
    .filter((line) => !(reason !== undefined && messageOf(line).endsWith(reason)))
    .slice(-quotedLines);
  return new RecuaError('server_failed', [
    `The server did not start: ${reason ?? `it ended ${how}.`}`,
    ...(reason === undefined && words.length > 0 ? ['Its last words:', ...words.slice(-quotedLines).map((line) => `  ${line}`)] : []),
    ...(lines.length > 0 ? [`The end of its log, ${log}:`, ...lines.map((line) => `  ${line}`)] : []),
  ].join('\n'));
}

/** The lines of the log since `before`. */
async function freshLines(log: string, before: LogEnd | undefined): Promise<string[]> {
  const bytes = await readLog(log);
  const now = await endOf(log);
  return bytes.subarray(before && before.inode === now?.inode ? before.offset : 0).toString('utf8').split('\n').filter((line) => line !== '');
}

function logOf(places: ServePlaces, { values }: StartRequest): string {
  return values.logFile === '' ? places.log : values.logFile;
}

/** Waits a moment. Throws `cancelled` if the user stopped the command. */
async function pause(signal: AbortSignal | undefined): Promise<void> {
  await wait(pollMs, undefined, signal ? { signal } : {}).catch(() => {
    throw new RecuaError('cancelled', 'Stopped waiting.');
  });
}
