// `npm run bench -- --day MINUTES [LOAD …] [--model FILE|nano|135m] [--rounds N]`: checks that a
// server's history does not slow it. Measures two servers of the same kind beside each other,
// before and after one of them has served all kinds of load. The other one cancels out differences
// between two processes from the start (where their weights are in memory makes 3 %) and other work
// on the machine. No load may end below 0.98 of its rate before.
import { loads } from './loads.mjs';
import { timesOf } from './report.mjs';
import { mix, mixKinds } from './mix.mjs';
import { runClients, withServer } from './servers.mjs';

/** All loads run on servers with the same settings. */
const settings = { parallel: 4, context: 4096 };
export const dayLoads = [
  '1-client', '4-clients', 'sampled-1', 'top-p-1', 'schema-1', 'long-prompts', 'second-turn',
  'taking-turns', 'embed-64', 'embed-16-clients',
];
/** What the mix of small requests lacks: long prompts, large embeddings, prompts beside streams. */
const large = ['long-prompts', 'embed-64', 'embed-long', 'taking-turns', 'schema-1', '4-clients'];
const least = 0.98;
/** Minimum duration of a run; shorter ones measure the machine more than the server. */
const runSeconds = 1;
/** Loads with long runs get fewer pairs than requested, to bound the total time. */
const leastPairs = 7;
const loadMs = 60_000;

function workOf(name) {
  const { work } = loads[name];
  return work.kind === 'embed' && work.words > 1000 ? { ...work, words: 600 } : work;
}

/** The worked server's rate relative to the other's: one number per pair of runs. */
async function pairs(name, servers, rounds, when) {
  const work = workOf(name);
  let repeat = 1;
  for (const server of servers) {
    const { seconds } = await runClients(server, { ...work, round: `${when}, warm-up` });
    repeat = Math.max(repeat, Math.ceil(runSeconds / seconds));
  }
  const ratios = [];
  const until = performance.now() + loadMs;
  for (let round = 0; round < rounds; round++) {
    if (round >= leastPairs && performance.now() > until) break;
    const rates = [];
    for (const turn of [round % 2, 1 - (round % 2)]) {
      const run = await runClients(servers[turn], { ...work, repeat, round: `${when} ${round}` });
      rates[turn] = run.tokensPerSecond;
    }
    ratios.push(rates[0] / rates[1]);
  }
  process.stderr.write(`${when}: ${name}, ${ratios.length} pairs\n`);
  return ratios;
}

async function liveThrough(server, minutes) {
  const failures = [];
  await mix(server.url, mixKinds, minutes * 60_000, (error) => failures.push(error.message));
  for (const name of large) await runClients(server, { ...workOf(name), round: 'day' });
  if (failures.length > 0) {
    console.log(`${failures.length} requests of the mix failed, the last: ${failures.at(-1)}`);
  }
}

/**
 * @param {{ model: string, threads: number, minutes: number, rounds: number, only?: string[] }}
 *   given
 * @returns whether no load is surely slower than before
 */
export async function day({ model, threads, minutes, rounds, only = [] }) {
  const names = only.length > 0 ? only : dayLoads;
  const started = { model, threads, ...settings };
  let good = true;
  await withServer('recua', started, async (lives) => {
    await withServer('recua', started, async (other) => {
      const servers = [lives, other];
      const before = new Map();
      for (const name of names) before.set(name, await pairs(name, servers, rounds, 'before'));
      await liveThrough(lives, minutes);
      console.log(`Tokens/s after ${minutes} minutes of all kinds of requests, in units of before`);
      console.log(`${'load'.padEnd(20)} ratio    95 % sure (up to ${rounds} pairs of runs each)`);
      for (const name of names) {
        const after = await pairs(name, servers, rounds, 'after');
        const { ratio, low, high } = timesOf(after, before.get(name));
        const slower = ratio < least && high < 1;
        good &&= !slower;
        const range = `${low.toFixed(2)}–${high.toFixed(2)}`;
        console.log(`${name.padEnd(20)} ${ratio.toFixed(3)}    ${range}${slower ? '  slower' : ''}`);
      }
    });
  });
  return good;
}
