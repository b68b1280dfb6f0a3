// `npm run bench -- --two-models [--model FILE|nano|135m] [--rounds N]`: two servers on one machine
// that need its cores at the same time. Prints what one gives alone, what both give together, and
// how the work is shared. Together they should reach 0.96 of what one gives alone.
import { loads } from './loads.mjs';
import { median } from './report.mjs';
import { runClients, withServer } from './servers.mjs';

const least = 0.96;
const { work } = loads['1-client'];

/** Tokens/s of each server that works now. */
async function rates(servers, round) {
  const runs = await Promise.all(servers.map((server) => runClients(server, { ...work, repeat: 4, round })));
  return runs.map(({ tokensPerSecond }) => tokensPerSecond);
}

/**
 * @param {{ model: string, threads: number, rounds: number }} given
 * @returns whether both together are fast enough
 */
export async function twoModels({ model, threads, rounds }) {
  const settings = { model, threads, parallel: 2, context: 2048 };
  return await withServer('recua', settings, async (one) => await withServer('recua', settings, async (two) => {
    await rates([one, two], 'warm-up');
    const alone = [];
    const together = [];
    const shares = [];
    for (let round = 0; round < rounds; round++) {
      alone.push((await rates([round % 2 === 0 ? one : two], `alone ${round}`))[0]);
      const both = await rates([one, two], `together ${round}`);
      together.push(both[0] + both[1]);
      shares.push(Math.min(...both) / (both[0] + both[1]));
    }
    const ratio = median(together) / median(alone);
    console.log(`Tokens/s, medians of ${rounds} rounds in alternation`);
    console.log(`one alone ${median(alone).toFixed(1)} · both together ${median(together).toFixed(1)}`);
    console.log(`together / alone ${ratio.toFixed(3)} (goal ≥ ${least}: ${ratio >= least ? 'met' : 'missed'})`);
    console.log(`the smaller share ${median(shares).toFixed(2)}`);
    return ratio >= least;
  }));
}
