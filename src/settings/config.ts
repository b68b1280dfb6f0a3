// All settings together and their defaults, as the tables of this folder have them. The floor of
// the house: imports nothing above it. Who fills a Config: cli/ from flags, and programs that embed
// the server.
import { samplerSettings } from './answer.js';
import { engineSettings, sharingSettings } from './engine.js';
import { defaultsOf, type ValuesOf } from './kinds.js';
import { serverSettings } from './server.js';

/** What an engine process is told. */
export const engineConfigSettings = { ...sharingSettings, ...engineSettings } as const;
export interface EngineConfig extends ValuesOf<typeof engineConfigSettings> {}
export const engineDefaults: EngineConfig = defaultsOf(engineConfigSettings);

export const configSettings = { ...serverSettings, ...engineSettings } as const;
export interface Config extends ValuesOf<typeof configSettings> {}

export const defaults: Readonly<Config> = defaultsOf(configSettings);

/** Sampling where a request or command names no value. */
export const samplingDefaults = defaultsOf(samplerSettings);

/** Defaults overlaid with what is given; undefined values do not count. */
export function makeConfig(given: Partial<Config>): Readonly<Config> {
  const set = Object.entries(given).filter(([, value]) => value !== undefined);
  return Object.freeze({ ...defaults, ...Object.fromEntries(set) });
}

/** Whether a `device` setting is the CPU alone. */
export function isNoGpu(device: string): boolean {
  return /^(none|cpu)$/i.test(device.trim());
}
