// The addon and the GPU backends of this installation, opened as an engine's options need them.
// Used by main in the engine process and by local in this one; tests give fakes instead.
import type { NativeAddon } from '../../addon/addon.js';
import { installedBackends, loadOptionalBackends } from '../../addon/backends.js';
import { openAddon } from '../../addon/load.js';
import type { OpenedAddon } from '../../addon/load.js';
import { wantsGpu, type SkippedBackend } from '../offload.js';
import { spinCount, withEnvironment } from '../../system/open-mp.js';
import type { EngineOptions } from '../protocol.js';

/** The addon, and what became of the backends that it could have had beside the CPU's. */
export interface OpenedNative {
  addon: NativeAddon;
  backends?: readonly SkippedBackend[];
}

const openHere = (): OpenedAddon => withEnvironment(spinCount(), () => openAddon());

/** Opens the addon before it is needed. What keeps it from opening is told when it is. */
export function openAhead(): void {
  try {
    openHere();
  } catch { /* See above. */ }
}

export async function openOwnNative(options: EngineOptions): Promise<OpenedNative> {
  const opened = openHere();
  // Without a GPU package this finds nothing and costs nothing.
  return { addon: opened.addon, backends: wantsGpu(options) ? await loadOptionalBackends(opened) : installedBackends(opened) };
}
