// The addon alone, without processes, HTTP or a scheduler: what the engine itself can do on this machine.
//   node bench/native.mjs decode MODEL [threads]   tokens/s of one greedy sequence
//   node bench/native.mjs embed MODEL [threads]    ms and resident MiB of 32 inputs of 64 tokens
// Try them with GOMP_SPINCOUNT or OMP_WAIT_POLICY set, and beside a busy program.
import os from 'node:os';
import { loadAddon } from '../dist/addon.js';

const [load, path, given] = process.argv.slice(2);
const threads = Number(given ?? os.availableParallelism());
if (!['decode', 'embed'].includes(load) || !path || !(threads >= 1)) {
  console.error('Expected: node bench/native.mjs decode|embed MODEL.gguf [threads]');
  process.exit(2);
}
const model = await loadAddon().loadModel({ path, gpuLayers: 0, mmap: true, mlock: false }).promise;

async function decode() {
  const context = await model.createContext({
    contextSize: 512, sequences: 1, batchSize: 512, microBatchSize: 512, threads, threadsBatch: threads, flashAttention: 'auto', cacheTypeK: 'f16', cacheTypeV: 'f16',
  });
  const sampler = await model.createSampler({ temperature: 0 }, new Int32Array());
  let token = 5;
  let count = 0;
  const start = performance.now();
  for (; count < 400 && performance.now() - start < 4000; count++) {
    const result = await context.step({
      tokens: Int32Array.of(token), positions: Int32Array.of(count), sequences: Int32Array.of(0), outputs: Uint8Array.of(1), rows: 1, samplers: [sampler],
    });
    token = result.tokens[0];
  }
  console.log(`${(count / ((performance.now() - start) / 1000)).toFixed(0)} tokens/s, ${threads} threads`);
}

async function embed() {
  const inputs = 32;
  const length = 64;
  const embedder = await model.createEmbedder({ contextSize: 2048, sequences: inputs, threads, pooling: 'mean' });
  const tokens = Int32Array.from({ length: inputs * length }, (_, i) => (i % 1000) + 100);
  const start = performance.now();
  await embedder.embed(tokens, new Int32Array(inputs).fill(length));
  const ms = performance.now() - start;
  console.log(`${ms.toFixed(0)} ms for ${tokens.length} tokens, ${(process.memoryUsage().rss / 2 ** 20).toFixed(0)} MiB resident, ${threads} threads`);
}

await (load === 'decode' ? decode() : embed());
await model.close();
