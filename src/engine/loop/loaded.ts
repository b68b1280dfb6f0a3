// A model that is open, as the loop and what is around it have it. Made by process/load.
import type { EmbedderOptions, NativeModelInfo, NativeContext, NativeModel, Pieces } from '../../addon/addon.js';
import type { EngineOptions, ModelDescription } from '../protocol.js';

export { scoredRows } from '../planning/scheduler.js';

export interface LoadedModel {
  options: EngineOptions;
  model: NativeModel;
  /** Undefined where the model only embeds. */
  context: NativeContext | undefined;
  /** Undefined where the model can give neither pooled vectors nor scores. */
  embedderOptions: EmbedderOptions | undefined;
  pieces: Pieces;
  description: ModelDescription;
}

/**
 * Whether the end of a sequence can be removed: what is kept of it otherwise belongs to the whole.
 */
export function canRemoveParts({ recurrent, slidingWindow }: NativeModelInfo): boolean {
  return !recurrent && slidingWindow === 0;
}
