// The addon alone, without processes, HTTP or a scheduler: what the engine itself can do on this
// machine.
//   node bench/native.mjs decode MODEL [threads]   tokens/s of one greedy sequence
//   node bench/native.mjs embed MODEL [threads]    ms and resident MiB of 32 inputs of 64 tokens
//   node bench/native.mjs prefill MODEL [threads]  ms of a step of prompt rows, alone and not
//   node bench/native.mjs sample MODEL [threads]   ms per row, by Recua's samplers and llama.cpp's
//   node bench/native.mjs request MODEL [threads]  ms before a chat's first step
// Try them with GOMP_SPINCOUNT or OMP_WAIT_POLICY set, and beside a busy program.
import os from 'node:os';
import { loadAddon } from '../dist/addon/addon.js';
import { median } from './report.mjs';

const [load, path, given] = process.argv.slice(2);
const threads = Number(given ?? os.availableParallelism());
if (!['decode', 'embed', 'prefill', 'sample', 'request'].includes(load) || !path || !(threads >= 1)) {
  console.error('Expected: node bench/native.mjs decode|embed|prefill|sample|request MODEL.gguf [threads]');
  process.exit(2);
}
/**
 * Whose kernels compute: RECUA_BENCH_KERNELS=ggml compares with ggml's, RECUA_BENCH_KERNELS=avx2
 * with ours for a processor that has no more than that.
 */
const kernels = process.env.RECUA_BENCH_KERNELS ?? 'auto';
const own = kernels === 'ggml' ? { attention: 'ggml', matmul: 'ggml' } : { attention: 'auto', matmul: 'auto' };
const addon = loadAddon();
if (!['auto', 'ggml'].includes(kernels)) {
  for (const name of addon.matmul().kernels) if (name !== kernels) addon.refuseMatmul(name);
  for (const name of addon.attention().kernels) if (name !== kernels) addon.refuseAttention(name);
}
const model = await addon.loadModel({ path, gpuLayers: 0, mmap: true, mlock: false, repack: kernels === 'ggml' }).promise;

