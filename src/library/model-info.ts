// What programs see of a loaded model's properties.
import type { ModelDescription } from '../engine/protocol.js';

/** Properties of a loaded model. */
export interface ModelInfo extends Omit<ModelDescription, 'vocabType' | 'fingerprint'> {
  /** The name under which it is served. */
  id: string;
  /** Absolute path of its file. */
  path: string;
}

export function infoOf(id: string, path: string, description: ModelDescription): ModelInfo {
  return { path, ...modelInfo(id, description) };
}

/** The same of a model that may lie elsewhere the next time it is loaded. */
export function modelInfo(id: string, { vocabType: _, fingerprint: __, ...description }: ModelDescription): Omit<ModelInfo, 'path'> {
  return { id, ...description };
}
