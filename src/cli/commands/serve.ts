// `recua serve <command>`: the managed server, one per user, that runs in the background. Each
// command is a file of serve/.
import { RecuaError } from '../../errors.js';
import { oftenServed, namedModels, serverFlags } from './api.js';
import type { ServerValues } from './api.js';
import type { Arguments } from '../flags/arguments.js';
import { command } from '../command.js';
import { deviceListing, deviceListingJson, listDevices } from '../devices.js';
import { integer, misuse, on, perCall, settingNames, text } from '../flags/flags.js';
import type { Flag } from '../flags/flags.js';
import { install, uninstall } from '../serve/install.js';
import { showLogs } from '../serve/logs.js';
import { checkedModels, startServer } from '../serve/start.js';
import { lastRecord, servePlaces } from '../serve/state-file.js';
import type { ServerRecord } from '../serve/state-file.js';
import { statusCodes, tellStatus } from '../serve/status.js';
import { stopServer } from '../serve/stop.js';

/** All of `api`'s; only the context's default is smaller. */
const startFlags = { ...serverFlags, contextSize: { ...serverFlags.contextSize, fallback: 2048 } } as const;

/** The same; what is not given is as it was, which no default can tell. */
const restartFlags = Object.fromEntries(
  Object.entries(startFlags).map(([key, flag]) => [key, perCall<unknown>({ ...flag as Flag<unknown>, fallback: undefined })]),
) as Readonly<Record<keyof ServerValues, Flag<unknown>>>;

const stopFlags = {
  force: perCall(on(['--force', '-f'], 'Kill it at once, without waiting for running answers')),
  // Both for one call, so that a broken config file keeps no server from being stopped.
  timeout: perCall(integer(['--timeout'], 'seconds', 'How long to wait for its end; 0 is its --drain-timeout and 10 seconds more', { fallback: 0, min: 0, max: 86_400 })),
} as const;

const start = command({
  name: 'start',
  aliases: [],
  operands: '[model...]',
  summary: 'Start the server in the background',
  details: 'Models are as for recua api: one, several, those of --models, or without any all that recua list shows, each loaded when a request names it. '
    + 'A request has 2,048 tokens of context here, where recua api has 4,096, unless --ctx-size says otherwise. '
    + 'Returns when the server is ready; if it fails, prints the reason and the end of its log. '
    + 'If the same models are already served at that address, it says so and succeeds. Ctrl-C stops the server that is being started. Its log is in the state folder; '
    + 'it never holds prompts or answers.',
  examples: [
    ['recua serve start -m builtin', 'Serve the small embedded model on http://127.0.0.1:8080'],
    ['recua serve start', 'Serve every model on this machine, each when it is asked for'],
    ['recua serve start model.gguf --port 9000 --ctx-size 8192', 'Another port, and room for 8192 tokens per request'],
  ],
  often: oftenServed,
  flags: { ...startFlags, ...deviceListing, json: deviceListingJson },
  async run(given) {
    if (given.values.listDevices) return await listDevices(given.values.json);
    return await startServer(servePlaces(), { names: namedModels(given), values: given.values, given: given.given as ReadonlySet<keyof ServerValues> });
  },
});

const stop = command({
  name: 'stop',
  aliases: [],
  operands: '',
  summary: 'Stop the server',
  details: 'Running answers may finish first (--drain-timeout of the start); it waits until the server has ended. Ctrl-C twice kills the server. If no server runs, that is no error.',
  examples: [['recua serve stop --force', 'At once']],
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
  summary: 'Tell whether the server runs, where, and what it does',
  details: `Exit codes: ${Object.entries(statusCodes).map(([state, code]) => `${code} ${state}`).join(', ')}.`,
  examples: [['recua serve status --json', 'For scripts']],
  flags: { json: perCall(on(['--json'], 'Print one JSON object')) },
  async run({ values, operands }) {
    refuseOperands('status', operands);
    return await tellStatus(servePlaces(), values.json);
  },
});

const logs = command({
  name: 'logs',
  aliases: [],
  operands: '',
  summary: 'Print the server\'s log, or that of the last one',
  details: 'With --follow it continues until Ctrl-C (exit code 130), also when the server restarts.',
  examples: [['recua serve logs --follow -n 20', 'The last 20 lines, and what comes'], ['recua serve logs --request req_4f0c', 'What became of one request: its x-request-id']],
  flags: {
    request: perCall(text(['--request'], 'id', 'Only lines about the request of that id, which every reply has as x-request-id')),
    follow: perCall(on(['--follow', '-f'], 'Go on with new lines as they come')),
    lines: perCall(integer(['--lines', '-n'], 'n', 'How many of the last lines to begin with', { fallback: 100, min: 0, max: 10_000_000 })),
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
  summary: 'Stop the server and start it with the same settings',
  details: 'Flags given here replace those it was started with. If no server runs, the last one is started again.',
  examples: [['recua serve restart', 'After an update of Recua'], ['recua serve restart --port 9000', 'The same on another port']],
  often: oftenServed,
  flags: restartFlags,
  async run({ values, operands, given }) {
    const places = servePlaces();
    const record = await lastRecord(places);
    const named = [...(typeof values.model === 'string' && values.model !== '' ? [values.model] : []), ...operands];
    if (!record) throw new RecuaError('server_failed', 'There is no server to restart, and none was started before. Start one: recua serve start');
    // Another file says anew which models there are.
    const names = named.length > 0 || given.has('models') ? named : record.model.names;
    const request = { names, values: overlay(record, values, given), given };
    // Before the old one is stopped.
    await checkedModels(request);
    await stopServer(places, { force: false, timeoutSeconds: 0 });
    return await startServer(places, request);
  },
});

const installCommand = command({
  name: 'install',
  aliases: [],
  operands: '[model...]',
  summary: 'Have the system start the server: at each login, and again where it ends',
  details: 'Writes a unit of systemd (Linux) or an agent of launchd (macOS) of your own user that runs recua api with these models and flags, and says how it is switched on. '
    + 'Nothing is started by this. systemd keeps the server in bounds, as far as it can here. Paths are kept as whole ones; what stands in the config file counts as ever.',
  examples: [
    ['recua serve install qwen3-4b --port 9000', 'A server of one model'],
    ['recua serve install --print', 'Look at what would be written'],
  ],
  often: oftenServed,
  flags: {
    ...serverFlags,
    print: perCall(on(['--print'], 'Print the file instead of writing it')),
    force: perCall(on(['--force', '-f'], 'Replace one that is there')),
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
  summary: 'Remove what serve install wrote',
  details: 'Says how a server is ended that the system runs.',
  examples: [['recua serve uninstall', 'No start at the next login']],
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
  details: 'There is one such server for each state folder; recua config shows where that is.',
  subcommands: [start, stop, status, logs, restart, installCommand, uninstallCommand],
  flags: {},
  run: () => Promise.reject(misuse('Expected a command: recua serve start, stop, status, logs, restart, install or uninstall.')),
});

/**
 * What it was started with, replaced by what the command line says. A value that cannot be read any
 * more is the default.
 */
function overlay(record: ServerRecord, values: Arguments<typeof restartFlags>['values'], given: ReadonlySet<keyof ServerValues>): ServerValues {
  const merged = Object.entries(startFlags as Record<string, Flag<unknown>>).map(([key, flag]) => {
    const name = key as keyof ServerValues;
    return [key, given.has(name) ? values[name] ?? flag.fallback : recorded(flag, record.settings[settingNames(flag)[0]!])];
  });
  return Object.fromEntries(merged) as ServerValues;
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
