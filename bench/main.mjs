// `npm run bench [-- LOAD …] [--model FILE|nano|135m] [--rounds N] [--gpu-layers N]`: Recua beside
// llama-server of the same tree, same file, same flags, in alternation (A B A B), as median ratios.
// Absolute numbers drift on a shared machine, ratios less. Without LOAD: all that have a goal,
// except `depth` (answers behind long contexts) and `agents` (two agents, eight turns each).
// Without a model: those that the load has goals for, or the built-in one. `npm run bench --
// --compare OLD.json NEW.json` compares two saved runs; `--list` names the loads; `--growth
// [clients|context|conversations …] [--sizes N,N,…]` measures how numbers change as these grow;
// `--flags [FLAG …]` what our own flags change; `--in-process` compares the library with
// node-llama-cpp; `--day MINUTES [LOAD …]` runs a mix on one server and measures it beside a fresh
// one; `--two-models` lets two servers share the cores; `--templates [TEMPLATE …]` compares the
// prompts that both make of chats.
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { day, dayLoads } from './day.mjs';
import { loadAlone } from './engine-alone.mjs';
import { flags } from './flags.mjs';
import { growth, tables } from './growth.mjs';
import { inProcess } from './in-process.mjs';
import { goalModels, greedy, loads } from './loads.mjs';
import { describeMachine, machine } from './machine.mjs';
import { shapes, writeRandomModel } from './random-model.mjs';
import { compare, heading, line, meetsGoal, summarize } from './report.mjs';
import { compareTemplates } from './templates.mjs';
import { resources } from './resources.mjs';
import { twoModels } from './two-models.mjs';
import { runClients, startServer, withServer } from './servers.mjs';

const here = fileURLToPath(new URL('.', import.meta.url));
const peers = ['recua', 'llama-server'];

function modelFile(name) {
  if (!Object.hasOwn(shapes, name)) return name;
  const folder = join(here, 'build');
  mkdirSync(folder, { recursive: true });
  const path = join(folder, `${name}.gguf`);
  if (!existsSync(path)) writeRandomModel(name, path);
  return path;
}

async function measured(server, work) {
  const before = resources(server.pid);
  const run = await runClients(server, work);
  const after = resources(server.pid);
  return {
    ...run, startMs: server.startMs, residentMib: after?.residentMib,
    cpuSecondsPer1000: after ? ((after.cpuSeconds - before.cpuSeconds) / run.tokens) * 1000 : undefined,
  };
}

/**
 * One warm pair of servers for all rounds, or a new pair for each round if the load measures a
 * fresh start.
 */
async function measure({ fresh = false, work, numbers, ...given }, settings, rounds) {
  const runs = Object.fromEntries(peers.map((peer) => [peer, []]));
  const serverSettings = {
    ...settings,
    parallel: given.parallel,
    context: given.context,
    embeddings: given.embeddings,
    speculation: given.speculation,
    flags: given.flags,
  };
  if (fresh) {
    for (let round = 0; round < rounds; round++) {
      for (const peer of peers) {
        runs[peer].push(await withServer(peer, serverSettings, (server) => measured(server, { ...work, round })));
      }
    }
    return runs;
  }
  const servers = [];
  try {
    for (const peer of peers) servers.push(await startServer(peer, serverSettings));
    for (const server of servers) {
      await runClients(server, { ...work, ...('requests' in work ? { requests: 1 } : {}), ...(work.kind === 'depth' ? { promptWords: 1 } : {}), round: 'warm-up' });
    }
    for (let round = 0; round < rounds; round++) {
      for (const server of servers) runs[server.name].push(await measured(server, { ...work, round }));
      if (numbers.tokensPerSecond?.share) (runs.greedy ??= []).push(await measured(servers[0], { ...work, body: greedy, round: `${round}, greedy` }));
      if (!numbers.tokensPerSecond?.engine) continue;
      const { promptTokens } = runs.recua.at(-1);
      (runs.engine ??= []).push({
        tokensPerSecond: await loadAlone({
          ...settings,
          clients: work.clients,
          requests: work.requests,
          promptTokens,
          tokens: work.tokens,
        }),
      });
    }
  } finally {
    await Promise.all(servers.map((server) => server.stop()));
  }
  return runs;
}

function misuse(text) {
  console.error(text);
  process.exit(2);
}

function readArguments(options) {
  try {
    return parseArgs({ allowPositionals: true, options });
  } catch (error) {
    return misuse(`${error.message.split('. ')[0]}. The options are ${Object.keys(options).map((name) => `--${name}`).join(', ')}; docs/performance.md explains them.`);
  }
}

