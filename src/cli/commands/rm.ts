// `recua rm`: removes models from the store. On a terminal it first says exactly what it removes,
// and asks.
import { existsSync } from 'node:fs';
import { sizeText } from '../../models/byte-size.js';
import { percentOf } from '../../models/cache/cached-models.js';
import type { CachedModel } from '../../models/cache/cached-models.js';
import { scanRepo, type CachedRepo } from '../../models/cache/hub-scan.js';
import { readInventory } from '../../models/lookup.js';
import { findPlaces } from '../../models/places.js';
import { shellWord } from '../../models/names/shell-word.js';
import { carryOut, checkRemoval, planRemoval } from '../../models/cache/removal.js';
import type { RemovalPlan, RepoRemoval } from '../../models/cache/removal.js';
import { command } from '../command.js';
import { misuse, on, perCall } from '../flags/flags.js';
import { canAsk, confirm } from '../terminal/confirm.js';
import { print, say, toJson } from '../terminal/output.js';
import { plain } from '../terminal/wording.js';

export const rm = command({
  name: 'rm',
  aliases: ['remove'],
  operands: '<model>…',
  summary: 'Remove models from the store',
  details: 'Naming a repository removes all its models. A running pull is stopped. If a file was imported as a link, only the link is removed. '
    + 'If recua import gave an alias, naming it removes the model with all its aliases. Only the name goes if recua alias or recua cp gave it, '
    + 'or if recua import gave it to a model that the store already had. On a terminal it asks first; elsewhere it removes exact names at once.',
  examples: [
    ['recua rm owner/repo:Q4_K_M', 'Remove one quantization, after asking'],
    ['recua rm -y owner/repo tiny', 'Remove all of a repository, and the model that was imported as tiny'],
    ['recua rm --dry-run owner/repo', 'Only show what would be removed'],
  ],
  flags: {
    yes: perCall(on(['--yes', '-y'], 'Do not ask')),
    dryRun: perCall(on(['--dry-run'], 'Show what would be removed, and remove nothing')),
    json: perCall(on(['--json'], 'Print JSON')),
  },
  async run({ values, operands }) {
    if (operands.length === 0) throw misuse('Expected a model: recua rm <model>…, where a model is a name that recua list shows.');
    const inventory = await readInventory(findPlaces());
    const plan = await planRemoval(inventory, operands);
    await checkRemoval(plan, inventory);
    if (values.dryRun) {
      await print(values.json ? asJson(plan, true) : `${[...lines(plan), ...freed('This would free', plan)].join('\n')}\n`);
      if (!values.json) tellAdopted(plan);
      return 0;
    }
    if (!values.yes && !await confirmed(plan)) {
      say('Nothing was removed.');
      return 1;
    }
    await carryOut(plan, inventory);
    await print(values.json ? asJson(plan, false) : `${[...lines(plan).map((line) => `Removed ${line}`), ...freed('Freed', plan)].join('\n')}\n`);
    if (values.json) return 0;
    tellAdopted(plan);
    for (const { repo, staying } of plan.removals) {
      if (staying > 0) say(`${plain(repo.repo)} has ${staying} other ${staying === 1 ? 'file' : 'files'} in the cache, which ${staying === 1 ? 'stays' : 'stay'}.`);
      else if (await holdsOther(repo)) say(`${plain(repo.folder)} stays, because it holds something else. Delete it yourself if you do not need it.`);
    }
    return 0;
  },
});

function tellAdopted({ adopted }: RemovalPlan): void {
  for (const { name } of adopted) say(`${plain(name)} stays: it was in the store before the alias. To remove it, name it: recua rm ${shellWord(plain(name))}`);
}

async function confirmed(plan: RemovalPlan): Promise<boolean> {
  if (!canAsk()) {
    // Without a terminal to ask on, only exact names are removed.
    const [guess] = plan.guessed;
    if (guess) throw misuse(`Expected the exact name of a model without a terminal to ask on, got ${guess.name}. Did you mean ${guess.meant}? Give that name, or -y to remove it by the name you gave.`);
    return true;
  }
  say(['This removes', ...lines(plan).map((line) => `  ${line}`), ...freed('and frees', plan)].join('\n'));
  return await confirm('Continue?', 'Stopped; nothing was removed.');
}

/** Aliases take no room. */
function freed(words: string, { removals, freedBytes, linkedBytes }: RemovalPlan): string[] {
  const linked = `${sizeText(linkedBytes)} stay on the disk, because other files are hard links to the same contents`;
  const what = linkedBytes === 0 ? sizeText(freedBytes) : freedBytes === 0 ? `nothing: ${linked}` : `${sizeText(freedBytes)}; ${linked}`;
  return removals.length > 0 ? [`${words} ${what}.`] : [];
}

/** What will be removed, one line each. */
function lines({ removals, aliases }: RemovalPlan): string[] {
  return [
    ...removals.flatMap((removal) => [
      ...removal.models.map(modelLine),
      ...sidecarsIn(removal).map((file) => plain(`${removal.repo.repo}/${file}`)),
      ...(removal.models.length === 0 && sidecarsIn(removal).length === 0 ? [`${plain(removal.repo.repo)}, which has no models left`] : []),
    ]),
    ...aliases.map((alias) => `the alias ${plain(alias)}`),
  ];
}

function modelLine(model: CachedModel): string {
  const link = model.parts.find((part) => part.kind === 'link');
  const notes = [
    sizeText(model.sizeBytes + model.olderBytes),
    ...(link ? [`a link; ${link.target} stays`] : []),
    ...(model.partials.length > 0 ? [`${percentOf(model) ?? '?'} % downloaded`] : []),
    ...(model.partials.some((partial) => partial.puller) ? ['the pull that runs now is stopped'] : []),
  ];
  return plain(`${model.name} (${notes.join(', ')})`);
}

function sidecarsIn({ entries, models }: RepoRemoval): string[] {
  const ofModels = new Set(models.flatMap((model) => model.copies));
  return [...new Set(entries.filter((entry) => !ofModels.has(entry)).map((entry) => entry.file))];
}

function asJson(plan: RemovalPlan, dryRun: boolean): string {
  return toJson({
    dry_run: dryRun,
    models: plan.removals.flatMap(({ models }) => models.map((model) => ({
      name: model.name, repo: model.repo, file: model.file === '' ? null : model.file, size_bytes: model.sizeBytes + model.olderBytes,
      was_pulling: model.partials.some((partial) => partial.puller !== undefined),
    }))),
    files: plan.removals.flatMap(({ entries }) => entries.map((entry) => entry.path)),
    blobs: plan.removals.flatMap(({ blobs }) => blobs),
    partials: plan.removals.flatMap(({ partials }) => partials.map((partial) => partial.places.bytes)),
    aliases: plan.aliases,
    freed_bytes: plan.freedBytes,
    linked_bytes: plan.linkedBytes,
  });
}

/** Whether the folder is still there, with nothing in it that the store knows. */
async function holdsOther({ repo, folder }: CachedRepo): Promise<boolean> {
  if (!existsSync(folder)) return false;
  const { files, partials } = await scanRepo(repo, folder);
  return files.length + partials.length === 0;
}
