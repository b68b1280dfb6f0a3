// The flags that say how a model is loaded, for every command that starts an engine; and what they
// mean to it.
import { engineConfigSettings } from '../../settings/config.js';
import type { Config } from '../../settings/config.js';
import { engineSettings } from '../../settings/engine.js';
import { valuesOf } from '../../settings/kinds.js';
import type { EngineOptions } from '../../engine/protocol.js';
import { offloadWish } from '../../models/needs/layer-need.js';
import { checkedFiles } from '../../models/gguf/model-file.js';
import type { ModelFile } from '../../models/gguf/model-file.js';
import { settingFlags, settingValues } from './setting-flags.js';
import type { FlagValues } from './setting-flags.js';

export const engineFlags = settingFlags(engineSettings);

/** The part of a configuration that these flags give. */
export async function engineConfig(
  values: FlagValues<typeof engineSettings>,
): Promise<Partial<Config>> {
  return await settingValues(engineSettings, values);
}

/** `file` lets --gpu-layers auto tell how many layers fit, and an engine trust what was checked. */
export function engineOptions(modelPath: string, config: Config, file?: ModelFile): EngineOptions {
  return {
    ...valuesOf(engineConfigSettings, config), modelPath,
    checked: file && checkedFiles(file), ...offloadWish(config, file),
  };
}
