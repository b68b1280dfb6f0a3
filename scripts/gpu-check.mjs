// `node scripts/gpu-check.mjs [--device cuda|vulkan|cpu] [--model FILE] [--clients 1,8,32,128]
// [--rounds N] [--skip build,tests,…]`: checks a machine with a GPU in one command. Builds that
// backend into build/, runs the native and service tests with all layers on the GPU, compares
// log-probabilities with the CPU's, and measures tokens per second beside llama-server and
// llama-bench of the same tree. `--skip build` uses the existing build, or the addon in
// RECUA_ADDON. `--device cpu` takes the same steps without a GPU, to test this script; its numbers
// say nothing about a GPU.
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { isProgram, place, root } from './place.mjs';
import { ensurePeers, peerPath } from './peers.mjs';
import { capture, cleanEnv, Failure, show } from './process.mjs';
import { say } from './progress.mjs';
import { program, setUp } from './setup.mjs';
import { compileTests } from './typescript.mjs';
import { withServer } from '../bench/servers.mjs';

const devices = {
  cuda: { cmake: '-DGGML_CUDA=ON', layers: -1, tool: ['nvidia-smi', ['--query-gpu=name,memory.total,driver_version', '--format=csv,noheader']] },
  vulkan: { cmake: '-DGGML_VULKAN=ON', layers: -1, tool: ['vulkaninfo', ['--summary']] },
  cpu: { cmake: '', layers: 0 },
};
const parts = ['build', 'tests', 'answers', 'bench'];
const prompts = [
  'Once upon a time', 'The dog and the cat', 'Tell me a story about a ship.', 'What is a garden?', 'List three animals.', 'She opened the door and',
];
const answerTokens = 24;
/**
 * A GPU rounds otherwise than the CPU, in llama-server too. Recua may be this much further from the
 * CPU's log-probabilities than llama-server on the same GPU, as a factor and in addition.
 */
const allowed = { factor: 1.5, plus: 0.01 };

/** Checked command line options. */
export function parseOptions(args) {
  const { values } = parseArgs({
    args, allowPositionals: false, options: {
      device: { type: 'string', default: 'cuda' }, model: { type: 'string', default: join(root, 'builtin', 'builtin.gguf') },
      clients: { type: 'string', default: '1,8,32,128' }, rounds: { type: 'string', default: '3' }, skip: { type: 'string', default: '' },
    },
  });
  const known = [1, 4, 8, 16, 32, 64, 128];
  const clients = values.clients.split(',').map(Number);
  const skip = values.skip.split(',').filter(Boolean);
  if (!Object.hasOwn(devices, values.device)) throw new Failure(`--device takes ${Object.keys(devices).join(', ')}, not ${values.device}.`);
  if (clients.some((count) => !known.includes(count))) throw new Failure(`--clients takes some of ${known.join(',')}, not ${values.clients}.`);
  if (!(Number(values.rounds) >= 1)) throw new Failure(`--rounds takes a number of at least 1, not ${values.rounds}.`);
  const strange = skip.find((name) => !parts.includes(name));
  if (strange) throw new Failure(`--skip takes some of ${parts.join(',')}, not ${strange}.`);
  return {
    device: values.device,
    model: resolve(process.env.INIT_CWD ?? process.cwd(), values.model),
    clients,
    rounds: Number(values.rounds),
    skip,
  };
}

/**
 * How far the log-probabilities of the same tokens are from `reference`: the mean and the largest
 * difference. A missing one counts as 1.
 */
export function distance(reference, others) {
  const differences = reference.map((one, at) => (Number.isFinite(others[at]) ? Math.abs(others[at] - one) : 1));
  return { mean: differences.reduce((sum, one) => sum + one, 0) / differences.length, most: Math.max(...differences) };
}

async function build(device) {
  const { cmake, tool } = devices[device];
  if (tool) {
    const told = capture(...tool);
    if (told === undefined) throw new Failure(`${tool[0]} finds no GPU for ${device}. \`--device cpu\` goes the same way without one.`);
    say(told);
  }
  if (device === 'cuda' && capture(process.env.CUDACXX ?? 'nvcc', ['--version']) === undefined) throw new Failure('nvcc is missing: install the CUDA toolkit, or set CUDACXX to its nvcc.');
  if (cmake && !process.env.RECUA_CMAKE_ARGS?.includes(cmake)) process.env.RECUA_CMAKE_ARGS = `${process.env.RECUA_CMAKE_ARGS ?? ''} ${cmake}`.trim();
  await setUp();
  await ensurePeers(['llama-server', 'llama-bench']);
  await compileTests();
  return true;
}

