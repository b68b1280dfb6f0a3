// What an engine process is told of a model: its file and the settings. Called by who starts one.
import type { EngineOptions } from '../../engine/protocol.js';
import { engineConfigSettings, type EngineConfig } from '../../settings/config.js';
import { valuesOf } from '../../settings/kinds.js';
import { checkedFiles, type ModelFile } from '../gguf/model-file.js';
import { kernelsOf } from './kernels.js';
import { offloadWish } from './layer-need.js';

/** `file` lets --gpu-layers auto tell how many layers fit, and an engine trust what was checked. */
export function engineOptions(modelPath: string, config: EngineConfig, file?: ModelFile): EngineOptions {
  return {
    ...valuesOf(engineConfigSettings, config), modelPath,
    checked: file && checkedFiles(file), kernels: file && kernelsOf(file), ...offloadWish(config, file),
  };
}
