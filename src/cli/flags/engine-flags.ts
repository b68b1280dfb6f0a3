// The flags that control how a model is loaded, for every command that starts an engine.
import type { Config } from '../../settings/config.js';
import { engineSettings } from '../../settings/engine.js';
import { settingFlags, settingValues } from './setting-flags.js';
import type { FlagValues } from './setting-flags.js';

export { engineOptions } from '../../models/needs/engine-options.js';

export const engineFlags = settingFlags(engineSettings);

/** The part of a configuration that these flags set. */
export async function engineConfig(
  values: FlagValues<typeof engineSettings>,
): Promise<Partial<Config>> {
  return await settingValues(engineSettings, values);
}
