import t from 'tap';
import type { Device } from '#recua/addon/addon.js';
import { chooseOffload, settleOffload, skippedText, wantsGpu } from '#recua/engine/offload.js';
import { RecuaError } from '#recua/errors.js';
import type { SkippedBackend } from '#recua/engine/offload.js';
import type { LayerNeed } from '#recua/engine/protocol.js';

const gib = 1024 ** 3;
const device = (name: string, more: Partial<Device> = {}): Device => (
  { name, description: `the ${name}`, kind: 'gpu', backend: name.replace(/\d+$/, ''), id: '', memoryFreeBytes: 8 * gib, memoryTotalBytes: 8 * gib, ...more });
const cpu = device('CPU', { kind: 'cpu' });
type Wanted = Parameters<typeof chooseOffload>[0];
const auto: Wanted = { gpuLayers: 'auto', device: '', requireGpu: false, layerNeed: undefined };
const broken: SkippedBackend = { backend: 'cuda', package: '@recua/linux-x64-cuda', loaded: false, reason: 'the library libcuda.so.1 is missing' };
const need = (layers: number, each: number, output = 0, compute = 0): LayerNeed => (
  { layersBytes: new Array<number>(layers).fill(each), outputBytes: output, computeBytes: compute, kvBytes: 0, kvIsBound: false });

t.test('auto gives all layers to all GPUs, each by one backend, and uses integrated ones only if there is no other', (t) => {
  const cuda = device('CUDA0', { id: '0000:01:00.0' });
  const vulkan = device('Vulkan0', { id: '0000:01:00.0' });
  const other = device('Vulkan1', { id: '0000:02:00.0' });
  const integrated = device('Vulkan2', { kind: 'igpu' });
  t.match(chooseOffload(auto, [cpu, cuda, vulkan, other, integrated], []), { devices: ['CUDA0', 'Vulkan1'], gpuLayers: -1, notes: [] });
  t.match(chooseOffload(auto, [cpu, integrated], []), { devices: ['Vulkan2'], gpuLayers: -1 });
  t.match(chooseOffload(auto, [cpu], []), { devices: [], gpuLayers: 0, notes: [] }, 'a machine without one needs no word about it');
  t.end();
});

t.test('auto gives as many layers as the free memory holds beside a gibibyte, the output first', (t) => {
  const gpu = device('CUDA0', { memoryFreeBytes: 5 * gib });
  const choose = (layerNeed: LayerNeed, devices = [gpu]) => chooseOffload({ ...auto, layerNeed }, [cpu, ...devices], []);
  t.match(choose(need(4, gib)), { gpuLayers: -1, notes: [] });
  t.match(choose(need(4, gib, 1)), { gpuLayers: 4, devices: ['CUDA0'], notes: [/CUDA0 \(the CUDA0\): 4 of 5 layers fit/] });
  t.match(choose(need(8, gib)), { gpuLayers: 5 });
  t.match(choose(need(8, gib, 0, gib)), { gpuLayers: 4 }, 'computing takes its part');
  t.match(choose(need(8, gib, 5 * gib)), { gpuLayers: 0, devices: [], notes: [/no layer fits/] });
  t.match(choose(need(8, gib), [gpu, device('CUDA1', { memoryFreeBytes: 5 * gib })]), { gpuLayers: 8, devices: ['CUDA0', 'CUDA1'] }, 'a layer is on one device');
  t.match(choose(need(8, gib), [device('CUDA0', { memoryFreeBytes: 0, memoryTotalBytes: 0 })]), { gpuLayers: -1 }, 'memory that is not told is tried');
  t.end();
});

t.test('a number is obeyed, and 0 says what stays unused', (t) => {
  const gpu = device('CUDA0');
  t.match(chooseOffload({ ...auto, gpuLayers: 3, layerNeed: need(9, 4 * gib) }, [cpu, gpu], []), { devices: ['CUDA0'], gpuLayers: 3, notes: [] }, 'without any reserve');
  t.match(chooseOffload({ ...auto, gpuLayers: -1 }, [cpu, gpu], []), { devices: ['CUDA0'], gpuLayers: -1 });
  t.match(chooseOffload({ ...auto, gpuLayers: 0 }, [cpu, gpu], []), { devices: [], gpuLayers: 0, notes: [/CUDA0 .* is not used, since --gpu-layers is 0/] });
  t.match(chooseOffload({ ...auto, gpuLayers: 0 }, [cpu], [broken]), { devices: [], notes: [/@recua\/linux-x64-cuda is installed but not used, since --gpu-layers is 0/] });
  t.match(chooseOffload({ ...auto, gpuLayers: 3 }, [cpu], []), { devices: [], notes: [/Layers were to go to a GPU \(3\)/] });
  t.end();
});