async function decode() {
  const context = await model.createContext({
    contextSize: 512, sequences: 1, batchSize: 512, microBatchSize: 512, threads, threadsBatch: threads, flashAttention: 'auto', cacheTypeK: 'f16', cacheTypeV: 'f16', ...own,
  });
  const sampler = await model.createSampler({ temperature: 0 }, new Int32Array());
  let token = 5;
  let count = 0;
  const start = performance.now();
  for (; count < 400 && performance.now() - start < 4000; count++) {
    const [result] = await context.steps(
      {
        tokens: Int32Array.of(token),
        positions: Int32Array.of(count),
        sequences: Int32Array.of(0),
        outputs: Uint8Array.of(1),
        rows: 1,
        samplers: [sampler],
      },
      1,
      () => undefined,
    );
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

/**
 * What parts of a prompt cost: by size, by how much of the prompt was read before, with and without
 * an answer that continues in the same step.
 */
async function prefill() {
  const context = await model.createContext({
    contextSize: 4096, sequences: 2, batchSize: 2048, microBatchSize: 512, threads, threadsBatch: threads, flashAttention: 'auto', cacheTypeK: 'f16', cacheTypeV: 'f16', ...own,
  });
  const sampler = await model.createSampler({ temperature: 0 }, new Int32Array());
  /**
   * Milliseconds of a step with `count` prompt tokens of sequence 1 from `from` on, and a row of
   * sequence 0 at `decodeAt` (no row if negative).
   */
  const step = async (from, count, decodeAt) => {
    const beside = decodeAt < 0 ? 0 : 1;
    const rows = beside + count;
    const [{ decodeMs }] = await context.steps({
      tokens: Int32Array.from({ length: rows }, (_, i) => ((from + i) * 7919) % 1000 + 100),
      positions: Int32Array.from({ length: rows }, (_, i) => (i < beside ? decodeAt : from + i - beside)),
      sequences: Int32Array.from({ length: rows }, (_, i) => (i < beside ? 0 : 1)),
      outputs: Uint8Array.from({ length: rows }, (_, i) => (i < beside ? 1 : 0)), rows, samplers: beside ? [sampler] : [],
    }, 1, () => undefined);
    return decodeMs;
  };
  /** The median of a step that is repeated. */
  const cost = async (from, count, beside) => {
    const times = [];
    for (let round = 0; round < 3; round++) {
      await context.removeSequence(1, from, -1);
      times.push(await step(from, count, beside ? 0 : -1));
      if (beside) await context.removeSequence(0, 0, -1);
    }
    return median(times);
  };
  console.log('tokens read before   in this step   ms alone   tokens/s   ms with a row that decodes');
  for (const before of [0, 1024, 2048]) {
    await context.removeSequence(1, 0, -1);
    for (let from = 0; from < before; from += 1024) await step(from, 1024, -1);
    for (const count of [1, 32, 64, 65, 128, 256, 512]) {
      const alone = await cost(before, count, false);
      const mixed = await cost(before, count, true);
      console.log([before, count, alone.toFixed(1), (count / (alone / 1000)).toFixed(0), mixed.toFixed(1)].map((cell, i) => String(cell).padStart([18, 15, 11, 11, 29][i])).join(''));
    }
  }
  await context.close();
}

async function sample() {
  const schema = { type: 'array', minItems: 50, items: { type: 'object', required: ['name', 'age'], properties: { name: { type: 'string', minLength: 5, maxLength: 40 }, age: { type: 'integer' } } } };
  const grammar = { grammar: (await addon.compileSchema(JSON.stringify(schema))).grammar, grammarKind: 'user' };
  const sets = {
    greedy: { temperature: 0 }, 'top-k 40, top-p, min-p': { temperature: 0.8, topK: 40, topP: 0.95, minP: 0.05 },
    'the same, penalties': { temperature: 0.8, topK: 40, topP: 0.95, minP: 0.05, repeatPenalty: 1.1, penaltyLastN: 64 },
    'top-p 0.95 alone': { temperature: 0.8, topP: 0.95 }, 'min-p 0.05 alone': { temperature: 0.8, minP: 0.05 }, 'temperature alone': { temperature: 0.8 },
    'JSON schema, greedy': { temperature: 0, ...grammar }, 'JSON schema, top-k 40': { temperature: 0.8, topK: 40, ...grammar },
  };
  const context = await model.createContext({
    contextSize: 1024, sequences: 1, batchSize: 512, microBatchSize: 512, threads, threadsBatch: threads, flashAttention: 'auto', cacheTypeK: 'f16', cacheTypeV: 'f16', ...own,
  });
  /** The mean over 100 tokens: a grammar's states cost time when first reached. */
  const run = async (options) => {
    await context.removeSequence(0, 0, -1);
    const sampler = await model.createSampler({ ...options, seed: 1 }, new Int32Array());
    let token = 5;
    let ms = 0;
    for (let position = 0; position < 100; position++) {
      const [result] = await context.steps(
        {
          tokens: Int32Array.of(token),
          positions: Int32Array.of(position),
          sequences: Int32Array.of(0),
          outputs: Uint8Array.of(1),
          rows: 1,
          samplers: [sampler],
        },
        1,
        () => undefined,
      );
      ms += result.sampleMs;
      [token] = result.tokens;
    }
    sampler.close();
    return ms / 100;
  };
  console.log(`${'ms per row'.padEnd(26)}     own   chain   chain / own`);
  for (const [name, options] of Object.entries(sets)) {
    const own = [];
    const chain = [];
    for (let round = 0; round < 3; round++) {
      own.push(await run(options));
      chain.push(await run({ ...options, chain: true }));
    }
    console.log(`${name.padEnd(26)} ${median(own).toFixed(3).padStart(7)} ${median(chain).toFixed(3).padStart(7)} ${(median(chain) / median(own)).toFixed(1).padStart(8)}`);
  }
  await context.close();
}

async function request() {
  const types = [{ type: 'string', description: 'text' }, { type: 'integer', minimum: 0, maximum: 1000 }, { enum: ['a', 'b', 'c'] }, { type: 'array', items: { type: 'string' } }, { type: 'boolean' }];
  const tools = (count) => JSON.stringify(Array.from({ length: count }, (_, i) => {
    const parameters = { type: 'object', properties: Object.fromEntries(types.map((type, k) => [`argument_${k}`, type])), required: ['argument_0', 'argument_1'] };
    return { type: 'function', function: { name: `function_${i}`, description: `Does thing number ${i} and returns what it found.`, parameters } };
  }));
  const person = { type: 'object', required: ['name', 'age'], properties: { name: { type: 'string', minLength: 5, maxLength: 40 }, age: { type: 'integer' } } };
  const kinds = { 'plain chat': {}, '1 tool': { tools: tools(1) }, '20 tools': { tools: tools(20) }, '20 tools, required': { tools: tools(20), toolChoice: 'required' }, 'JSON schema': { jsonSchema: JSON.stringify({ type: 'array', items: person }) } };
  console.log(`${'ms per request'.padEnd(20)} template anew  remembered  tokens  parser  sampler`);
  for (const [name, kind] of Object.entries(kinds)) {
    const times = { anew: [], kept: [], tokens: [], parser: [], sampler: [] };
    const timed = async (key, work) => {
      const start = performance.now();
      const result = await work();
      times[key].push(performance.now() - start);
      return result;
    };
    for (let round = 0; round < 25; round++) {
      const messages = JSON.stringify([{ role: 'system', content: 'You are helpful.' }, { role: 'user', content: `Question ${round}: tell me a story about rivers.` }]);
      const input = { messages, tools: '', toolChoice: 'auto', jsonSchema: '', grammar: '', addGenerationPrompt: true, enableThinking: true, templateKwargs: {}, template: '', ...kind };
      await timed('anew', () => model.applyChatTemplate({ ...input, remember: false }));
      const prompt = await timed('kept', () => model.applyChatTemplate(input));
      const tokens = await timed('tokens', () => model.tokenize(prompt.prompt, true, true));
      await timed('parser', () => model.createParser(prompt, true));
      const sampler = await timed('sampler', () => model.createSampler({ temperature: 0, shape: prompt.shape }, tokens));
      sampler.close();
    }
    console.log(`${name.padEnd(20)} ${Object.values(times).map((ms, i) => median(ms).toFixed(2).padStart([13, 11, 7, 7, 8][i])).join(' ')}`);
  }
}

await { decode, embed, prefill, sample, request }[load]();
await model.close();
