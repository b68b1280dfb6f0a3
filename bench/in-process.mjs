// `npm run bench -- --in-process [--model FILE|nano|135m] [--rounds N]`: tokens per second inside
// one Node program, without HTTP: Recua's library (in the process, and isolated in its own) beside
// node-llama-cpp, in alternation, with 1, 4 and 16 concurrent answers. Fetches node-llama-cpp from
// npm into bench/build on first use, with its makers' binaries: other flags and another llama.cpp
// than ours.
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { median } from './report.mjs';

const peerVersion = '3.22.1';
const here = fileURLToPath(new URL('.', import.meta.url));
const peerFolder = join(here, 'build', 'node-llama-cpp');
const tokens = 96;

const prompts = (count) => Array.from({ length: count }, (_, i) => `${i}: A long story about rivers and bread, with names, places and a good ending. It begins like this: `);

/**
 * Code of the child process. Each function resolves with the number of tokens that one round
 * generated, all answers together.
 */
const programs = {
  async recua(job) {
    const { loadModel } = await import(new URL('../dist/index.js', import.meta.url).href);
    const model = await loadModel(job.model, { parallel: job.answers, contextSize: 512, threads: job.threads, isolated: job.isolated });
    return async () => {
      const done = await Promise.all(prompts(job.answers).map(async (prompt) => {
        const answer = model.complete(prompt, { maxTokens: tokens, temperature: 0, ignoreEos: true });
        for await (const piece of answer) void piece;
        return (await answer).usage.completionTokens;
      }));
      return done.reduce((a, b) => a + b);
    };
  },
  async 'node-llama-cpp'(job) {
    const { getLlama } = await import(pathToFileURL(createRequire(join(peerFolder, 'package.json')).resolve('node-llama-cpp')).href);
    const llama = await getLlama({ gpu: false, build: 'never', logLevel: 'error', maxThreads: job.threads });
    const model = await llama.loadModel({ modelPath: job.model });
    const context = await model.createContext({ sequences: job.answers, contextSize: 512, threads: job.threads, batchSize: 512 });
    const sequences = prompts(job.answers).map(() => context.getSequence());
    return async () => {
      const done = await Promise.all(prompts(job.answers).map(async (prompt, i) => {
        await sequences[i].clearHistory();
        let count = 0;
        // Its lowest-level API: tokens in, tokens out. Convert each to text, as any program that
        // shows it must.
        for await (const token of sequences[i].evaluate(model.tokenize(prompt), { temperature: 0, yieldEogToken: true })) {
          model.detokenize([token]);
          if (++count === tokens) break;
        }
        return count;
      }));
      return done.reduce((a, b) => a + b);
    };
  },
};

async function child(job) {
  const round = await programs[job.program](job);
  await round();
  const start = performance.now();
  let count = 0;
  do count += await round(); while (performance.now() - start < 2000);
  process.stdout.write(`${JSON.stringify({ tokensPerSecond: count / ((performance.now() - start) / 1000) })}\n`);
  process.exit(0);
}

/** Runs a program to its end; resolves with its output, rejects with that if it failed. */
async function output(command, args) {
  const running = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], shell: process.platform === 'win32' && command === 'npm' });
  let out = '';
  let talk = '';
  running.stdout.on('data', (text) => { out += text; });
  running.stderr.on('data', (text) => { talk += text; });
  const code = await new Promise((resolve, reject) => running.on('close', resolve).on('error', reject));
  if (code !== 0) throw new Error(`${command} ${args[0]} ended with ${code}:\n${talk.slice(-2000)}${out.slice(-2000)}`);
  return out;
}

async function fetchPeer() {
  if (existsSync(join(peerFolder, 'node_modules', 'node-llama-cpp'))) return;
  console.log(`Fetching node-llama-cpp ${peerVersion} to compare with`);
  mkdirSync(peerFolder, { recursive: true });
  writeFileSync(join(peerFolder, 'package.json'), '{ "private": true }\n');
  // Its optional packages, one per platform and GPU, take several hundred megabytes: only this
  // machine's CPU package is needed.
  const binaries = `@node-llama-cpp/${{ darwin: 'mac', win32: 'win' }[process.platform] ?? process.platform}-${process.arch}${process.platform === 'darwin' && process.arch === 'arm64' ? '-metal' : ''}`;
  await output('npm', ['install', '--prefix', peerFolder, '--ignore-scripts', '--omit=optional', '--no-audit', '--no-fund', `node-llama-cpp@${peerVersion}`, `${binaries}@${peerVersion}`]);
}

/** @param {{ model: string, threads: number, rounds: number }} settings */
export async function inProcess({ model, threads, rounds }) {
  await fetchPeer();
  const kinds = [['recua', false], ['recua', true], ['node-llama-cpp', false]];
  console.log('answers at once   recua   recua, isolated   node-llama-cpp   ratio (spread)');
  for (const answers of [1, 4, 16]) {
    const rates = kinds.map(() => []);
    for (let round = 0; round < rounds; round++) {
      for (const [at, [program, isolated]] of kinds.entries()) {
        const job = { program, isolated, model, threads, answers };
        rates[at].push(JSON.parse(await output(process.execPath, [fileURLToPath(import.meta.url), JSON.stringify(job)])).tokensPerSecond);
      }
    }
    const ratios = rates[0].map((rate, round) => rate / rates[2][round]);
    const cells = rates.map((list) => median(list).toFixed(0));
    console.log(`${String(answers).padStart(15)}${cells[0].padStart(8)}${cells[1].padStart(18)}${cells[2].padStart(17)}   ${median(ratios).toFixed(2)} (${Math.min(...ratios).toFixed(2)}–${Math.max(...ratios).toFixed(2)})`);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await child(JSON.parse(process.argv[2]));
