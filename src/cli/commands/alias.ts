// `recua alias` and `recua cp`: more names for models in the store.
import { checkAlias } from '../../models/aliases.js';
import { readInventory } from '../../models/lookup.js';
import { forgetNames, namedModels, nameModel } from '../../models/naming.js';
import type { NamedModel } from '../../models/naming.js';
import { shellWord } from '../../models/names/shell-word.js';
import { findPlaces } from '../../models/places.js';
import { command } from '../command.js';
import { asTyped, misuse, on, perCall } from '../flags/flags.js';
import { print, say, toJson } from '../terminal/output.js';
import { plain } from '../terminal/wording.js';

const force = perCall(on(['--force', '-F'], 'Move an alias that already names another model'));
const json = perCall(on(['--json'], 'Print JSON'));

export const alias = command({
  name: 'alias',
  aliases: [],
  operands: '[name] [model]',
  summary: 'Give models in the store names of your own, or list these names',
  details: 'With a name and a model, it adds the name and copies nothing. Without arguments, it lists the aliases. Commands and requests take an alias wherever they take the name of a model in the store. '
    + 'recua rm NAME removes the name and keeps the model. But if recua import gave the name to a model that was new to the store, recua rm NAME removes the model, with all its names.',
  examples: [
    ['recua alias chat owner/repo:Q4_K_M', 'Name a model chat; from now on: recua run chat'],
    ['recua alias', 'List all aliases with their models'],
    ['recua alias --rm chat', 'Remove the name; the model stays'],
  ],
  flags: {
    rm: perCall(on(['--rm'], 'Remove the names that follow')),
    force,
    json,
  },
  async run({ values, operands }) {
    const places = findPlaces();
    if (values.rm) {
      if (operands.length === 0) throw misuse('Expected an alias: recua alias --rm <name>…');
      await forgetNames(await readInventory(places), operands);
      if (values.json) await print(toJson({ removed: operands }));
      else for (const name of operands) say(`${plain(name)} is no longer an alias; its model stays.`);
      return 0;
    }
    if (operands.length === 0) return await list(namedModels(await readInventory(places)), values.json);
    const [name, model, ...surplus] = operands;
    if (model === undefined || surplus.length > 0) throw misuse(`Expected a name and a model: recua alias <name> <model>, got ${operands.join(' ')}.`);
    asTyped(() => checkAlias(name!));
    return await give(await nameModel(places, model, name!, values.force), values.json);
  },
});

export const cp = command({
  name: 'cp',
  aliases: [],
  operands: '<model> <name>',
  summary: 'Give a model in the store a second name, without copying it',
  details: 'The new name is an alias of the same file: nothing is copied, and it takes no space. The same as recua alias <name> <model>. '
    + 'recua rm of the new name removes only the name; recua rm of the model removes both.',
  examples: [['recua cp owner/repo:Q4_K_M chat', 'Name a model chat; from now on: recua run chat']],
  flags: { force, json },
  async run({ values, operands }) {
    const [model, name, ...surplus] = operands;
    if (model === undefined || name === undefined || surplus.length > 0) {
      throw misuse(`Expected a model and its new name: recua cp <model> <name>, got ${operands.length === 0 ? 'none' : operands.join(' ')}.`);
    }
    asTyped(() => checkAlias(name));
    return await give(await nameModel(findPlaces(), model, name, values.force), values.json);
  },
});

async function give(named: NamedModel, asJson: boolean): Promise<number> {
  const { alias: name, model, repo, file } = named;
  await print(asJson ? toJson(objectOf(named))
    : `${plain(`${name} is now a name of ${model ?? repo} (${repo}/${file}).`)}\nTry: recua run ${shellWord(plain(name))} -p "Hello"\n`);
  return 0;
}

async function list(all: readonly NamedModel[], asJson: boolean): Promise<number> {
  if (asJson) await print(toJson({ aliases: all.map(objectOf) }));
  else if (all.length === 0) say('There are no aliases. To add one: recua alias <name> <model>');
  else {
    const { rows } = await import('../terminal/rows.js');
    await print(rows([['ALIAS', 'MODEL', 'STATE'], ...all.map((one) => [one.alias, one.model ?? `${one.repo}/${one.file}`, stateOf(one)])]));
  }
  return 0;
}

function stateOf({ model, standsForModel }: NamedModel): string {
  if (model === undefined) return 'no longer in the store';
  return standsForModel ? 'imported: recua rm of this name removes the model' : '';
}

function objectOf({ alias: name, model, repo, file, standsForModel }: NamedModel): object {
  return { alias: name, model: model ?? null, repo, file, imported: standsForModel };
}
