// Opens this installation's addon, and its GPU backends if an engine's options need them. Used by
// main in the engine process and by in-process/local; tests pass fakes instead.
import type { NativeAddon } from '../../addon/addon.js';
import { installedBackends, loadOptionalBackends } from '../../addon/backends.js';
import { openAddon } from '../../addon/load.js';
import type { OpenedAddon } from '../../addon/load.js';
import { wantsGpu, type SkippedBackend } from '../offload.js';
import { refusedEnvironment, refusedIn, type Refused } from '../../addon/refused.js';
import { spinCount, withEnvironment } from '../../system/open-mp.js';
import type { EngineOptions } from '../protocol.js';

/** The addon, and the results for the optional backends. */
export interface OpenedNative {
  addon: NativeAddon;
  backends?: readonly SkippedBackend[];
}

function openHere(refused: Refused): OpenedAddon {
  return withEnvironment({ ...spinCount(), ...refusedEnvironment(refused) }, () => openAddon());
}

/** Opens the addon before it is needed. An error is reported later, when it is needed. */
export function openAhead(): void {
  try {
    openHere(refusedIn());
  } catch { /* See above. */ }
}

/** `refused`: CPU libraries and kernels not to use; an engine process gets them from its parent. */
export async function openOwnNative(options: EngineOptions, refused = refusedIn()): Promise<OpenedNative> {
  const opened = openHere(refused);
  // Without a GPU package this finds nothing and costs nothing.
  return { addon: opened.addon, backends: wantsGpu(options) ? await loadOptionalBackends(opened) : installedBackends(opened) };
}
