// `npm run bench -- --flags [FLAG …] [--model FILE|nano|135m] [--rounds N]`: what a Recua flag
// changes relative to the defaults, in alternation. One client with a prompt of 1,000 words and an
// answer of 64 tokens, then 4 clients with short prompts. FLAG is like ubatch-size=256; one
// argument may combine several for one variant: 'cache-type-k=q8_0 cache-type-v=q8_0'. Without
// FLAG, the usual ones.
import { greedy } from './loads.mjs';
import { median } from './report.mjs';
import { resources } from './resources.mjs';
import { runClients, withServer } from './servers.mjs';

const usual = [
  'ubatch-size=128', 'ubatch-size=256', 'ubatch-size=1024', 'batch-size=512', 'flash-attn=off',
  'cache-type-k=q8_0', 'cache-type-k=q8_0 cache-type-v=q8_0', 'cache-type-k=f32 cache-type-v=f32', 'no-mmap', 'mlock',
];
const tokens = 64;

const work = { kind: 'chat', requests: 1, tokens, body: greedy };

/** Runs one server with these flags, from start to end. */
async function measure(text, round, settings) {
  const flags = text === '' ? [] : text.split(' ').flatMap((flag) => `--${flag}`.split('='));
  return await withServer('recua', { ...settings, parallel: 4, context: 4096, flags }, async (server) => {
    await runClients(server, { ...work, clients: 4, round: 'warm-up' });
    const long = await runClients(server, { ...work, clients: 1, promptWords: 1000, round });
    const short = await runClients(server, { ...work, clients: 4, requests: 2, round });
    return {
      startMs: server.startMs,
      read: long.promptTokens / (long.firstTokenMs / 1000),
      generate: (tokens - 1) / (long.seconds - long.firstTokenMs / 1000),
      four: short.tokensPerSecond,
      mib: resources(server.pid)?.residentMib ?? NaN,
    };
  });
}

/**
 * @param {{ given: string[], model: string, threads: number, gpuLayers?: number, rounds: number }}
 * settings
 */
export async function flags({ given, rounds, ...settings }) {
  const variants = given.length > 0 ? given : usual;
  // The machine's speed drifts: compare each variant with the defaults just before it.
  const pairs = new Map(variants.map((text) => [text, []]));
  for (let round = 0; round < rounds; round++) {
    for (const [text, list] of pairs) {
      const before = await measure('', round, settings);
      try {
        list.push([before, await measure(text, round, settings)]);
      } catch (error) {
        console.error(`${text}: ${error.message}`);
        pairs.delete(text);
        process.exitCode = 1;
      }
    }
  }
  console.log(`${rounds} rounds, medians (ratio to the defaults just before: median, spread)`);
  for (const [text, list] of pairs) {
    const cell = (key) => {
      const ratios = list.map(([before, after]) => after[key] / before[key]);
      return `${median(list.map(([, after]) => after[key])).toFixed(0)} (${median(ratios).toFixed(2)}, ${Math.min(...ratios).toFixed(2)}–${Math.max(...ratios).toFixed(2)})`;
    };
    console.log(`${text}\n  prompt tokens/s ${cell('read')}, tokens/s behind it ${cell('generate')}, 4 clients ${cell('four')}, start ms ${cell('startMs')}, resident MiB ${cell('mib')}`);
  }
}
