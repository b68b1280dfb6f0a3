// The managed server's state, from its record, its process and its health report, and how `recua
// serve status` prints it.
import { setTimeout as wait } from 'node:timers/promises';
import type { Offload } from '../../engine/protocol.js';
import { shellWord } from '../../models/names/shell-word.js';
import { lockHolder } from '../../system/lock-file.js';
import { lifeOf, ownIdentity, sameMachine } from '../../system/process-identity.js';
import { flagWord, settingNames, type Flag } from '../flags/flags.js';
import { logFiles } from './log-file.js';
import { print, say, toJson } from '../terminal/output.js';
import { plain } from '../terminal/wording.js';
import { recuaVersion } from '../commands/version.js';
import { askHealth } from './health.js';
import type { Health } from './health.js';
import { lastLines } from './log-lines.js';
import { onDemand, readRecord, recordLock } from './state-file.js';
import type { ServePlaces, ServerRecord } from './state-file.js';

export type ServerState = 'stopped' | 'starting' | 'running' | 'stopping' | 'crashed';

export interface Status {
  state: ServerState;
  /** Record of the server that runs or crashed. */
  record: ServerRecord | undefined;
  /** Its process is alive. */
  alive: boolean;
  health: Health | undefined;
  /** What is wrong, in a sentence; '' if nothing. */
  problem: string;
}

/** Exit codes of `recua serve status`, also listed in docs/cli.md. */
export const statusCodes: Readonly<Record<ServerState, number>> = { running: 0, stopped: 3, crashed: 4, starting: 5, stopping: 5 };

export async function findStatus(places: ServePlaces): Promise<Status> {
  let record = await readRecord(places.record);
  // It may be about to write its record, or have just removed it.
  for (let tries = 0; !record && tries < 10 && await lockHolder(recordLock(places.record)); tries++) {
    await wait(100);
    record = await readRecord(places.record);
  }
  const none = { record, health: undefined, alive: false };
  if (!record) {
    const holder = await lockHolder(recordLock(places.record));
    if (holder) return { ...none, state: 'crashed', problem: `Its process ${holder.pid} still runs, but its state file ${places.record} is missing or damaged. End that process yourself, then start the server again.` };
    return { ...none, state: await lockHolder(places.startLock) ? 'starting' : 'stopped', problem: '' };
  }
  const life = await lifeOf(record.identity);
  // A server touches its lock as long as it lives, so that it need not be visible.
  if (life === 'dead' || (life === 'unknown' && await lockHolder(recordLock(places.record)) === undefined)) {
    return { ...none, state: 'crashed', problem: 'It ended unexpectedly (killed, crashed, or the machine was restarted). The same server again: recua serve restart' };
  }
  const health = await askHealth(record);
  const hidden = sameMachine(record.identity.machine, (await ownIdentity()).machine);
  const elsewhere = life !== 'unknown' ? '' : hidden ? 'It belongs to another user, whose processes are hidden here; only that user can stop it.'
    : `It was started on another machine or in another container (${record.identity.machine}); it can only be stopped there.`;
  return { record, health, alive: true, ...judge(record, health, elsewhere) };
}

function judge(record: ServerRecord, health: Health | undefined, elsewhere: string): { state: ServerState; problem: string } {
  if (record.state === 'stopping' || health?.status === 'stopping') return { state: 'stopping', problem: elsewhere };
  if (!health) {
    if (record.state === 'starting') return { state: 'starting', problem: elsewhere };
    return { state: 'running', problem: elsewhere || 'Its process runs but does not answer. If that lasts: recua serve restart' };
  }
  if (health.status === 'ok') return { state: 'running', problem: elsewhere };
  if (health.status === 'loading') return { state: 'starting', problem: elsewhere || (health.crashes > 0 ? 'The model is loading again after a crash.' : '') };
  return { state: 'crashed', problem: `Its process runs but has no model: ${health.problem}` };
}

/** Waits until the server's process has exited; `false` if it did not in time. */
export async function ended(record: ServerRecord, withinMs: number, onWait?: () => Promise<void>): Promise<boolean> {
  const until = performance.now() + withinMs;
  while (await lifeOf(record.identity) === 'alive') {
    if (performance.now() >= until) return false;
    await onWait?.();
    await wait(100);
  }
  return true;
}

/** `flags`: those of `serve start`, by any key. */
export async function tellStatus(places: ServePlaces, json: boolean, flags: Readonly<Record<string, Flag<unknown>>>): Promise<number> {
  const status = await findStatus(places);
  const set = setFlags(status.record, Object.values(flags));
  await print(json ? asJson(status, places, set) : asText(status, set));
  if (json) return statusCodes[status.state];
  if (status.problem !== '') say(status.problem);
  if (status.record && status.state === 'crashed') {
    const log = logFiles(status.record.logFile || places.log);
    for (const [files, what] of [[[places.errors], 'Its last words:'], [log, 'The end of its log:']] as const) {
      const words = await lastLines(files, 5);
      if (words.length > 0) say([what, ...words.map((line) => `  ${line}`)].join('\n'));
    }
  }
  const note = otherVersion(status);
  if (note !== '') say(`Note: ${note}`);
  return statusCodes[status.state];
}

