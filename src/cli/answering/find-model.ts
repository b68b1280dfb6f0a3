// Finds the model that `run` and `chat` are asked for: by its names on this machine, else by the
// name that a running server of this user gives it.
import { RecuaError } from '../../errors.js';
import { checkedFiles, fingerprintOf, readModelFile, type ModelFile } from '../../models/gguf/model-file.js';
import { readInventory } from '../../models/lookup.js';
import { findPlaces } from '../../models/places.js';
import { findModel, runnableModels, type StoredModel } from '../../models/store.js';
import { findServedAs } from './running-models.js';

export interface FoundModel {
  /** A name that finds it without the server. */
  name: string;
  model: StoredModel;
  file: ModelFile;
}

/** @throws RecuaError as `findModel` and `readModelFile` do */
export async function findAndRead(name: string): Promise<FoundModel> {
  let model: StoredModel;
  try {
    model = await findModel(name);
  } catch (thrown) {
    if (!(thrown instanceof RecuaError) || thrown.code !== 'model_not_found' || name === '') throw thrown;
    const served = await findServedAs(name);
    if (!served) throw thrown;
    const found = await fileOf(served.fingerprint);
    if (found) return found;
    throw new RecuaError('model_not_found', `The server ${served.url} has a model of that name, ${name}, but its file is not in the store of recua list; name the file.`, { cause: thrown });
  }
  return { name, model, file: await readModelFile(model.path) };
}

/** The store's model with this file. */
async function fileOf(fingerprint: string): Promise<FoundModel | undefined> {
  for (const model of await runnableModels(await readInventory(findPlaces()))) {
    const file = await readModelFile(model.path).catch(() => undefined);
    if (file && fingerprintOf(checkedFiles(file)) === fingerprint) return { name: model.id, model, file };
  }
  return undefined;
}
