// Runs the addon once, for test-packages.mjs: loads it as an installed Recua does, generates some
// tokens, and exits without closing (`leave`) or after closing (`close`). Arguments: the folder of
// the installed recua, and one of the two words. Prints the CPU library that was loaded, if the
// system shows it.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [folder, manner] = process.argv.slice(2);
const { loadAddon } = await import(pathToFileURL(join(folder, 'dist', 'addon', 'load.js')).href);
const addon = loadAddon();
const model = await addon.loadModel({ path: join(folder, 'builtin', 'builtin.gguf'), gpuLayers: 0, mmap: true, mlock: false }).promise;
const context = await model.createContext({
  contextSize: 256, sequences: 1, batchSize: 64, microBatchSize: 64, threads: 2, threadsBatch: 2, flashAttention: 'auto', cacheTypeK: 'f16', cacheTypeV: 'f16',
});
const sampler = await model.createSampler({ temperature: 0 }, new Int32Array());
let tokens = await model.tokenize('Once upon a time', true, true);
let position = 0;
for (let step = 0; step < 4; step++) {
  const rows = tokens.length;
  const [result] = await context.steps({
    tokens, positions: Int32Array.from(tokens, (_, i) => position + i), sequences: new Int32Array(rows),
    outputs: Uint8Array.from(tokens, (_, i) => (i === rows - 1 ? 1 : 0)), rows, samplers: [sampler],
  }, 1, () => undefined);
  position += rows;
  tokens = result.tokens;
}
if (!(tokens[0] >= 0)) throw new Error(`expected a token, got ${tokens[0]}`);
if (existsSync('/proc/self/maps')) console.log(/\/(libggml-cpu[^/\s]*)$/m.exec(readFileSync('/proc/self/maps', 'utf8'))?.[1]);
if (manner === 'close') await model.close();
process.exit(0);