async function runTests(layers) {
  const files = ['native', 'service'].flatMap((folder) => readdirSync(join(place.distTest, folder), { recursive: true }).filter((name) => name.endsWith('.test.js')).map((name) => `dist-test/${folder}/${name}`));
  const env = { ...cleanEnv(), TEST_GPU_LAYERS: String(layers), LLAMA_ARG_N_GPU_LAYERS: layers === -1 ? '999' : '0' };
  return await show(process.execPath, [join(root, 'scripts', 'tap-run.mjs'), ...files], { env }) === 0;
}

async function post(url, path, body) {
  const response = await fetch(`${url}${path}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
  if (!response.ok) throw new Failure(`${path} answered ${response.status}: ${(await response.text()).slice(0, 300)}`);
  return await response.json();
}

/** For each of the tokens, its log-probability after those before it. */
async function logprobs(url, prompt, tokens) {
  const found = [];
  for (const [at, token] of tokens.entries()) {
    const { completion_probabilities: [first] } = await post(url, '/completion', { prompt: [...prompt, ...tokens.slice(0, at)], n_predict: 1, n_probs: 50, temperature: 0, cache_prompt: false });
    found.push(first.top_logprobs.find(({ id }) => id === token)?.logprob);
  }
  return found;
}

/** Whether Recua on the GPU is as near to the CPU as llama-server on the GPU. */
async function compareAnswers(model, layers) {
  const settings = { model, parallel: 1, context: 1024, threads: os.availableParallelism() };
  const answers = await withServer('recua', { ...settings, gpuLayers: 0 }, async ({ url }) => {
    const all = [];
    for (const text of prompts) {
      const { tokens: prompt } = await post(url, '/tokenize', { content: text, add_special: true });
      const { tokens } = await post(url, '/completion', { prompt, n_predict: answerTokens, temperature: 0, return_tokens: true });
      all.push({ prompt, tokens, logprobs: await logprobs(url, prompt, tokens) });
    }
    return all;
  });
  const reference = answers.flatMap((one) => one.logprobs);
  const far = {};
  for (const name of ['recua', 'llama-server']) {
    far[name] = await withServer(name, { ...settings, gpuLayers: layers }, async ({ url }) => {
      const all = [];
      for (const { prompt, tokens } of answers) all.push(...await logprobs(url, prompt, tokens));
      return distance(reference, all);
    });
    say(`  ${name}: log-probabilities of ${reference.length} tokens are ${far[name].mean.toFixed(4)} from the CPU's on average, ${far[name].most.toFixed(3)} at most`);
  }
  return ['mean', 'most'].every((what) => far.recua[what] <= far['llama-server'][what] * allowed.factor + allowed.plus);
}

async function measure({ model, clients, rounds }, layers) {
  say('\nllama-bench: prompt of 512 tokens, answer of 128, one sequence');
  if (await show(peerPath('llama-bench'), ['-m', model, '-ngl', String(layers === -1 ? 999 : layers), '-p', '512', '-n', '128', '-r', String(rounds)]) !== 0) return false;
  say('\nRecua and llama-server in alternation');
  const loads = clients.map((count) => (count === 1 ? '1-client' : `${count}-clients`));
  return await show(process.execPath, [join(root, 'bench', 'main.mjs'), ...loads, '--model', model, '--rounds', String(rounds), `--gpu-layers=${layers}`]) === 0;
}

if (isProgram(import.meta.url)) {
  await program(async () => {
    const options = parseOptions(process.argv.slice(2));
    if (!existsSync(options.model)) throw new Failure(`There is no ${options.model}.`);
    const { layers } = devices[options.device];
    say(`${options.device}, ${layers === -1 ? 'all layers' : 'no layer'} on it; ${os.cpus()[0]?.model ?? 'unknown processor'}`);
    const results = {};
    const work = {
      build: () => build(options.device),
      tests: () => runTests(layers),
      answers: () => compareAnswers(options.model, layers),
      bench: () => measure(options, layers),
    };
    for (const part of parts.filter((name) => !options.skip.includes(name))) {
      say(`\n${part}`);
      results[part] = await work[part]();
    }
    const folder = join(root, 'bench', 'results');
    mkdirSync(folder, { recursive: true });
    const saved = join(folder, `gpu-check-${new Date().toISOString().replaceAll(':', '-')}.json`);
    writeFileSync(saved, `${JSON.stringify({ ...options, results }, null, 1)}\n`);
    say(`\n${Object.entries(results).map(([name, good]) => `${name}: ${good ? 'good' : 'NOT good'}`).join(', ')}. Saved ${saved}`);
    return Object.values(results).every(Boolean) ? 0 : 1;
  });
}