const { values, positionals } = readArguments({
  model: { type: 'string' }, rounds: { type: 'string' },
  threads: { type: 'string', default: String(os.availableParallelism()) }, 'gpu-layers': { type: 'string' }, compare: { type: 'boolean' }, list: { type: 'boolean' }, growth: { type: 'boolean' }, sizes: { type: 'string' },
  'in-process': { type: 'boolean' }, 'two-models': { type: 'boolean' }, day: { type: 'string' }, flags: { type: 'boolean' }, templates: { type: 'boolean' },
});
if (values.list) {
  console.log(Object.keys(loads).join('\n'));
  process.exit(0);
}
if (values.compare) {
  if (positionals.length !== 2) misuse('--compare takes two saved runs: --compare OLD.json NEW.json');
  console.log(compare(...positionals.map((path) => JSON.parse(readFileSync(path, 'utf8')))));
  process.exit(0);
}
if (values.growth) {
  const sizes = values.sizes?.split(',').map(Number);
  const unknown = positionals.find((name) => !Object.hasOwn(tables, name));
  if (unknown) misuse(`Unknown table ${unknown}. There are: ${Object.keys(tables).join(', ')}.`);
  if (sizes?.some((size) => !(Number.isInteger(size) && size >= 1))) misuse(`--sizes takes numbers with commas between, not ${values.sizes}.`);
  const settings = { model: modelFile(values.model ?? 'nano'), threads: Number(values.threads), ...(sizes ? { sizes } : {}) };
  await growth(positionals.length > 0 ? positionals : Object.keys(tables), settings);
  process.exit(0);
}
if (values.templates) {
  const good = await compareTemplates({ model: modelFile(values.model ?? 'nano'), threads: Number(values.threads), only: positionals });
  process.exit(good ? 0 : 1);
}
if (values['two-models']) {
  const good = await twoModels({ model: modelFile(values.model ?? '135m'), threads: Number(values.threads), rounds: Number(values.rounds ?? '5') });
  process.exit(good ? 0 : 1);
}
if (values.day !== undefined) {
  const minutes = Number(values.day);
  if (!(minutes > 0)) misuse(`--day takes minutes, not ${values.day}.`);
  const unknown = positionals.find((name) => !dayLoads.includes(name));
  if (unknown) misuse(`Unknown load ${unknown}. There are: ${dayLoads.join(', ')}.`);
  const good = await day({ model: modelFile(values.model ?? '135m'), threads: Number(values.threads), minutes, rounds: Number(values.rounds ?? '9'), only: positionals });
  process.exit(good ? 0 : 1);
}
const rounds = Number(values.rounds ?? '3');
if (!(rounds >= 1)) misuse(`--rounds takes a number of at least 1, not ${values.rounds}.`);
const gpuLayers = values['gpu-layers'] === undefined ? undefined : Number(values['gpu-layers']);
if (gpuLayers !== undefined && !(gpuLayers >= -1)) misuse(`--gpu-layers takes a number of at least -1, not ${values['gpu-layers']}.`);
if (values.flags) {
  await flags({ given: positionals, model: modelFile(values.model ?? '135m'), threads: Number(values.threads), gpuLayers, rounds });
  process.exit();
}
const everyLoad = Object.keys(loads);
// `depth` and `agents` are all loads of that name. They take long, so they run only when named.
const slow = ['depth', 'agents'];
const isSlow = (load) => slow.some((name) => load.startsWith(`${name}-`));
const given = positionals.flatMap((name) => (slow.includes(name) ? everyLoad.filter((load) => load.startsWith(`${name}-`)) : [name]));
const names = given.includes('all') ? everyLoad : given.length > 0 ? given : everyLoad.filter((name) => goalModels(name).length > 0 && !isSlow(name));
const unknown = names.find((name) => !Object.hasOwn(loads, name));
if (unknown) misuse(`Unknown load ${unknown}. There are: ${Object.keys(loads).join(', ')}, and all.`);

const builtin = join(here, '..', 'builtin', 'builtin.gguf');
if (values['in-process']) {
  await inProcess({ model: modelFile(values.model ?? 'nano'), threads: Number(values.threads), rounds });
  process.exit(0);
}

/**
 * The rows of one load on one model. Clients of a small model send more, so that a round takes
 * seconds.
 */
async function runLoad(name, shape) {
  const model = modelFile(shape);
  const load = loads[name];
  const repeats = load.fresh || !load.work.requests || statSync(model).size >= 64 * 2 ** 20 ? 1 : 8;
  const scaled = repeats === 1 ? load : { ...load, work: { ...load.work, requests: load.work.requests * repeats } };
  const runs = await measure(scaled, { model, threads: Number(values.threads), gpuLayers }, rounds);
  return summarize(name, load.numbers, runs, shape).map((row) => ({ ...row, model: basename(model), runs }));
}

const rows = [];
const where = machine();
console.log(describeMachine(where));
console.log(`${values.threads} threads, ${gpuLayers === undefined ? '' : `${gpuLayers} GPU layers, `}${rounds} rounds in alternation, medians\n${heading}`);
for (const name of names) {
  const shapesOfLoad = goalModels(name);
  for (const shape of values.model ? [values.model] : shapesOfLoad.length > 0 ? shapesOfLoad : [builtin]) {
    try {
      const summary = await runLoad(name, shape);
      for (const row of summary) console.log(line(row));
      rows.push(...summary);
    } catch (error) {
      // Measure and save the other numbers all the same.
      console.error(`${name}, ${shape}: ${error.message}`);
      process.exitCode = 1;
    }
  }
}
const withGoal = rows.filter(({ goal }) => goal !== undefined);
if (withGoal.length > 0) console.log(`${withGoal.filter(meetsGoal).length} of ${withGoal.length} goals met`);
for (const { load, model, share, engine } of rows) {
  if (engine) console.log(`${load}, ${model}: ${engine.ratio.toFixed(2)} of the engine alone, goal ≥ ${engine.least}`);
  if (share) console.log(`${load}, ${model}: ${share.ratio.toFixed(2)} of our own greedy rate, goal ≥ ${share.least}`);
}
const date = new Date().toISOString();
const folder = join(here, 'results');
mkdirSync(folder, { recursive: true });
const saved = join(folder, `${date.replaceAll(':', '-')}.json`);
writeFileSync(saved, `${JSON.stringify({ date, machine: where, threads: values.threads, gpuLayers, rounds, rows }, null, 2)}\n`);
console.log(`Saved ${saved}`);
