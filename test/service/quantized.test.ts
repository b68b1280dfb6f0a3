// Every type that llama-quantize makes computes the same as its source file. If the processor has
// AMX, it computes most matrices with it: rows that come together, and one at a time.
import { execFileSync, spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { gpuLayers } from '../device.js';
import { gguf, types, type Meta } from '../models/gguf-bytes.js';
import { addon, contextOptions, step } from '../native/setup.js';

const quantize = fileURLToPath(new URL('../../build/bin/llama-quantize', import.meta.url));
const writer = new URL('../../bench/random-model.mjs', import.meta.url).href;
const layers = 2;
const width = 256;
const feedForward = 512;

const { writeRandomModel } = await import(writer) as { writeRandomModel(name: string, path: string): void };
const folder = t.testdir();
const source = join(folder, 'source.gguf');
const importance = join(folder, 'importance.gguf');
writeRandomModel('rows256', source);
writeImportance(importance);

/** Types of two bits and less need an importance matrix: here every column is equally important. */
function writeImportance(path: string): void {
  const inputs: [string, number][] = ['attn_q', 'attn_k', 'attn_v', 'attn_output', 'ffn_gate', 'ffn_up', 'ffn_down']
    .flatMap((name) => Array.from({ length: layers }, (_, layer): [string, number] => [`blk.${layer}.${name}.weight`, name === 'ffn_down' ? feedForward : width]));
  const metadata: Meta[] = [
    ['general.type', types.string, 'imatrix'], ['imatrix.datasets', types.array, ['none'], types.string],
    ['imatrix.chunk_count', types.u32, 1], ['imatrix.chunk_size', types.u32, 512],
  ];
  let offset = 0;
  const tensors = inputs.flatMap(([name, columns]) => {
    const at = offset;
    offset += Math.ceil(columns * 4 / 32) * 32 + 32;
    return [{ name: `${name}.in_sum2`, shape: [columns, 1], type: 0, offset: at }, { name: `${name}.counts`, shape: [1, 1], type: 0, offset: offset - 32 }];
  });
  const file = gguf({ metadata, tensors, dataBytes: offset });
  const ones = Buffer.from(new Float32Array(offset / 4).fill(1).buffer);
  writeFileSync(path, Buffer.concat([file.subarray(0, file.length - offset), ones]));
}

const kinds = Array.from(spawnSync(quantize, ['--help'], { encoding: 'utf8' }).stdout.matchAll(/^ +\d+ +or +(\w+) *: (?! *alias)/gm), ([, kind]) => kind!);

const prompt = Array.from({ length: 100 }, (_, i) => 1000 + i * 37);

async function compute(path: string): Promise<{ vector: Float32Array; together: number; byOne: number }> {
  const model = await addon.loadModel({ path, gpuLayers, mmap: true, mlock: false }).promise;
  try {
    const embedder = await model.createEmbedder({ contextSize: 512, sequences: 1, threads: 2, pooling: 'mean' });
    const vector = await embedder.embed(Int32Array.from(prompt), Int32Array.of(prompt.length));
    const context = await model.createContext(contextOptions({ sequences: 2, threads: 2, threadsBatch: 2 }));
    const sampler = await model.createSampler({ temperature: 0 }, new Int32Array());
    const together = (await step(context, [{ sequence: 0, from: 0, tokens: prompt, sampler }])).tokens[0]!;
    let byOne = -1;
    for (const [i, token] of prompt.entries()) {
      byOne = (await step(context, [{ sequence: 1, from: i, tokens: [token], sampler: i === prompt.length - 1 ? sampler : null }]))
        .tokens[0]!;
    }
    sampler.close();
    return { vector, together, byOne };
  } finally {
    await model.close();
  }
}

const cosine = (a: Float32Array, b: Float32Array): number => a.reduce((sum, value, i) => sum + value * b[i]!, 0); // both have unit length

t.test('llama-quantize names what it makes', async (t) => {
  t.ok(kinds.includes('Q4_K_M') && kinds.includes('Q8_0') && kinds.length > 30, `${kinds.length} kinds`);
});

const reference = await compute(source);
const last = prompt.at(-1)!;
const results: string[] = [];
for (const kind of kinds.filter((one) => one !== 'COPY')) {
  t.test(`${kind} computes what it was made from`, async (t) => {
    const path = join(folder, `${kind}.gguf`);
    execFileSync(quantize, ['--allow-requantize', '--imatrix', importance, source, path, kind], { stdio: 'ignore' });
    const { vector, together, byOne } = await compute(path);
    const near = cosine(vector, reference.vector);
    results.push(`${kind} ${near.toFixed(3)}`);
    const bits = Number(/\d+/.exec(kind)![0]);
    t.ok(near > (bits >= 4 ? 0.97 : bits === 3 ? 0.9 : 0.3), `${near}`);
    t.equal(together, byOne, 'rows together give what they give one at a time');
    // With random weights and tied embeddings, the likeliest token is the last one again.
    if (bits >= 4) t.equal(together, last);
  });
}
t.teardown(() => t.comment(results.join(', ')));