t.test('layers that cannot fit are refused with a table', (t) => {
  const gpu = device('CUDA0');
  const choose = (gpuLayers: number, layerNeed: LayerNeed, devices = [gpu]) =>
    chooseOffload({ ...auto, gpuLayers, layerNeed }, [cpu, ...devices], []);
  const large = { ...need(10, 2 * gib, gib, gib / 2), kvBytes: 10 * gib };
  const { code, message } = t.throws(() => choose(-1, large), RecuaError) as RecuaError;
  t.equal(code, 'model_too_large');
  t.equal(message, [
    '11 of 11 layers do not fit into the memory of CUDA0 (the CUDA0):',
    '  weights    11.0 GiB', '  context    10.0 GiB', '  computing   512 MiB', '  together   21.5 GiB, 8.0 GiB free',
    'With --gpu-layers auto, 3 layers go there. A smaller --ctx-size or --parallel, --cache-type-k and --cache-type-v or a smaller quantization make room.',
  ].join('\n'));
  t.throws(() => choose(5, large), { message: /^5 of 11 layers do not fit/ });
  t.match(choose(4, large), { gpuLayers: 4 });
  t.match(choose(-1, large, [gpu, device('CUDA1'), device('CUDA2')]), { gpuLayers: -1 }, 'three hold them');
  t.match(choose(-1, { ...large, kvBytes: 20 * gib, kvIsBound: true }), { gpuLayers: -1 }, 'an upper bound for the context refuses nothing');
  t.match(choose(-1, large, [device('CUDA0', { memoryFreeBytes: 0, memoryTotalBytes: 0 })]), { gpuLayers: -1 }, 'nor does memory that is not told');
  t.end();
});

t.test('--device names devices in any case; none and cpu mean the CPU alone', (t) => {
  const all = [cpu, device('CUDA0'), device('CUDA1'), device('BLAS', { kind: 'accelerator' })];
  const choose = (name: string) => chooseOffload({ ...auto, device: name }, all, [broken]);
  t.strictSame(choose('cuda1, CUDA0,cuda1').devices, ['CUDA1', 'CUDA0']);
  t.strictSame(choose('cpu,cuda1').devices, ['CUDA1']);
  for (const none of ['none', 'CPU', ' None ']) t.match(choose(none), { devices: [], gpuLayers: 0, notes: [] });
  t.throws(() => choose('CUDA7'), {
    code: 'device_not_found',
    message: 'There is no device "CUDA7". This machine has only: CPU (the CPU), CUDA0 (the CUDA0), CUDA1 (the CUDA1), BLAS (the BLAS). For the CPU alone: --device none. recua doctor says why a GPU is missing.\n  '
      + 'The cuda backend (@recua/linux-x64-cuda) is not used: the library libcuda.so.1 is missing.',
  });
  t.end();
});

t.test('--require-gpu refuses to compute on the CPU alone, and explains why', (t) => {
  const required = { ...auto, requireGpu: true };
  t.match(chooseOffload(required, [cpu, device('CUDA0')], []), { devices: ['CUDA0'] });
  const refused = (wanted: Partial<Wanted>, devices: Device[], message: RegExp) => (
    t.throws(() => chooseOffload({ ...required, ...wanted }, devices, [broken]), { code: 'gpu_unavailable', message }));
  refused({}, [cpu], /None of the GPU backends can be used\.\n  The cuda backend \(@recua\/linux-x64-cuda\) is not used: the library libcuda/);
  refused({ gpuLayers: 0 }, [cpu, device('CUDA0')], /--gpu-layers is 0/);
  refused({ device: 'none' }, [cpu, device('CUDA0')], /--device none excludes/);
  refused({ layerNeed: need(2, 99 * gib, 99 * gib) }, [cpu, device('CUDA0')], /no layer fits/);
  t.throws(() => chooseOffload(required, [cpu], []), { message: /No GPU backend is installed; the devices are: CPU\. recua doctor/ });
  t.end();
});

t.test('GPU backends are loaded only where they may be used', (t) => {
  t.ok(wantsGpu(auto));
  t.notOk(wantsGpu({ ...auto, gpuLayers: 0 }));
  t.notOk(wantsGpu({ ...auto, device: 'none' }));
  t.ok(wantsGpu({ ...auto, gpuLayers: 0, device: 'CUDA0' }), 'a name has to be checked');
  t.ok(wantsGpu({ ...auto, gpuLayers: 0, device: 'none', requireGpu: true }), 'and a refusal explained');
  t.end();
});

t.test('settleOffload() counts the output as a layer', (t) => {
  const choice = { devices: ['CUDA0'], gpuLayers: -1, layers: -1, totalLayers: 0, notes: [] };
  t.strictSame(settleOffload(choice, 12), { devices: ['CUDA0'], layers: 13, totalLayers: 13 });
  t.strictSame(settleOffload({ ...choice, gpuLayers: 5 }, 12), { devices: ['CUDA0'], layers: 5, totalLayers: 13 });
  t.strictSame(settleOffload({ ...choice, gpuLayers: 99 }, 12), { devices: ['CUDA0'], layers: 13, totalLayers: 13 });
  t.strictSame(settleOffload({ ...choice, devices: [] }, 12), { devices: [], layers: 0, totalLayers: 13 });
  t.equal(skippedText({ ...broken, package: '' }), 'The cuda backend is not used: the library libcuda.so.1 is missing.');
  t.end();
});
