// `recua list`: the models of the store, complete or not, and the built-in one.
import { sizeText } from '../../models/byte-size.js';
import { isWhole, percentOf, sidecarsOf } from '../../models/cache/cached-models.js';
import type { CachedRepo, SnapshotFile } from '../../models/cache/hub-scan.js';
import { readInventory } from '../../models/lookup.js';
import type { Inventory } from '../../models/lookup.js';
import { shellWord } from '../../models/names/shell-word.js';
import { readModelFile } from '../../models/gguf/model-file.js';
import { findPlaces } from '../../models/places.js';
import { builtinPath, builtinUsedMs, listModels } from '../../models/store.js';
import type { ListedModel } from '../../models/store.js';
import { command } from '../command.js';
import { misuse, on, perCall } from '../flags/flags.js';
import { print, say, toJson } from '../terminal/output.js';
import { ago, plain } from '../terminal/wording.js';

export const list = command({
  name: 'list',
  aliases: ['ls'],
  operands: '',
  summary: 'List the models in the store',
  details: 'The store is the Hugging Face cache on this machine, with Recua\'s aliases. The list includes models that other programs put there, and unfinished downloads with their progress. Other commands take these names, but only complete models can be loaded.',
  examples: [
    ['recua list', 'Show names, quantizations, sizes, last use and aliases'],
    ['recua ls --json', 'Print the same and more for programs'],
  ],
  flags: { json: perCall(on(['--json'], 'Print JSON')) },
  async run({ values, operands }) {
    if (operands.length > 0) throw misuse(`Expected no argument, got ${operands.join(' ')}. For one model: recua show ${shellWord(operands[0]!)}`);
    const inventory = await readInventory(findPlaces());
    const models = await listModels(inventory);
    await print(values.json ? await asJson(inventory, models) : await asText(inventory, models));
    if (models.length === 0 && !values.json) say(`The store, ${plain(inventory.places.hub)}, has no models. Download one with recua pull <owner/repo>, or add your own file with recua import <path>.`);
    return 0;
  },
});

async function asText(inventory: Inventory, models: readonly ListedModel[]): Promise<string> {
  const [builtin, usedMs] = await Promise.all([describeBuiltin(), builtinUsedMs(inventory.places)]);
  const cells = [
    ['NAME', 'QUANTIZATION', 'SIZE', 'LAST USED', 'ALIAS', 'STATE'],
    ['builtin', builtin?.quantization ?? '', builtin ? sizeText(builtin.sizeBytes) : '', used(usedMs), '', builtin ? 'built-in' : 'missing'],
    ...models.map((model) => [model.name, model.quantization, sizeText(model.sizeBytes), used(model.lastUsedMs), model.aliases.join(', '), stateOf(model)]),
    ...inventory.repos.flatMap(accompanying),
  ];
  const { rows } = await import('../terminal/rows.js');
  return rows(cells);
}

/** Sidecars, each listed once, after the models. */
function accompanying(repo: CachedRepo): string[][] {
  return sidecarsByFile(repo).map((file) => [`${repo.repo}/${file.file}`, '', sizeText(file.sizeBytes), '', '', 'used with the models of its repository']);
}

function sidecarsByFile(repo: CachedRepo): SnapshotFile[] {
  return [...new Map(sidecarsOf(repo).map((file) => [file.file, file])).values()];
}

function stateOf(model: ListedModel): string {
  const link = model.parts.find((part) => part.kind === 'link');
  const dangling = model.parts.find((part) => part.dangling);
  const percent = percentOf(model);
  const states = [];
  if (model.partials.length > 0) {
    states.push(percent === undefined ? 'partly downloaded' : `${percent} % downloaded`);
    if (model.partials.some((partial) => partial.puller)) states.push('pulling now');
    else if (model.partials.some((partial) => partial.foreign)) states.push('by huggingface_hub');
  } else if (model.missingParts.length > 0 && model.totalParts > 1) states.push(`${model.parts.length} of ${model.totalParts} parts`);
  if (dangling) states.push(`dangling: there is no ${dangling.target}`);
  else if (link) states.push(`link to ${link.target}`);
  if (model.olderBytes > 0) states.push(`and ${sizeText(model.olderBytes)} of older versions`);
  return states.join(', ');
}

function used(timeMs: number | undefined): string {
  return timeMs === undefined ? 'never' : ago(timeMs);
}

async function describeBuiltin(): Promise<{ quantization: string; sizeBytes: number } | undefined> {
  return await readModelFile(builtinPath).catch(() => undefined);
}

async function asJson({ places, repos }: Inventory, models: readonly ListedModel[]): Promise<string> {
  const builtin = await describeBuiltin();
  return toJson({
    store: places.hub,
    builtin: builtin
      ? {
          path: builtinPath,
          quantization: builtin.quantization,
          size_bytes: builtin.sizeBytes,
          last_used: iso(await builtinUsedMs(places)),
        }
      : null,
    models: models.map(modelObject),
    sidecars: repos.flatMap((repo) =>
      sidecarsByFile(repo).map((file) => ({ repo: repo.repo, file: file.file, path: file.path, size_bytes: file.sizeBytes })),
    ),
  });
}

function modelObject(model: ListedModel): object {
  const link = model.parts.find((part) => part.kind === 'link');
  return {
    name: model.name,
    aliases: model.aliases,
    repo: model.repo,
    file: model.file === '' ? null : model.file,
    path: model.parts[0]?.path ?? null,
    quantization: model.quantization === '' ? null : model.quantization,
    size_bytes: model.sizeBytes,
    complete: isWhole(model),
    percent: percentOf(model) ?? null,
    pulling: model.partials.some((partial) => partial.puller !== undefined),
    pulling_pid: model.partials.find((partial) => partial.puller)?.puller?.pid ?? null,
    parts: model.parts.length,
    total_parts: model.totalParts,
    missing_parts: model.missingParts,
    link_target: link?.target ?? null,
    dangling: model.parts.some((part) => part.dangling),
    snapshots: [...new Set(model.copies.map((copy) => copy.commit))],
    older_bytes: model.olderBytes,
    last_used: iso(model.lastUsedMs),
    changed: iso(model.changedMs),
  };
}

function iso(timeMs: number | undefined): string | null {
  return timeMs === undefined ? null : new Date(timeMs).toISOString();
}
