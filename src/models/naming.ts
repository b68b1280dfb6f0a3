// Adds names to a model of the store without copying it. Called by `recua alias` and `recua cp`.
import { RecuaError } from '../errors.js';
import { addAlias, checkAlias, removeAliases } from './aliases.js';
import { lookUp, notFound, readInventory } from './lookup.js';
import type { Inventory } from './lookup.js';
import { nearest } from './names/nearest.js';
import { tryRepositoryName } from './names/repository-name.js';
import { shellWord } from './names/shell-word.js';
import type { Places } from './places.js';
import { findModel, type StoredModel } from './store.js';

export interface NamedModel {
  alias: string;
  /** The name that `list` shows; undefined if the model is no longer in the store. */
  model: string | undefined;
  repo: string;
  file: string;
  /** Given by an import: the model goes when the name is removed by `recua rm`. */
  standsForModel: boolean;
}

/**
 * Gives a model another name. `read` reads the store; `given` is the model, if the caller has found
 * it. Throws `invalid_name`, `alias_taken`, and for the source what `findModel` throws.
 */
export async function nameModel(
  places: Places,
  source: string,
  alias: string,
  force: boolean,
  read: (places: Places) => Promise<Inventory> = readInventory,
  given?: StoredModel,
): Promise<NamedModel> {
  checkAlias(alias);
  const { path, repo, file } = given ?? await findModel(source, { places, read }).catch(async (thrown: unknown) => {
    const inventory = await read(places);
    const found = await lookUp(inventory, source);
    if (RecuaError.from(thrown).code !== 'model_not_found' || found.models.length > 0) throw thrown;
    const { message } = notFound(source, found, inventory, { takesPaths: false, takesBuiltin: false });
    // A text behind the command that downloads it would look like part of that command.
    const [what, download = ''] = message.split(/(?= To [a-z ]*download [a-z]+: )/);
    throw new RecuaError(
      'model_not_found',
      `${what} recua list shows the models that an alias can name; recua import FILE --alias ${alias} adds a file of your own.${download}`,
    );
  });
  if (source === 'builtin')
    throw new RecuaError('invalid_name', 'The built-in model has the name builtin and no other; an alias names a model of the store.');
  if (repo === undefined || file === undefined) {
    throw new RecuaError(
      'invalid_name',
      `${path} is a file outside of the store, and an alias names a model of the store. Take it in with that name: recua import ${shellWord(path)} --alias ${alias}`,
    );
  }
  const { revision } = tryRepositoryName(source) ?? {};
  if (revision !== undefined)
    throw new RecuaError('invalid_name', `An alias names a model whatever its revision; expected the name without @${revision}.`);
  // The model was there before the alias, so it stays when the alias is removed.
  await addAlias(places, alias, { repo, file, adopted: true }, force);
  return namedModels(await read(places)).find((one) => one.alias === alias)!;
}

/** Removes aliases; the models stay. Throws `invalid_name` for a name that is not an alias. */
export async function forgetNames(inventory: Inventory, names: readonly string[]): Promise<void> {
  const unknown = names.find((name) => !inventory.aliases.has(name));
  if (unknown !== undefined) {
    const near = nearest(unknown, [...inventory.aliases.keys()]);
    throw new RecuaError('invalid_name', `There is no alias ${unknown}.${near === undefined ? '' : ` Did you mean ${near}?`} All of them: recua alias`);
  }
  await removeAliases(inventory.places, (name) => names.includes(name));
}

/** All aliases, sorted. */
export function namedModels({ aliases, models }: Inventory): NamedModel[] {
  return [...aliases].map(([alias, { repo, file, adopted }]) => ({
    alias, repo, file, standsForModel: !adopted, model: models.find((one) => one.repo === repo && one.file === file)?.name,
  })).sort((a, b) => (a.alias < b.alias ? -1 : 1));
}
