// `npm run bench -- --day MINUTES [LOAD …] [--model FILE|nano|135m] [--rounds N]`: one server lives through all kinds of load; then each load is measured
// on it and on a server that has just been started, in alternation. What a server has been through must not slow it: no load below 0.98 of the fresh one.
import { loads } from './loads.mjs';
import { median } from './report.mjs';
import { mix, soakKinds } from './soak.mjs';
import { runClients, startServer, withServer } from './servers.mjs';

/** All loads run on servers with the same settings. */
const settings = { parallel: 4, context: 4096 };
const measured = ['1-client', '4-clients', 'sampled-1', 'top-p-1', 'schema-1', 'long-prompts', 'second-turn', 'taking-turns', 'embed-64', 'embed-16-clients'];
/** What the mix of small requests does not have: long prompts, large embedding requests, prompts beside streams. */
const large = ['long-prompts', 'embed-64', 'embed-long', 'taking-turns', 'schema-1', '4-clients'];
const least = 0.98;

const workOf = (name) => (loads[name].work.kind === 'embed' && loads[name].work.words > 1000 ? { ...loads[name].work, words: 600 } : loads[name].work);

export const dayLoads = measured;

/** @param {{ model: string, threads: number, minutes: number, rounds: number, only?: string[] }} given Returns whether all loads are as fast as on a fresh server. */
export async function day({ model, threads, minutes, rounds, only = [] }) {
  let good = true;
  await withServer('recua', { model, threads, ...settings }, async (lived) => {
    const failures = [];
    await mix(lived.url, soakKinds, minutes * 60_000, (error) => failures.push(error.message));
    for (const name of large) await runClients(lived, { ...workOf(name), round: 'day' });
    if (failures.length > 0) console.log(`${failures.length} requests of the mix failed, the last: ${failures.at(-1)}`);
    console.log(`After ${minutes} minutes of all kinds of requests, tokens/s, medians of ${rounds} rounds in alternation`);
    console.log('load                    lived     fresh   lived / fresh');
    for (const name of only.length > 0 ? only : measured) {
      const fresh = await startServer('recua', { model, threads, ...settings });
      const rates = { lived: [], fresh: [] };
      try {
        const servers = Object.entries({ lived, fresh });
        for (const [, server] of servers) await runClients(server, { ...workOf(name), round: 'warm-up' });
        for (let round = 0; round < rounds; round++) {
          for (const [key, server] of servers) rates[key].push((await runClients(server, { ...workOf(name), round: `${key} ${round}` })).tokensPerSecond);
        }
      } finally {
        await fresh.stop();
      }
      const ratio = median(rates.lived) / median(rates.fresh);
      good &&= ratio >= least;
      console.log(`${name.padEnd(20)}${median(rates.lived).toFixed(1).padStart(9)}${median(rates.fresh).toFixed(1).padStart(10)}${ratio.toFixed(2).padStart(16)}${ratio < least ? '  slower' : ''}`);
    }
  });
  return good;
}
