// Every architecture for which llama.cpp's generator makes a small random model: alone, beside
// others, with a cached prefix, rolled back, embedded. The results equal llama-server's, and each
// other.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import type { Answer, Engine } from '#recua/engine/api.js';
import { startEngine } from '#recua/engine/gateway/client.js';
import { engineDefaults } from '#recua/settings/config.js';
import { completion, sampling } from '../engine/requests.js';
import { root } from '../cli/recua.js';
import { gpuLayers } from '../device.js';
import { startLlamaServer } from './llama-server.js';
import { post } from './service.js';
import { unpack } from '#recua/engine/packed-tokens.js';

const built = join(root, 'build', 'Release');
const source = join(root, 'vendor', 'llama.cpp');

/** Architectures whose numbers vary in llama.cpp itself, and why. */
const unsteady: Record<string, string> = {
  cogvlm: 'llama.cpp gives a row alone other numbers than the same among others',
};

/** Writes the models of this many architectures; each takes up to 60 MB. */
function generate(t: Test): (architecture: string) => string[] {
  const folder = t.testdir();
  const program = join(folder, 'generate');
  execFileSync(process.env['CXX'] || 'c++', [
    '-std=c++17', '-O0', '-w', ...['include', 'ggml/include', 'common', 'src', 'vendor'].map((one) => `-I${join(source, one)}`),
    join(source, 'tests', 'test-llama-archs.cpp'), '-o', program, `-L${built}`, ...['llama-common', 'llama', 'ggml', 'ggml-base', 'ggml-cpu'].map((one) => `-l${one}`), `-Wl,-rpath,${built}`,
  ]);
  return (architectures) => {
    const models = join(folder, 'models');
    rmSync(models, { recursive: true, force: true });
    mkdirSync(models);
    execFileSync(program, ['-s', '1', '-a', architectures, '-o', models], { stdio: 'ignore' });
    return readdirSync(models).sort().map((name) => join(models, name));
  };
}

function tokens(count: number, seed: number): number[] {
  let x = seed;
  return Array.from({ length: count }, () => ((x = (Math.imul(x, 1_103_515_245) + 12_345) >>> 0) >>> 8) % 128);
}

interface Told {
  ids: number[];
  values: number[];
  cached: number;
}

async function told(answer: Answer): Promise<Told> {
  const all = [];
  for await (const { tokens } of answer) all.push(...tokens ? unpack(tokens) : []);
  return { ids: all.map(({ id }) => id), values: all.map(({ value }) => value!), cached: (await answer.finished).usage.cachedTokens };
}

const ask = (engine: Engine, prompt: readonly number[], maxTokens = 8): Promise<Told> =>
  told(
    engine.complete(
      completion(Int32Array.from(prompt), {
        maxTokens,
        sampling: { ...sampling, ignoreEos: true, seed: 1 },
        tells: { logprobs: 1, tokens: true },
      }),
    ),
  );

/** Compares until the chosen tokens differ: of two equally likely ones either may come. */
function distance(a: Pick<Told, 'ids' | 'values'>, b: Pick<Told, 'ids' | 'values'>): number {
  let most = 0;
  for (let i = 0; i < Math.min(a.ids.length, b.ids.length); i++) {
    most = Math.max(most, Math.abs(a.values[i]! - b.values[i]!));
    if (a.ids[i] !== b.ids[i]) break;
  }
  return most;
}

/** A GPU rounds more coarsely than a CPU, in llama-server too. */
const tolerance = gpuLayers === 0 ? 1e-3 : 1e-2;

async function compare(t: Test, path: string, name: string): Promise<void> {
  const engine = startEngine(
    { ...engineDefaults, modelPath: path, gpuLayers, contextSize: 256, parallel: 3, threads: 2, threadsBatch: 2 },
    { restart: { crashes: 1 } },
  );
  t.teardown(() => engine.close(0));
  const model = await engine.ready();
  const close = (a: Told, b: Told, what: string): void => {
    const far = distance(a, b);
    t.ok(far < tolerance, `${what}: ${far}`);
  };
  if (model.canGenerate) {
    const prompt = tokens(150, 7);
    const alone = await ask(engine, prompt);
    if (!Object.keys(unsteady).includes(name)) {
      const again = await ask(engine, prompt);
      close(again, alone, 'asked again');
      t.ok(again.cached >= 134, `of 150 tokens ${again.cached} were there`);
      const turn = [...prompt, ...alone.ids, ...tokens(20, 3)];
      const second = await ask(engine, turn);
      const others = [tokens(30, 5), [...prompt.slice(0, 60), ...tokens(20, 9)]];
      const solo = [];
      for (const one of [turn, ...others]) {
        await engine.forget();
        solo.push(await ask(engine, one));
      }
      close(second, solo[0]!, 'the second turn');
      await engine.forget();
      const beside = await Promise.all([turn, ...others].map((one) => ask(engine, one)));
      for (const [i, one] of beside.entries()) close(one, solo[i]!, 'beside others');
    }
    // On the CPU, ggml's flash attention adds up in F16; Recua's own does not.
    const attention = gpuLayers === 0 ? ['-fa', 'off'] : [];
    const url = await startLlamaServer(t, ['-c', '256', '-np', '1', '--no-warmup', ...attention], path);
    const reply = (await (await post(url, '/completion', { prompt, n_predict: 8, temperature: 0, n_probs: 1, ignore_eos: true, return_tokens: true })).json()) as
      { tokens: number[]; completion_probabilities: { logprob: number }[] };
    close(alone, { ids: reply.tokens, values: reply.completion_probabilities.map(({ logprob }) => logprob), cached: 0 }, 'beside llama-server');
  }
  if (model.canEmbed) {
    const { vectors } = await engine.embed({ inputs: [Int32Array.from(tokens(20, 1)), Int32Array.from(tokens(30, 2))] });
    t.ok(vectors.every((vector) => vector.length > 0 && vector.every(Number.isFinite)));
  }
  t.equal(engine.crashes, 0);
}

const skip = process.platform !== 'linux' ? 'needs Linux' : existsSync(join(built, 'libllama-common.so')) ? false : 'needs shared libraries of llama.cpp';

for (const letters of ['^[a-c]', '^[d-e]', '^[f-g]', '^[h-l]', '^m', '^[n-o]', '^[p-q]', '^[r-z]']) {
  t.test(`architectures ${letters}`, { skip }, async (t) => {
    const models = generate(t)(letters);
    t.ok(models.length > 8);
    for (const path of models) {
      const name = /([^/]+)-(?:dense|moe)\.gguf$/.exec(path)![1]!;
      await t.test(name, (t) => compare(t, path, name));
    }
  });
}
