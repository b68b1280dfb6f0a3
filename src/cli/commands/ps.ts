// `recua ps`: the models of running servers and what they do right now, once or live.
import { setTimeout as wait } from 'node:timers/promises';
import { sizeText } from '../../models/byte-size.js';
import { shellWord } from '../../models/names/shell-word.js';
import { RecuaError } from '../../errors.js';
import { command } from '../command.js';
import { misuse, on, perCall } from '../flags/flags.js';
import { clientAt, noServer, serverKey, serverUrl } from '../servers/choose-server.js';
import { runningServers } from '../servers/registry.js';
import type { RunningServer } from '../servers/registry.js';
import { isThere, modelsOf } from '../servers/served-model.js';
import type { ServedModel } from '../servers/served-model.js';
import { ServerClient } from '../servers/server-client.js';
import { print, say, toJson } from '../terminal/output.js';
import { screenOf } from '../markdown/screen.js';
import { stopCode, watchSignals } from '../terminal/signals.js';

/** The same as in `recua serve status`. */
const stoppedCode = 3;
const everyMs = 1_000;

interface Given {
  url: string;
  apiKey: string;
}

/** A server and its answer; `problem` says why there is none. */
interface Asked {
  url: string;
  /** Undefined if `--url` named the server. */
  server: RunningServer | undefined;
  models: readonly ServedModel[];
  problem: RecuaError | undefined;
}

export const ps = command({
  name: 'ps',
  aliases: [],
  operands: '',
  summary: 'List the models of running servers and what they do',
  details: 'Shows the models of all your running servers (recua api and recua serve), including sleeping and failed ones; --all adds unloaded ones. UNTIL is when an idle model will be unloaded. TOKENS/S is the speed over the last five seconds. '
    + `Exit codes: 0 servers run, ${stoppedCode} no server runs. --watch needs a terminal; Ctrl-C ends it with exit code 0.`,
  examples: [
    ['recua ps', 'Show model, state, memory, device, context, requests and speed'],
    ['recua ps --watch', 'Show the same, updated each second'],
    ['recua ps --all --json', 'Print JSON for programs, including unloaded models'],
  ],
  flags: {
    all: perCall(on(['--all', '-a'], 'Include unloaded models')),
    watch: perCall(on(['--watch', '-w'], 'Update once a second until Ctrl-C')),
    json: perCall(on(['--json'], 'Print JSON')),
    url: serverUrl,
    apiKey: serverKey,
  },
  async run({ values, operands }) {
    const { all, json } = values;
    if (operands.length > 0) throw misuse(`Expected no argument, got ${operands.join(' ')}. For one model: recua show ${shellWord(operands[0]!)}`);
    if (values.watch) {
      if (json) throw misuse('Expected --watch or --json, got both.');
      if (!process.stdout.isTTY) throw misuse('Expected a terminal on stdout for --watch, got none. For programs: recua ps --json');
      return await watch(values, all);
    }
    const asked = await askAll(values);
    if (json) await print(asJson(asked, all));
    else if (asked.length === 0) say(noServer);
    if (asked.length === 0) return stoppedCode;
    const problems = asked.flatMap(({ problem }) => problem ?? []);
    if (problems.length === asked.length) throw problems[0]!;
    if (!json) await print(await asText(asked, all));
    for (const problem of problems) say(`Note: ${problem.message}`);
    return 0;
  },
});

async function askAll({ url, apiKey }: Given, stop?: AbortSignal): Promise<Asked[]> {
  const servers = url === '' ? await runningServers() : [undefined];
  return await Promise.all(servers.map(async (server) => {
    const client = server ? new ServerClient(server) : await clientAt({ url, apiKey });
    try {
      return { url: client.url, server, models: await modelsOf(client, stop), problem: undefined };
    } catch (thrown) {
      return { url: client.url, server, models: [], problem: RecuaError.from(thrown) };
    }
  }));
}

