// What llama.cpp itself does on this machine, without a server: runs the vendored tree's
// llama-batched-bench and parses its numbers.
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const bench = fileURLToPath(new URL('../build/bin/llama-batched-bench', import.meta.url));

/**
 * One pass per sequence count; if a count occurs several times, the mean: each pass reads
 * `promptTokens` and generates `tokens`, all sequences together.
 * @returns {Promise<Map<number, { promptSeconds: number, generateSeconds: number }>>} by count
 */
export async function engineAlone({ model, threads, gpuLayers, counts, promptTokens, tokens }) {
  const context = (promptTokens + tokens + 64) * Math.max(...counts);
  const args = ['-m', model, '-t', threads, '-c', context, '-npp', promptTokens, '-ntg', tokens, '-npl', counts.join(','), '--no-kv-unified', ...(gpuLayers === undefined ? [] : ['-ngl', gpuLayers < 0 ? 'all' : gpuLayers])];
  const { stdout } = await promisify(execFile)(bench, args.map(String), { maxBuffer: 1 << 24 });
  // | PP | TG | B | N_KV | T_PP s | S_PP t/s | T_TG s | …
  const rows = stdout.split('\n').map((line) => line.split('|').map((cell) => Number(cell))).filter((cells) => cells[3] > 0);
  const mean = (count, column) => {
    const values = rows.filter((cells) => cells[3] === count).map((cells) => cells[column]);
    return values.reduce((sum, value) => sum + value, 0) / values.length;
  };
  return new Map(counts.map((count) => [count, { promptSeconds: mean(count, 5), generateSeconds: mean(count, 7) }]));
}

/**
 * Generated tokens per second for a load of `clients` that send together, this many times: prompt
 * time counts.
 */
export async function loadAlone({ clients, requests, tokens, ...given }) {
  const { promptSeconds, generateSeconds } = (await engineAlone({ ...given, tokens, counts: Array(requests).fill(clients) })).get(clients);
  return (clients * tokens) / (promptSeconds + generateSeconds);
}
