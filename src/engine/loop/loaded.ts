// A loaded model, as the loop uses it. Made by process/load.
import type { EmbedderOptions, NativeModelInfo, NativeContext, NativeModel, Pieces } from '../../addon/addon.js';
import type { CheckedFile } from '../../models/gguf/model-file.js';
import type { EngineOptions, ModelDescription } from '../protocol.js';

export { scoredRows } from '../planning/scheduler.js';

export interface LoadedModel {
  options: EngineOptions;
  /** The files that were loaded. */
  files: readonly CheckedFile[];
  model: NativeModel;
  /** Undefined if the model only embeds. */
  context: NativeContext | undefined;
  /** Undefined if the model gives neither pooled vectors nor scores. */
  embedderOptions: EmbedderOptions | undefined;
  /** Rejects if there is too little memory for an embedder with this context. */
  ensureVectorRoom(contextSize: number): Promise<void>;
  pieces: Pieces;
  description: ModelDescription;
}

/**
 * Whether the end of a sequence can be removed. Recurrent and sliding-window memory belongs to the
 * whole sequence.
 */
export function canRemoveParts({ recurrent, slidingWindow }: NativeModelInfo): boolean {
  return !recurrent && slidingWindow === 0;
}
