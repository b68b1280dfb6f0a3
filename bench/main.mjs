// `npm run bench [-- LOAD …] [--model FILE|nano|135m] [--rounds N]`: Recua beside llama-server of the same tree,
// same file, same flags, in alternation (A B A B), as median ratios. Absolute numbers drift on a shared machine, ratios less.
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';
import { shapes, writeRandomModel } from './random-model.mjs';
import { startServer } from './servers.mjs';

const here = fileURLToPath(new URL('.', import.meta.url));
const greedy = { temperature: 0, top_k: 1 };
const sampled = { temperature: 0.8, top_k: 40, top_p: 0.95, min_p: 0.05, repeat_penalty: 1.1, frequency_penalty: 0.1 };
const nucleus = { temperature: 0.8, top_k: 0, top_p: 0.95, min_p: 0 };
const schema = {
  temperature: 0,
  response_format: {
    type: 'json_schema',
    json_schema: {
      name: 'people', strict: true,
      schema: {
        type: 'array', minItems: 50, maxItems: 60,
        items: {
          type: 'object', required: ['name', 'age', 'tags'], additionalProperties: false,
          properties: { name: { type: 'string', minLength: 5, maxLength: 40 }, age: { type: 'integer' }, tags: { type: 'array', items: { enum: ['red', 'green', 'blue'] }, minItems: 2 } },
        },
      },
    },
  },
};

/** What each load asks for. Requests and tokens are per client. */
const loads = {
  '1-client': { clients: 1, requests: 2, tokens: 128, body: greedy },
  '4-clients': { clients: 4, requests: 2, tokens: 128, body: greedy },
  '16-clients': { clients: 16, requests: 2, tokens: 96, body: greedy },
  'sampled-1': { clients: 1, requests: 2, tokens: 128, body: sampled },
  'sampled-16': { clients: 16, requests: 2, tokens: 96, body: sampled },
  // What OpenAI's clients send: llama-server's own defaults for the rest are switched off.
  'top-p-1': { clients: 1, requests: 1, tokens: 64, body: nucleus },
  'top-p-16': { clients: 16, requests: 1, tokens: 32, body: nucleus },
  'schema-1': { clients: 1, requests: 1, tokens: 64, body: schema },
  'schema-16': { clients: 16, requests: 1, tokens: 32, body: schema },
};
const defaultLoads = ['1-client', '4-clients', '16-clients'];

function modelFile(name) {
  if (!Object.hasOwn(shapes, name)) return name;
  const folder = join(here, 'build');
  mkdirSync(folder, { recursive: true });
  const path = join(folder, `${name}.gguf`);
  if (!existsSync(path)) writeRandomModel(name, path);
  return path;
}

async function measure(server, load) {
  const { stdout } = await promisify(execFile)(process.execPath, [join(here, 'clients.mjs'), JSON.stringify({ url: server.url, ...load })]);
  return JSON.parse(stdout);
}

const median = (values) => {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
};

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { model: { type: 'string', default: join(here, '..', 'models', 'builtin.gguf') }, rounds: { type: 'string', default: '5' }, threads: { type: 'string', default: String(os.availableParallelism()) } },
});
const names = positionals.length > 0 ? positionals : defaultLoads;
const unknown = names.find((name) => !Object.hasOwn(loads, name));
const rounds = Number(values.rounds);
if (unknown || !(rounds >= 1)) {
  console.error(unknown ? `Unknown load ${unknown}. There are: ${Object.keys(loads).join(', ')}.` : `--rounds takes a number of at least 1, not ${values.rounds}.`);
  process.exit(2);
}
const model = modelFile(values.model);
const results = [];
console.log(`${model}, ${values.threads} threads, ${rounds} rounds in alternation; tokens/s, median`);
console.log('load            recua   llama-server   ratio (spread)');
for (const name of names) {
  const load = loads[name];
  const settings = { model, parallel: load.clients, context: 1024, threads: Number(values.threads) };
  const runs = { recua: [], 'llama-server': [] };
  const servers = [];
  try {
    for (const peer of Object.keys(runs)) servers.push(await startServer(peer, settings));
    for (const server of servers) await measure(server, { ...load, requests: 1 });
    for (let round = 0; round < rounds; round++) {
      for (const server of servers) runs[server.name].push(await measure(server, load));
    }
  } finally {
    await Promise.all(servers.map((server) => server.stop()));
  }
  const rates = Object.fromEntries(Object.entries(runs).map(([peer, list]) => [peer, list.map((run) => run.tokensPerSecond)]));
  const ratios = rates.recua.map((rate, round) => rate / rates['llama-server'][round]);
  results.push({ load: name, rates, ratios });
  console.log(`${name.padEnd(14)} ${median(rates.recua).toFixed(0).padStart(6)} ${median(rates['llama-server']).toFixed(0).padStart(14)} ${median(ratios).toFixed(2).padStart(7)} (${Math.min(...ratios).toFixed(2)}–${Math.max(...ratios).toFixed(2)})`);
}
const folder = join(here, 'results');
mkdirSync(folder, { recursive: true });
const saved = join(folder, `${new Date().toISOString().replaceAll(':', '-')}.json`);
writeFileSync(saved, `${JSON.stringify({ model, threads: values.threads, rounds, results }, null, 2)}\n`);
console.log(`Saved ${saved}`);
