// All settings and their defaults, from the tables of this folder. The lowest layer: it imports
// nothing above it. cli/ fills a Config from flags; programs that embed the server fill one too.
import { samplerSettings } from './answer.js';
import { engineSettings, sharingSettings } from './engine.js';
import { defaultsOf, type ValuesOf } from './kinds.js';
import { serverSettings } from './server.js';

/** The settings that an engine process gets. */
export const engineConfigSettings = { ...sharingSettings, ...engineSettings } as const;
export interface EngineConfig extends ValuesOf<typeof engineConfigSettings> {}
export const engineDefaults: EngineConfig = defaultsOf(engineConfigSettings);

export const configSettings = { ...serverSettings, ...engineSettings } as const;
export interface Config extends ValuesOf<typeof configSettings> {}

export const defaults: Readonly<Config> = defaultsOf(configSettings);

/** Sampling values when a request or command gives none. */
export const samplingDefaults = defaultsOf(samplerSettings);

/** The defaults overlaid with the given values; undefined values are ignored. */
export function makeConfig(given: Partial<Config>): Readonly<Config> {
  const set = Object.entries(given).filter(([, value]) => value !== undefined);
  return Object.freeze({ ...defaults, ...Object.fromEntries(set) });
}

/** Whether a `device` setting means CPU only. */
export function isNoGpu(device: string): boolean {
  return /^(none|cpu)$/i.test(device.trim());
}
