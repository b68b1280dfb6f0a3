// `recua serve <command>`: the managed server, one per user, which runs in the background. serve/
// has a file for each command.
import { RecuaError } from '../../errors.js';
import { afterDrainSeconds } from '../../settings/stop-time.js';
import { oftenServed, namedModels, serverFlags } from './api.js';
import type { ServerValues } from './api.js';
import type { Arguments } from '../flags/arguments.js';
import { command } from '../command.js';
import { deviceListing, deviceListingJson, listDevices, refuseJson } from '../devices.js';
import { integer, misuse, on, perCall, settingNames, text } from '../flags/flags.js';
import type { Flag } from '../flags/flags.js';
import { checkBeforehand } from '../serve/beforehand.js';
import { install, uninstall } from '../serve/install.js';
import { showLogs } from '../serve/logs.js';
import { startFlags, startLock, startServer } from '../serve/start.js';
import { lastRecord, servePlaces } from '../serve/state-file.js';
import type { ServerRecord } from '../serve/state-file.js';
import { findStatus, statusCodes, tellStatus } from '../serve/status.js';
import { say } from '../terminal/output.js';
import { stopServer } from '../serve/stop.js';

/** The same flags without defaults: a flag that is not given keeps its value of the last start. */
const restartFlags = Object.fromEntries(
  Object.entries(startFlags).map(([key, flag]) => [key, perCall<unknown>({ ...flag as Flag<unknown>, fallback: undefined })]),
) as Readonly<Record<keyof ServerValues, Flag<unknown>>>;

const stopFlags = {
  force: perCall(on(['--force', '-f'], 'Kill the server at once, without waiting for running answers')),
  // Both are per call, so that a broken config file cannot keep a server from being stopped.
  timeout: perCall(integer(['--timeout'], 'seconds', `Wait this long for the server to exit; 0 means its --drain-timeout plus ${afterDrainSeconds} seconds`, { fallback: 0, min: 0, max: 86_400 })),
} as const;

const start = command({
  name: 'start',
  aliases: [],
  operands: '[model...]',
  summary: 'Start the server in the background',
  details: 'Takes models as recua api does: one, several, those of --models, or by default all that recua list shows, each loaded when a request names it. '
    + 'A request has 2,048 tokens of context by default (4,096 with recua api); --ctx-size changes that. '
    + 'Returns when the server is ready; if it fails, prints the reason and the end of its log. '
    + 'If a server already serves the same models (at that address, if you give one), says so and succeeds. Ctrl-C stops the server that is being started. The log is in the state folder, unless --log-file names another place; '
    + 'it never contains prompts or answers.',
  examples: [
    ['recua serve start -m builtin', 'Serve the small built-in model on http://127.0.0.1:8080'],
    ['recua serve start', 'Serve every model on this machine, and load each on demand'],
    ['recua serve start model.gguf --port 9000 --ctx-size 8192', 'Use another port, and 8192 tokens of context per request'],
  ],
  often: oftenServed,
  flags: { ...startFlags, ...deviceListing, json: deviceListingJson },
  async run(given) {
    if (given.values.listDevices) return await listDevices(given.values.json);
    refuseJson(given.values.json);
    return await startServer(servePlaces(), {
      names: namedModels(given),
      values: given.values,
      given: given.given as ReadonlySet<keyof ServerValues>,
    });
  },
});

const stop = command({
  name: 'stop',
  aliases: [],
  operands: '',
  summary: 'Stop the server',
  details: 'Lets running answers finish, for as long as --drain-timeout of the start allows, and waits until the server has exited; on Windows, the server ends at once. Ctrl-C twice kills the server. It is not an error if no server runs.',
  examples: [['recua serve stop --force', 'Stop at once']],
  flags: stopFlags,
  async run({ values, operands }) {
    refuseOperands('stop', operands);
    return await stopServer(servePlaces(), { force: values.force, timeoutSeconds: values.timeout });
  },
});

const status = command({
  name: 'status',
  aliases: [],
  operands: '',
  summary: 'Show whether the server runs, where, and what it does',
  details: `Exit codes: ${codesText()}.`,
  examples: [['recua serve status --json', 'Print the state for scripts']],
  flags: { json: perCall(on(['--json'], 'Print one JSON object')) },
  async run({ values, operands }) {
    refuseOperands('status', operands);
    return await tellStatus(servePlaces(), values.json, startFlags);
  },
});

const logs = command({
  name: 'logs',
  aliases: [],
  operands: '',
  summary: 'Print the log of the background server, with the lines of earlier ones',
  details: 'With --follow, it continues until Ctrl-C (exit code 130), even if the server restarts.',
  examples: [['recua serve logs --follow -n 20', 'Print the last 20 lines, and new ones as they come'], ['recua serve logs --request req_4f0c', 'Print the lines about one request, by its x-request-id']],
  flags: {
    request: perCall(text(['--request'], 'id', 'Print only lines about the request with this id, which every reply carries as x-request-id')),
    follow: perCall(on(['--follow', '-f'], 'Keep printing new lines as they come')),
    lines: perCall(integer(['--lines', '-n'], 'n', 'Begin with this many of the last lines', { fallback: 100, min: 0, max: 10_000_000 })),
  },
  async run({ values, operands }) {
    refuseOperands('logs', operands);
    return await showLogs(servePlaces(), values);
  },
});