/** Uses the alternate screen, so that the terminal's content comes back afterwards. */
async function watch(given: Given, all: boolean): Promise<number> {
  const stop = watchSignals();
  process.stdout.write('\x1b[?1049h\x1b[?25l');
  try {
    while (!stop.signal.aborted) {
      const asked = await askAll(given, stop.signal);
      const problems = asked.flatMap(({ problem }) => (problem ? [problem.message] : []));
      const text = asked.length === 0 ? `${noServer}\n` : `${await asText(asked, all)}${problems.map((problem) => `Note: ${problem}\n`).join('')}`;
      const lines = text.trimEnd().split('\n').slice(0, screenOf(process.stdout).rows - 1);
      if (stop.signal.aborted) break;
      await print(`\x1b[H${lines.map((line) => `${line}\x1b[K\n`).join('')}\x1b[J`);
      await wait(everyMs, undefined, { signal: stop.signal }).catch(() => undefined);
    }
    // Ctrl-C is how it ends.
    return stopCode() === 130 ? 0 : stopCode();
  } finally {
    process.stdout.write('\x1b[?25h\x1b[?1049l');
    stop.release();
  }
}

function shown({ models }: Asked, all: boolean): readonly ServedModel[] {
  return models.filter(({ state }) => all || state !== 'unloaded');
}

async function asText(asked: readonly Asked[], all: boolean): Promise<string> {
  const several = asked.length > 1;
  const cells = asked.flatMap((one) => shown(one, all).map((model) => [
    model.id, ...(several ? [one.url] : []), stateText(model), isThere(model) && model.memoryBytes !== undefined ? sizeText(model.memoryBytes) : '', deviceText(model),
    model.contextSize === undefined ? '' : String(model.contextSize), ...workCells(model), untilText(model),
  ]));
  const head = ['NAME', ...(several ? ['SERVER'] : []), 'STATE', 'MEMORY', 'DEVICE', 'CONTEXT', 'RUNNING', 'WAITING', 'TOKENS/S', 'UNTIL'];
  const { rows } = await import('../terminal/rows.js');
  // The last column may be cut; a failed model's reason is worth a line of its own.
  const failed = asked.flatMap((one) => shown(one, all)).filter(({ reason }) => reason !== '').map(({ id, reason }) => `${reason.startsWith(`${id} `) ? '' : `${id} failed: `}${reason}\n`);
  const idle = cells.length === 0 ? [`No model is loaded at ${asked.flatMap(({ url, problem }) => (problem ? [] : url)).join(', ')}. To list the models that can be: recua ps --all\n`] : [];
  const { plain } = await import('../terminal/wording.js');
  return [rows([head, ...cells]), ...[...failed, ...idle].map((line) => `${plain(line.trimEnd())}\n`)].join('');
}

function stateText({ state, fraction }: ServedModel): string {
  return state === 'loading' && fraction !== undefined ? `loading ${Math.floor(fraction * 100)} %` : state;
}

function deviceText({ devices, deviceBytes = 0, layers, totalLayers }: ServedModel): string {
  if (devices === undefined) return '';
  if (devices.length === 0) return 'CPU';
  const memory = deviceBytes > 0 ? `, ${sizeText(deviceBytes)}` : '';
  return `${devices.join(', ')} (${layers} of ${totalLayers} layers${memory})`;
}

function workCells(model: ServedModel): string[] {
  if (!isThere(model)) return ['', '', ''];
  return [String(model.running), String(model.waiting), model.tokensPerSecond.toFixed(1)];
}

function untilText(model: ServedModel): string {
  const { pinned, fixed, expiresMs, running, waiting } = model;
  if (!isThere(model)) return '';
  // A server's only model cannot be unloaded, a pinned one can, by hand.
  if (fixed) return 'forever';
  if (pinned) return 'forever, pinned';
  if (expiresMs !== undefined) return timeLeft(expiresMs - Date.now());
  return running + waiting > 0 ? 'in use' : model.state === 'loaded' ? 'forever' : '';
}

function timeLeft(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1_000));
  for (const [size, unit] of [[86_400, 'day'], [3_600, 'hour'], [60, 'minute']] as const) {
    const count = Math.round(seconds / size);
    if (seconds >= 2 * size || (seconds >= size && unit === 'minute')) return `in ${count} ${unit}${count === 1 ? '' : 's'}`;
  }
  return `in ${seconds} s`;
}

function asJson(asked: readonly Asked[], all: boolean): string {
  return toJson({
    servers: asked.map((one) => ({
      url: one.url,
      pid: one.server?.pid ?? null,
      managed: one.server?.managed ?? null,
      started_at: one.server?.startedAt ?? null,
      problem: one.problem?.message ?? null,
      models: shown(one, all).map((model) => ({
        name: model.id,
        aliases: model.aliases,
        state: model.state,
        progress: model.fraction ?? null,
        reason: model.reason || null,
        memory_bytes: model.memoryBytes ?? null,
        devices: model.devices ?? null,
        device_memory_bytes: model.deviceBytes ?? null,
        gpu_layers: model.layers ?? null,
        total_layers: model.totalLayers ?? null,
        context: model.contextSize ?? null,
        running: model.running,
        waiting: model.waiting,
        tokens_per_second: model.tokensPerSecond,
        pinned: model.pinned,
        expires_at: model.expiresMs === undefined ? null : new Date(model.expiresMs).toISOString(),
      })),
    })),
  });
}
