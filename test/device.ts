// Where the tests of native code compute: on the CPU, or on GPUs with as many layers as the
// variable TEST_GPU_LAYERS says (-1 is all), as `node scripts/gpu-check.mjs` sets it. Packaged
// backends are found and loaded as in the engine process.
import type { NativeAddon } from '#recua/addon/addon.js';
import { loadOptionalBackends } from '#recua/addon/backends.js';
import { openAddon } from '#recua/addon/load.js';

export const gpuLayers = Number(process.env['TEST_GPU_LAYERS'] || 0);

/** What tests add to the command line of `recua api`. */
export const gpuFlags: readonly string[] = gpuLayers === 0 ? [] : ['--gpu-layers', String(gpuLayers), '--require-gpu'];

/** The addon. If tests are to run on a GPU, with every installed backend, and never without one. */
export async function openTestAddon(): Promise<NativeAddon> {
  const opened = openAddon();
  if (gpuLayers === 0) return opened.addon;
  const reports = await loadOptionalBackends(opened);
  if (!opened.addon.devices().some(({ kind }) => kind === 'gpu' || kind === 'igpu')) {
    throw new Error(`TEST_GPU_LAYERS is ${gpuLayers}, but there is no GPU: ${reports.map(({ backend, reason }) => `${backend}: ${reason || 'without a device'}`).join('; ') || 'no backend is installed'}`);
  }
  return opened.addon;
}
