// The addon and the GPU backends of this installation, opened as an engine's options need them.
// Used by main in the engine process and by local in this one; tests give fakes instead.
import type { NativeAddon } from '../../addon/addon.js';
import { installedBackends, loadOptionalBackends } from '../../addon/backends.js';
import { openAddon } from '../../addon/load.js';
import type { OpenedAddon } from '../../addon/load.js';
import { wantsGpu, type SkippedBackend } from '../offload.js';
import { refusedEnvironment, refusedIn, type Refused } from '../../addon/refused.js';
import { spinCount, withEnvironment } from '../../system/open-mp.js';
import type { EngineOptions } from '../protocol.js';

/** The addon, and what became of the backends that it could have had beside the CPU's. */
export interface OpenedNative {
  addon: NativeAddon;
  backends?: readonly SkippedBackend[];
}

function openHere(refused: Refused): OpenedAddon {
  return withEnvironment({ ...spinCount(), ...refusedEnvironment(refused) }, () => openAddon());
}

/** Opens the addon before it is needed. What keeps it from opening is told when it is. */
export function openAhead(): void {
  try {
    openHere(refusedIn());
  } catch { /* See above. */ }
}

/** `refused`: what of the CPU's libraries is not to be used; an engine's process was told of it. */
export async function openOwnNative(options: EngineOptions, refused = refusedIn()): Promise<OpenedNative> {
  const opened = openHere(refused);
  // Without a GPU package this finds nothing and costs nothing.
  return { addon: opened.addon, backends: wantsGpu(options) ? await loadOptionalBackends(opened) : installedBackends(opened) };
}
