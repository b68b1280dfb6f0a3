// Finds the model that `run` and `chat` are asked for: by its names on this machine, else by the
// name that a running server of this user gives it.
import { RecuaError } from '../../errors.js';
import { checkedFiles, fingerprintOf, readModelFile, type ModelFile } from '../../models/gguf/model-file.js';
import { readInventory } from '../../models/lookup.js';
import { findPlaces } from '../../models/places.js';
import { findModel, runnableModels, type StoredModel } from '../../models/store.js';
import { findServedAs, type Asking, type ServedAs } from './running-models.js';

export interface FoundModel {
  /** A name that finds it without the server. */
  name: string;
  model: StoredModel;
  file: ModelFile;
}

/** @throws RecuaError as `findModel` and `readModelFile` do */
export async function findAndRead(name: string, asking: Asking): Promise<FoundModel> {
  let model: StoredModel;
  try {
    model = await findModel(name);
  } catch (thrown) {
    if (!(thrown instanceof RecuaError) || thrown.code !== 'model_not_found' || name === '') throw thrown;
    const served = await findServedAs(name, asking);
    if (!served) throw thrown;
    const found = await fileOf(served);
    if (found) return found;
    throw new RecuaError('model_not_found', `The server ${served.url} has a model of that name, ${name}, but its file is not in the store of recua list, or has changed; name the file, or add it: recua import FILE`, { cause: thrown });
  }
  return { name, model, file: await readModelFile(model.path) };
}

/** The model with this file: one of the store, or one that the server was started with. */
async function fileOf({ fingerprint, files }: ServedAs): Promise<FoundModel | undefined> {
  const isIt = async (path: string): Promise<ModelFile | undefined> => {
    const file = await readModelFile(path).catch(() => undefined);
    return file && fingerprintOf(checkedFiles(file)) === fingerprint ? file : undefined;
  };
  for (const model of await runnableModels(await readInventory(findPlaces()))) {
    const file = await isIt(model.path);
    if (file) return { name: model.id, model, file };
  }
  for (const path of files) {
    const file = await isIt(path);
    if (file) return { name: path, model: await findModel(path), file };
  }
  return undefined;
}
