// `node scripts/gpu-check.mjs [--device cuda|vulkan|cpu] [--model FILE] [--clients 1,8,32,128]
// [--rounds N] [--skip build,tests,…]`: checks a machine with a GPU in one command. Builds that
// backend into build/, runs the native and service tests with all layers on the GPU, compares
// greedy answers with the CPU's, and measures tokens per second beside llama-server and llama-bench
// of the same tree. `--skip build` uses the existing build, or the addon in RECUA_ADDON. `--device
// cpu` takes the same steps without a GPU, to test this script; its numbers say nothing about a
// GPU.
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

const devices = {
  cuda: { cmake: '-DGGML_CUDA=ON', layers: -1, tool: ['nvidia-smi', ['--query-gpu=name,memory.total,driver_version', '--format=csv,noheader']] },
  vulkan: { cmake: '-DGGML_VULKAN=ON', layers: -1, tool: ['vulkaninfo', ['--summary']] },
  cpu: { cmake: '', layers: 0 },
};
const parts = ['build', 'tests', 'answers', 'bench'];
const prompts = [
  'Once upon a time', 'The dog and the cat', 'Tell me a story about a ship.', 'What is a garden?', 'List three animals.', 'She opened the door and',
];
const answerTokens = 48;
/**
 * A GPU sums in another order, so its answer may diverge from the CPU's at nearly equal tokens, but
 * not immediately.
 */
const leastShare = 0.25;

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
  return { device: values.device, model: resolve(process.env.INIT_CWD ?? process.cwd(), values.model), clients, rounds: Number(values.rounds), skip };
}

/**
 * How far two answers agree: 1 if they are equal, else the share of the longer one before they
 * diverge.
 */
export function agreement(one, other) {
  if (one === other) return 1;
  const length = Math.max(one.length, other.length);
  let same = 0;
  while (same < length && one[same] === other[same]) same++;
  return same / length;
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

function answer(model, prompt, layers) {
  const args = [join(place.dist, 'cli', 'main.js'), 'run', model, '-p', prompt, '-n', String(answerTokens), '--temp', '0', '--quiet', '-ngl', String(layers)];
  const text = capture(process.execPath, args);
  if (text === undefined) throw new Failure(`recua run failed with ${layers} layers on the GPU for ${JSON.stringify(prompt)}.`);
  return text;
}

/** True if every answer agrees with the CPU's for long enough. */
function compareAnswers(model, layers) {
  const shares = prompts.map((prompt) => {
    const share = agreement(answer(model, prompt, 0), answer(model, prompt, layers));
    say(`  ${JSON.stringify(prompt)}: ${share === 1 ? 'the same' : `the same for ${(share * 100).toFixed(0)} % of the answer`}`);
    return share;
  });
  return shares.every((share) => share >= leastShare);
}

async function measure({ model, clients, rounds }, layers) {
  say('\nllama-bench: prompt of 512 tokens, answer of 128, one sequence');
  if (await show(peerPath('llama-bench'), ['-m', model, '-ngl', String(layers === -1 ? 999 : layers), '-p', '512', '-n', '128', '-r', String(rounds)]) !== 0) return false;
  say('\nRecua and llama-server in alternation');
  const loads = clients.map((count) => (count === 1 ? '1-client' : `${count}-clients`));
  return await show(process.execPath, [join(root, 'bench', 'main.mjs'), ...loads, '--model', model, '--rounds', String(rounds), '--gpu-layers', String(layers)]) === 0;
}

if (isProgram(import.meta.url)) {
  await program(async () => {
    const options = parseOptions(process.argv.slice(2));
    if (!existsSync(options.model)) throw new Failure(`There is no ${options.model}.`);
    const { layers } = devices[options.device];
    say(`${options.device}, ${layers === -1 ? 'all layers' : 'no layer'} on it; ${os.cpus()[0]?.model ?? 'unknown processor'}`);
    const results = {};
    const work = { build: () => build(options.device), tests: () => runTests(layers), answers: () => compareAnswers(options.model, layers), bench: () => measure(options, layers) };
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