/** A sentence if the server runs with another version of Recua; else ''. */
export function otherVersion({ record, alive }: Status): string {
  const own = recuaVersion();
  return record && alive && record.version !== own ? `The server is recua ${record.version}, this is recua ${own}. recua serve restart updates it.` : '';
}

/** What the server was told other than the defaults. Others may see it: no secrets. */
function setFlags(
  record: ServerRecord | undefined,
  flags: readonly Flag<unknown>[],
): { flag: Flag<unknown>; name: string; value: unknown }[] {
  return flags.flatMap((flag) => {
    const name = settingNames(flag)[0]!;
    const value = record?.settings[name];
    return flag.secret || toldElsewhere.has(name) || value === undefined || value === flag.fallback ? [] : [{ flag, name, value }];
  });
}

/** Other rows have these. */
const toldElsewhere = new Set(['model', 'log-file']);

function asText({ state, record, alive, health }: Status, set: ReturnType<typeof setFlags>): string {
  const rows: [string, string][] = [['State', `${state}${state === 'starting' && health ? ` (${Math.floor(health.progress * 100)}%)` : ''}`]];
  if (record) {
    if (alive) rows.push(['PID', String(record.identity.pid)]);
    rows.push(['Address', record.url === '' ? 'none yet' : record.url]);
    rows.push(['Model', record.model.id === onDemand ? 'all of this machine, loaded on demand' : record.model.path === '' ? record.model.id : `${record.model.id} (${record.model.path})`]);
    if (health && health.models.length > 0) rows.push(['Loaded', loadedText(health)]);
    if (alive && record.offload) rows.push(['Device', offloadText(record.offload)]);
    if (alive && record.contextSize !== undefined) rows.push(['Context', `${record.contextSize} tokens`]);
    if (set.length > 0) rows.push(['Flags', set.map(({ flag, value }) => shellWord(flagWord(flag, value))).join(' ')]);
    if (alive) rows.push(['Uptime', duration(uptimeSeconds(record))]);
    else rows.push(['Started', record.startedAt]);
    if (health) {
      rows.push(['Requests', `${health.requests} in all, ${health.running} running, ${health.waiting} waiting`]);
      rows.push(['Crashes', String(health.crashes)]);
    }
    rows.push(['Version', record.version]);
    if (record.logFile !== '') rows.push(['Log', record.logFile]);
  }
  return `${rows.map(([name, value]) => `${name.padEnd(9)} ${plain(value)}`).join('\n')}\n`;
}

function asJson({ state, record, alive, health, problem }: Status, places: ServePlaces, set: ReturnType<typeof setFlags>): string {
  return toJson({
    state,
    pid: alive ? (record?.identity.pid ?? null) : null,
    url: record?.url || null,
    host: record?.host ?? null,
    port: record?.port ?? null,
    model: record ? { name: record.model.name, id: record.model.id, path: record.model.path } : null,
    models: health?.models ?? [],
    offload: record?.offload
      ? { devices: record.offload.devices, layers: record.offload.layers, total_layers: record.offload.totalLayers }
      : null,
    context_size: record?.contextSize ?? null,
    flags: record ? Object.fromEntries(set.map(({ name, value }) => [name, value])) : null,
    started_at: record?.startedAt ?? null,
    uptime_seconds: record && alive ? uptimeSeconds(record) : null,
    answering: health !== undefined,
    progress: health?.status === 'loading' ? health.progress : null,
    requests: health ? { total: health.requests, running: health.running, waiting: health.waiting } : null,
    crashes: health?.crashes ?? null,
    problem: problem || null,
    version: record?.version ?? null,
    cli_version: recuaVersion(),
    log_file: record?.logFile || places.log,
    state_file: places.record,
  });
}

/** The models that are loaded or loading, and the number of others. */
function loadedText({ models }: Health): string {
  const there = models.filter(({ state }) => state !== 'unloaded');
  const others = models.length - there.length;
  return [...there.map(({ id, state }) => `${id} (${state})`), ...(others > 0 ? [there.length === 0 ? `none of ${others}` : `${others} not loaded`] : []), ...(models.length === 0 ? ['none'] : [])].join(', ');
}

function offloadText({ devices, layers, totalLayers }: Offload): string {
  return devices.length === 0 ? 'CPU' : `${devices.join(', ')} (${layers} of ${totalLayers} layers)`;
}

function uptimeSeconds(record: ServerRecord): number {
  return Math.max(0, Math.round((Date.now() - Date.parse(record.startedAt)) / 1000));
}

function duration(seconds: number): string {
  const parts: [number, string][] = [[Math.floor(seconds / 86_400), 'd'], [Math.floor(seconds / 3_600) % 24, 'h'], [Math.floor(seconds / 60) % 60, 'min'], [seconds % 60, 's']];
  const first = parts.findIndex(([count]) => count > 0);
  return first < 0 ? '0 s' : parts.slice(first, first + 2).map(([count, unit]) => `${count} ${unit}`).join(' ');
}
