// A server under all kinds of traffic, then with engine crashes, and checked afterwards: each
// answer is right, and nothing unused is held. Linux only.
import { setTimeout as wait } from 'node:timers/promises';
import { enginesOf, lookAt, metric, processTree, residentMib, socketsOf } from '../service/observing.js';
import { kinds, soloAnswers } from './traffic.js';

export interface SoakSettings {
  url: string;
  /** Of the gateway. */
  pid: number;
  seconds: number;
  clients: number;
  /** Engines killed in the last part. */
  kills: number;
  /** Called every `reportSeconds`. */
  reportSeconds: number;
  report(line: Sample): void;
}

export interface Sample {
  seconds: number;
  requests: number;
  wrong: number;
  gatewayMib: number;
  enginesMib: number;
  sockets: number;
  /** For /health and /metrics since the last report. */
  medianMs: number;
  longestMs: number;
}

export interface Verdict {
  requests: number;
  kills: number;
  /** A sentence for each broken promise. */
  broken: string[];
  /** Private memory late in the run over that after the first third; 1 is no growth. */
  growth: number;
}

/** Share of the time; the rest is for engine crashes. */
const quietShare = 0.9;
/** Limit on the growth of memory since a third of the quiet time. */
const mostGrowth = 1.05;
/** Caches fill before that. */
const judgedFromSeconds = 600;
const mostTold = 5;
const median = (values: number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0;

export async function soak({ url, pid, seconds, clients, kills, reportSeconds, report }: SoakSettings): Promise<Verdict> {
  const solo = await soloAnswers(url);
  const before = socketsOf(pid);
  const names = Object.keys(kinds);
  const wrong: string[] = [];
  const samples: Sample[] = [];
  const startMs = performance.now();
  const elapsed = (): number => (performance.now() - startMs) / 1_000;
  let requests = 0;
  let over = false;
  const client = async (): Promise<void> => {
    while (!over) {
      const i = requests++;
      const name = names[i % names.length]!;
      await kinds[name]!(url, i, solo).catch((thrown: Error) => wrong.push(`${name}, request ${i}: ${thrown.message}${thrown.cause instanceof Error ? `: ${thrown.cause.message}` : ''}`));
    }
  };
  let looked = lookAt(url);
  const sample = async (): Promise<void> => {
    const times = await looked();
    looked = lookAt(url);
    const enginesMib = enginesOf(pid).reduce((sum, one) => sum + residentMib(one), 0);
    const one = {
      seconds: elapsed(),
      requests,
      wrong: wrong.length,
      gatewayMib: residentMib(pid) - enginesMib,
      enginesMib,
      sockets: socketsOf(pid),
      medianMs: median(times),
      longestMs: times.at(-1) ?? 0,
    };
    samples.push(one);
    report(one);
  };
  const all = Promise.all(Array.from({ length: clients }, client));
  const quietSeconds = kills > 0 ? seconds * quietShare : seconds;
  while (elapsed() < quietSeconds) {
    await wait(Math.min(reportSeconds, quietSeconds - elapsed()) * 1_000);
    await sample();
  }
  // While there is no engine, /health says so.
  await looked();
  let killed = 0;
  for (let i = 0; i < kills; i++) {
    await wait((seconds - quietSeconds) * 1_000 / kills);
    for (const engine of enginesOf(pid).slice(0, 1)) {
      process.kill(engine, 'SIGKILL');
      killed++;
    }
  }
  over = true;
  await all;
  // Idle connections of a client stay open for a while.
  const left = await leftovers(url, pid, before + 2 * clients);
  const total = ({ gatewayMib, enginesMib }: Sample): number => gatewayMib + enginesMib;
  const growth =
    median(samples.slice(-Math.ceil(samples.length / 4)).map(total)) /
    median(samples.slice(Math.floor(samples.length / 3), Math.ceil(samples.length / 2)).map(total));
  const broken = [...wrong.slice(0, mostTold), ...(wrong.length > mostTold ? [`and ${wrong.length - mostTold} more`] : []), ...left];
  if (quietSeconds >= judgedFromSeconds && growth > mostGrowth) broken.push(`memory grew ${growth.toFixed(3)} times after the first third`);
  if (killed < kills) broken.push(`expected ${kills} engines to kill, found ${killed}`);
  return { requests, kills: killed, broken, growth };
}

/** What is still held some time after the last client. */
async function leftovers(url: string, pid: number, mostSockets: number): Promise<string[]> {
  const held = async (): Promise<string[]> => {
    const names = ['recua_requests_running', 'recua_requests_waiting', 'recua_kv_used_tokens'];
    const values = await Promise.all(names.map(async (name) => [name, await metric(url, name)] as const));
    const found = values.filter(([, value]) => value > 0).map(([name, value]) => `${name} is ${value} when nobody asks`);
    const sockets = socketsOf(pid);
    if (sockets > mostSockets) found.push(`${sockets} sockets are open when nobody asks, and ${mostSockets} were to be expected`);
    // One engine, and perhaps the successor of the last killed one.
    if (processTree(pid).length > 2) found.push(`${processTree(pid).length - 1} processes are left of one`);
    return found;
  };
  let found = await held();
  for (let tries = 0; found.length > 0 && tries < 100; tries++) {
    await wait(200);
    found = await held();
  }
  return found;
}
