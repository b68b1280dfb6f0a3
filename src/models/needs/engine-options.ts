// What an engine process learns about a model: its file and the settings. Called before starting
// one.
import type { EngineOptions } from '../../engine/protocol.js';
import { engineConfigSettings, type EngineConfig } from '../../settings/config.js';
import { valuesOf } from '../../settings/kinds.js';
import { checkedFiles, type ModelFile } from '../gguf/model-file.js';
import { kernelsOf } from './kernels.js';
import { offloadWish } from './layer-need.js';

/**
 * `file` lets --gpu-layers auto compute how many layers fit, and tells the engine what was checked.
 */
export function engineOptions(modelPath: string, config: EngineConfig, file?: ModelFile): EngineOptions {
  return {
    ...valuesOf(engineConfigSettings, config), modelPath,
    checked: file && checkedFiles(file), kernels: file && kernelsOf(file), ...offloadWish(config, file),
  };
}
