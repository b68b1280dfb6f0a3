// engine/process/load: whether ggml copies weights into its own layouts.
import t from 'tap';
import { repacks } from '#recua/engine/process/load.js';

const addon = (best: string, features: Record<string, string> = {}) => ({
  matmul: () => ({ kernels: ['avx512'], best, types: ['q8_0', 'q4_K', 'q5_K', 'q6_K'], taken: 0 }),
  backends: () => [{ name: 'CPU', file: '', features, reason: '' }],
});
const onCpu = { gpuLayers: 0, devices: [] };
const q4km = ['products f32', 'products q4_K', 'products q6_K'];

t.test('weights stay as in the file where Recua multiplies all types that ggml would copy', (t) => {
  t.equal(repacks(addon('avx512'), { matmul: 'auto', kernels: q4km }, onCpu), false);
  t.equal(repacks(addon('avx512'), { matmul: 'auto', kernels: ['products f16'] }, onCpu), false, 'there is nothing to copy');
  t.end();
});

t.test('otherwise ggml copies them', (t) => {
  const auto = { matmul: 'auto', kernels: q4km } as const;
  t.equal(repacks(addon(''), auto, onCpu), true, 'no kernel, or it is refused');
  t.equal(repacks(addon('avx512'), { ...auto, matmul: 'ggml' }, onCpu), true);
  t.equal(repacks(addon('avx512'), { ...auto, kernels: [...q4km, 'experts q4_K'] }, onCpu), true, 'experts are multiplied by ggml');
  t.equal(repacks(addon('avx512'), { ...auto, kernels: ['products q4_0'] }, onCpu), true, 'a type that only ggml multiplies');
  t.equal(repacks(addon('avx512'), { matmul: 'auto', kernels: undefined }, onCpu), true, 'types that are not known');
  t.equal(repacks(addon('avx512', { AMX_INT8: '1' }), auto, onCpu), true);
  t.equal(repacks(addon('avx512'), auto, { gpuLayers: 5, devices: ['CUDA0'] }), true);
  t.end();
});