const restart = command({
  name: 'restart',
  aliases: [],
  operands: '[model...]',
  summary: 'Restart the server, or start the last one again',
  details: 'Stops the server and starts it with the same settings; flags given here replace those of the last start. A port that the system chose stays. If no server runs, it starts the last one again. '
    + 'If the native code, a model, a file, the address, the port or API keys cannot be used, the old server goes on; if the new one does not start for another reason, the old one is started again.',
  examples: [['recua serve restart', 'Restart after an update of Recua'], ['recua serve restart --port 9000', 'Move the server to another port']],
  often: oftenServed,
  flags: restartFlags,
  async run({ values, operands, given }) {
    const places = servePlaces();
    if (!await lastRecord(places)) {
      const { problem } = await findStatus(places);
      throw new RecuaError('server_failed', problem || 'There is no server to restart, and none was ever started. Start one: recua serve start');
    }
    const named = [...(typeof values.model === 'string' && values.model !== '' ? [values.model] : []), ...operands];
    const lock = await startLock(places);
    try {
      // Another restart may have changed it until now.
      const record = (await lastRecord(places))!;
      // A new models file replaces the list of models.
      const names = named.length > 0 || given.has('models') ? named : record.model.names;
      const request = { names, values: overlay(record, values, given), given };
      // The old server goes on if the new one could not start, as on a full disk or a taken port.
      await checkBeforehand(request, record);
      const { alive } = await findStatus(places);
      await stopServer(places, { force: false, timeoutSeconds: 0, isRestart: true });
      return await startServer(places, request, lock).catch(async (thrown: unknown) => {
        if (!alive || RecuaError.from(thrown).code === 'cancelled') throw thrown;
        say(`${RecuaError.from(thrown).message}\nStarting the old server again.`);
        await startServer(places, { names: record.model.names, values: overlay(record, values, none), given: none });
        throw new RecuaError('server_failed', 'The restart failed, as told above; the server runs again with its old settings.', { cause: thrown });
      });
    } finally {
      await lock.release();
    }
  },
});

const installCommand = command({
  name: 'install',
  aliases: [],
  operands: '[model...]',
  summary: 'Let the system start the server at each login, and again if it exits',
  details: 'Writes a systemd unit (Linux) or a launchd agent (macOS) for your user that runs recua api with these models and flags, and prints how to enable it. '
    + 'It starts nothing itself. systemd sandboxes the server as far as it can here. The server runs in the current folder, so that relative paths keep their meaning. '
    + 'The unit gets the values that flags, variables and the config file (its section serve install and its general part) set now. At each start, the server reads all other settings from the config file, as recua api does. '
    + 'The unit also gets the variables that say where files are and how to reach the hub, without tokens and passwords; add others yourself.',
  examples: [
    ['recua serve install qwen3-4b --port 9000', 'Install a server of one model'],
    ['recua serve install --print', 'Show what would be written'],
  ],
  often: oftenServed,
  flags: {
    ...serverFlags,
    print: perCall(on(['--print', '--dry-run'], 'Print the file instead of writing it')),
    force: perCall(on(['--force', '-f'], 'Replace an existing file')),
  },
  async run(given) {
    const { print: printed, force, ...values } = given.values;
    return await install({ names: namedModels(given), values, given: given.given as ReadonlySet<keyof ServerValues> }, { printed, force });
  },
});

const uninstallCommand = command({
  name: 'uninstall',
  aliases: [],
  operands: '',
  summary: 'Remove the file that serve install wrote',
  details: 'Prints how to stop a server that the system runs.',
  examples: [['recua serve uninstall', 'Do not start the server at the next login']],
  flags: {},
  async run({ operands }) {
    refuseOperands('uninstall', operands);
    return await uninstall();
  },
});

export const serve = command({
  name: 'serve',
  aliases: [],
  operands: '<command>',
  summary: 'Run the HTTP API server in the background: start, stop, status, logs, restart, install, uninstall',
  details: 'There is one such server per state folder; recua config shows where that is.',
  subcommands: [start, stop, status, logs, restart, installCommand, uninstallCommand],
  flags: {},
  run: () => Promise.reject(misuse('Expected a command: recua serve start, stop, status, logs, restart, install or uninstall.')),
});

const none: ReadonlySet<keyof ServerValues> = new Set();

/**
 * The values of the last start, overridden by the command line. A value that can no longer be read
 * becomes the default.
 */
function overlay(record: ServerRecord, values: Arguments<typeof restartFlags>['values'], given: ReadonlySet<keyof ServerValues>): ServerValues {
  const merged = Object.fromEntries(Object.entries(startFlags as Record<string, Flag<unknown>>).map(([key, flag]) => {
    const name = key as keyof ServerValues;
    return [key, given.has(name) ? values[name] ?? flag.fallback : recorded(flag, record.settings[settingNames(flag)[0]!])];
  })) as ServerValues;
  // Clients have the address, so a port that the system chose stays.
  const keepsPort = !given.has('port') && merged.port === 0 && record.state === 'running';
  return keepsPort ? { ...merged, port: record.port } : merged;
}

/** `0 running, 5 starting or stopping`. */
function codesText(): string {
  const states = new Map<number, string[]>();
  for (const [state, code] of Object.entries(statusCodes)) states.set(code, [...states.get(code) ?? [], state]);
  return [...states].map(([code, names]) => `${code} ${names.join(' or ')}`).join(', ');
}

function recorded(flag: Flag<unknown>, value: unknown): unknown {
  if (flag.value === '') return typeof value === 'boolean' ? value : flag.fallback;
  try {
    return typeof value === 'string' || typeof value === 'number' ? flag.read(String(value)) : flag.fallback;
  } catch {
    return flag.fallback;
  }
}

function refuseOperands(name: string, operands: readonly string[]): void {
  if (operands.length > 0) throw misuse(`recua serve ${name} takes no arguments, got ${operands.join(' ')}.`);
}
