// Refuses to import files that accompany models. Pure. Called by local-import.
import { RecuaError } from '../../errors.js';
import type { ModelFile } from '../gguf/model-file.js';
import { isSidecar } from '../names/model-names.js';

/** @throws RecuaError `model_unusable` for a file that goes with a model and cannot be run */
export function refuseSidecar({ architecture, parts: [{ metadata }] }: ModelFile, file: string): void {
  const type = metadata.get('general.type');
  const what = type === 'imatrix' ? "an importance matrix, quantizers' statistics"
    : type === 'mmproj' || architecture === 'clip' ? 'the projector of a multimodal model, which Recua does not use' : undefined;
  if (what !== undefined) throw new RecuaError('model_unusable', `Expected a model, got ${what}: ${file}.`);
  if (!isSidecar(file)) return;
  throw new RecuaError('invalid_name', `Expected another name than ${file}: in a store, such a name means a file that accompanies models. Rename the file, then import it.`);
}
