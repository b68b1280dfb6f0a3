import t from 'tap';
import type { Device } from '#recua/addon/addon.js';
import { deviceBudget } from '#recua/engine/offload.js';
import { readModelFile } from '#recua/models/gguf/model-file.js';
import { estimateMemory } from '#recua/models/needs/memory.js';
import { foreseePlacement } from '#recua/models/served/placement.js';
import { builtinPath } from '#recua/models/store.js';
import { makeConfig } from '#recua/settings/config.js';

const gib = 2 ** 30;
const gpu = (name: string, freeBytes: number, more: Partial<Device> = {}): Device => ({
  name, description: name, backend: 'CUDA', kind: 'gpu', id: name, memoryFreeBytes: freeBytes, memoryTotalBytes: freeBytes, ...more,
} as Device);

t.test('what a GPU computes counts against its memory and not RAM; the rest is RAM', async (t) => {
  const file = await readModelFile(builtinPath);
  const config = makeConfig({ contextSize: 512, parallel: 2 });
  const whole = estimateMemory(file, config).totalBytes;
  const on = (more: object, devices: Device[]) => foreseePlacement(file, { ...config, ...more }, devices);
  const one = [gpu('CUDA0', 8 * gib)];
  t.strictSame(on({ gpuLayers: 'auto' }, []), { needBytes: whole, deviceBytes: {} }, 'no GPU');
  t.strictSame(on({}, one), { needBytes: whole, deviceBytes: {} }, 'nobody wants it');
  t.strictSame(on({ gpuLayers: -1, device: 'none' }, one), { needBytes: whole, deviceBytes: {} });
  t.strictSame(on({ device: 'CUDA9' }, one), { needBytes: whole, deviceBytes: {} }, 'the load tells that there is none');
  const all = on({ gpuLayers: 'auto' }, one);
  t.strictSame(Object.keys(all.deviceBytes), ['CUDA0']);
  t.ok(all.deviceBytes['CUDA0']! > 0 && all.needBytes < whole, `${all.needBytes} of ${whole} in RAM`);
  t.strictSame(on({ gpuLayers: -1 }, one), all);
  const half = on({ gpuLayers: 1 }, one);
  t.ok(half.deviceBytes['CUDA0']! < all.deviceBytes['CUDA0']! && half.needBytes > all.needBytes);
  const two = on({ gpuLayers: -1 }, [gpu('CUDA0', 3 * gib), gpu('CUDA1', gib)]);
  t.strictSame(Object.keys(two.deviceBytes), ['CUDA0', 'CUDA1']);
  t.ok(two.deviceBytes['CUDA0']! > two.deviceBytes['CUDA1']!);
  t.strictSame(Object.keys(on({ gpuLayers: -1 }, [gpu('CUDA0', 2 ** 20)]).deviceBytes), ['CUDA0'], 'what cannot fit there is refused for that, not as RAM');
  t.strictSame(on({ gpuLayers: 'auto' }, [gpu('CUDA0', gib)]), { needBytes: whole, deviceBytes: {} }, 'no layer fits into what is free');
});

t.test('the budget of a device is its free memory, less a reserve', (t) => {
  const devices = [gpu('CUDA0', 8 * gib), gpu('CUDA1', gib / 2), gpu('silent', 0), gpu('CPU', 4 * gib, { kind: 'cpu' })];
  t.strictSame(deviceBudget(devices), { CUDA0: 7 * gib, CUDA1: 0 });
  t.end();
});
