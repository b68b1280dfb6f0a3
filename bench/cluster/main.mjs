// `npm run bench -- cluster [haproxy|nginx …] [--model FILE|nano|135m] [--conversations N] [--turns
// N] [--system-words N] [--tool-words N] [--seconds N] [--seed N] [--rounds N]`: runs four replicas
// behind the stock balancers, with agents as clients, each replica in its own network namespace if
// that is allowed. Prints the tokens read and found in caches, the time to the first token compared
// with round robin, how evenly the replicas are used, and what is lost when one is killed and when
// all are restarted one by one. Without a core for each replica, the times are those of an
// overloaded machine; the token counts are still valid.
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { shapes, writeRandomModel } from '../random-model.mjs';
import { median } from '../report.mjs';
import { inTurn, isInstalled, startBalancer } from './balancer.mjs';
import { makeReplicas } from './replicas.mjs';
import { makeConversations, run, runOneByOne } from './traffic.mjs';

const key = 'a-key-of-the-cluster-bench';
const tokens = 24;

/** What each balancer can identify conversations by. */
const namings = { haproxy: ['header', 'key', 'none'], nginx: ['header'] };

export const sumsOf = (results) => ({
  requests: results.length,
  prompt: results.reduce((sum, { prompt }) => sum + prompt, 0),
  cached: results.reduce((sum, { cached }) => sum + cached, 0),
  failed: results.filter(({ error }) => error !== undefined),
});

export const busiest = (counts) => Math.max(...counts) / (counts.reduce((sum, count) => sum + count, 0) / counts.length);

/** Runs the work on replicas with empty caches; counts the requests per replica. */
async function measure(kind, work, change = (text) => text) {
  const { traffic, turns, pauseMs, args, count } = work;
  const { replicas, stop } = await makeReplicas({ count, args, key });
  const balancer = await startBalancer(kind, replicas, { change });
  try {
    const results = await run(balancer.url, key, makeConversations({ ...traffic, naming: namings[kind] }), { turns, tokens, pauseMs });
    return {
      ...sumsOf(results),
      firstMs: results.filter(({ firstMs }) => firstMs !== undefined).map(({ firstMs }) => firstMs),
      counts: await Promise.all(replicas.map((one) => one.requests())),
    };
  } finally {
    await balancer.stop();
    await stop();
  }
}

/** The most that can be cached: one server with room for everything, requests one after another. */
async function bestOf({ traffic, turns, args }) {
  const { replicas: [one], stop } = await makeReplicas({ count: 1, args: [...args, '--parallel', '16'], key });
  try {
    return sumsOf(await runOneByOne(one.url, key, makeConversations({ ...traffic, naming: ['none'] }), { turns, tokens }));
  } finally {
    await stop();
  }
}

/** Under load: kills a replica and restarts it, then restarts all one by one. */
async function faults(kind, work, seconds) {
  const { traffic, pauseMs, args, count } = work;
  const { replicas, stop } = await makeReplicas({ count, args: [...args, '--drain-timeout', '60'], key });
  const balancer = await startBalancer(kind, replicas);
  const underLoad = async (seed, during) => {
    let isOver = false;
    const all = makeConversations({ ...traffic, seed, naming: namings[kind] });
    // A conversation that is long enough starts over.
    const load = Promise.all(all.map(async (one, index) => {
      const results = [];
      const [system] = one.messages;
      while (!isOver) {
        one.messages = [system];
        results.push(
          ...(await run(balancer.url, key, [one], {
            turns: (turn) => !isOver && turn < 6,
            tokens: index % 3 === 0 ? 160 : tokens,
            pauseMs,
          })),
        );
      }
      return results;
    }));
    try {
      await during();
    } finally {
      isOver = true;
    }
    return (await load).flat();
  };
  try {
    const killed = await underLoad(2, async () => {
      for (let round = 0; round < 4; round++) {
        await wait((seconds * 1000) / 8);
        const one = replicas[round % replicas.length];
        await one.end('SIGKILL');
        await wait((seconds * 1000) / 8);
        await one.start();
      }
      await wait(2000);
    });
    const codes = [];
    const rolled = await underLoad(3, async () => {
      await wait(1000);
      for (const one of replicas) {
        codes.push(await one.end('SIGTERM'));
        await one.start();
        await wait(3000);
      }
    });
    return { killed, rolled, codes };
  } finally {
    await balancer.stop();
    await stop();
  }
}

function goal(text, value, meets, digits = 2) {
  console.log(`  ${text.padEnd(52)} ${value.toFixed(digits).padStart(8)}  ${meets ? 'met' : 'missed'}`);
  return meets;
}

