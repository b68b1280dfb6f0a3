import t from 'tap';
import { groupModels } from '#recua/models/hub/gguf-files.js';
import { recommend } from '#recua/models/hub/recommendation.js';

const gib = 1024 ** 3;
/** A repository with one model: GiB of each quantization. */
const offer = (sizes: Record<string, number>) => groupModels(Object.entries(sizes).map(([name, size]) => ({
  path: name.endsWith('.gguf') ? name : `model-${name}.gguf`, sizeBytes: size * gib, etag: 'a'.repeat(64), hash: 'sha256' as const,
})));
const eight = { F32: 32, F16: 16, Q8_0: 8.5, Q6_K: 6.6, Q5_K_M: 5.7, Q5_K_S: 5.6, Q4_K_M: 4.9, Q4_K_S: 4.7, Q4_0: 4.6, 'IQ4_XS': 4.4, Q3_K_M: 4, Q2_K: 3.2, 'IQ1_S': 2 };

t.test('the best quantization that leaves room is recommended, and nothing larger than memory', (t) => {
  const cases: [memory: number, expected: string | undefined][] = [
    [64, 'Q8_0'], [20, 'Q8_0'], [16, 'Q6_K'], [14, 'Q5_K_M'], [12, 'Q4_K_M'], [8, 'Q4_K_M'], [6, 'Q4_K_M'], [5.8, 'Q4_K_S'], [5.4, 'IQ4_XS'], [5, 'Q3_K_M'], [4.2, 'Q2_K'], [3, 'IQ1_S'], [2, undefined],
  ];
  for (const [memory, expected] of cases) t.equal(recommend(offer(eight), memory * gib)?.quantization, expected, `${memory} GiB`);
  t.end();
});

t.test('an incomplete model is not recommended, and a name without a quantization is better than none', (t) => {
  t.equal(recommend(offer({ 'mmproj-F16.gguf': 1, 'm-Q4_K_M-00001-of-00002.gguf': 1, 'imatrix.gguf': 1 }), 64 * gib), undefined);
  t.equal(recommend(offer({ 'mmproj-F16.gguf': 1, 'model.gguf': 3 }), 64 * gib)?.name, 'model');
  t.equal(recommend(offer({ F16: 2, F32: 4 }), 64 * gib)?.quantization, 'F16');
  t.equal(recommend(offer({ 'UD-Q4_K_XL': 5, 'UD-Q2_K_XL': 3, BF16: 16 }), 16 * gib)?.quantization, 'UD-Q4_K_XL');
  t.equal(recommend([], gib), undefined);
  t.end();
});