function modelFile(name) {
  if (!Object.hasOwn(shapes, name)) return name;
  const folder = fileURLToPath(new URL('../build', import.meta.url));
  mkdirSync(folder, { recursive: true });
  const path = join(folder, `${name}.gguf`);
  if (!existsSync(path)) writeRandomModel(name, path);
  return path;
}

function misuse(text) {
  console.error(text);
  process.exit(2);
}

async function main() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      model: { type: 'string', default: 'nano' }, conversations: { type: 'string', default: '24' }, turns: { type: 'string', default: '8' }, 'system-words': { type: 'string', default: '600' }, 'tool-words': { type: 'string', default: '200' },
      seconds: { type: 'string', default: '24' }, seed: { type: 'string', default: '1' }, rounds: { type: 'string', default: '3' },
    },
  });
  const numberOf = (name, least) => (Number.isInteger(Number(values[name])) && Number(values[name]) >= least ? Number(values[name]) : misuse(`--${name} takes a whole number of at least ${least}, not ${values[name]}.`));
  const kinds = positionals.length > 0 ? positionals : ['haproxy', 'nginx'];
  const unknown = kinds.find((kind) => !Object.hasOwn(namings, kind));
  if (unknown) misuse(`Unknown balancer ${unknown}. There are: ${Object.keys(namings).join(', ')}.`);
  const missing = kinds.find((kind) => !isInstalled(kind));
  if (missing) misuse(`${missing} is not installed.`);
  const work = {
    count: 4, turns: numberOf('turns', 2), pauseMs: [200, 1500],
    args: [modelFile(values.model), '--ctx-size', '8192', '--threads', '1'],
    traffic: { conversations: numberOf('conversations', 1), kinds: 3, systemWords: numberOf('system-words', 1), toolWords: numberOf('tool-words', 1), seed: numberOf('seed', 0) },
  };
  const rounds = numberOf('rounds', 1);
  const seconds = numberOf('seconds', 8);
  let isGood = true;
  const best = await bestOf(work);
  console.log(`${best.requests} requests of ${work.traffic.conversations} conversations, ${values.model}; one server, one request after the other: ${best.cached} of ${best.prompt} tokens cached`);
  for (const kind of kinds) {
    const turned = [];
    const ours = [];
    for (let round = 0; round < rounds; round++) {
      const one = { ...work, traffic: { ...work.traffic, seed: work.traffic.seed + round } };
      turned.push(await measure(kind, one, (text) => inTurn(kind, text)));
      ours.push(await measure(kind, one));
    }
    console.log(`${kind}: ${work.count} replicas, ${rounds} rounds in alternation`);
    for (const [name, runs] of [['in turn', turned], ['by conversation', ours]]) {
      for (const { cached, prompt, firstMs, counts, failed } of runs) {
        console.log(`  ${name.padEnd(16)} ${cached} of ${prompt} tokens cached, ${prompt - cached} read; first token after ${median(firstMs).toFixed(0)} ms; requests ${counts.join(' ')}; failed ${failed.length}`);
      }
    }
    const share = ({ cached, prompt }) => cached / prompt;
    const times = median(ours.map(({ firstMs }, round) => median(firstMs) / median(turned[round].firstMs)));
    const cachedShare = median(ours.map(share)) / share(best);
    const fullest = median(ours.map(({ counts }) => busiest(counts)));
    const failures = ours.reduce((sum, { failed }) => sum + failed.length, 0);
    const checks = [
      goal('time to first token / in turn, goal ≤ 0.5', times, times <= 0.5),
      goal('cached share / best possible, goal ≥ 0.9', cachedShare, cachedShare >= 0.9),
      goal('busiest replica / mean, goal ≤ 1.3', fullest, fullest <= 1.3),
      goal('failed requests, goal 0', failures, failures === 0, 0),
    ];
    const { killed, rolled, codes } = await faults(kind, work, seconds);
    const lost = sumsOf(killed).failed;
    const notBegun = lost.filter(({ begun }) => !begun);
    console.log(`  four kills under load: ${killed.length} requests, ${lost.length - notBegun.length} cut in their answer`);
    checks.push(goal('killed replica: requests lost that had not begun, goal 0', notBegun.length, notBegun.length === 0, 0));
    const failed = sumsOf(rolled).failed;
    console.log(`  rolling restart under load: ${rolled.length} requests, exit codes ${codes.join(' ')}`);
    checks.push(goal('rolling restart: failed requests, goal 0', failed.length, failed.length === 0, 0));
    for (const { error } of [...notBegun, ...failed].slice(0, 5)) console.log(`    ${error}`);
    isGood &&= checks.every((good) => good);
  }
  return isGood;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.exit(await main() ? 0 : 1);
