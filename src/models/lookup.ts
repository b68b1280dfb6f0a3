// Which models of the store a name means. The store asks for one runnable model; removal asks for
// all models that it would delete. Reads file headers only if a name has a quantization that no
// file name states.
import { basename } from 'node:path';
import { RecuaError } from '../errors.js';
import { readAliases } from './aliases.js';
import type { Aliases } from './aliases.js';
import { isWhole, modelsAt, modelsOf, percentOf } from './cache/cached-models.js';
import type { CachedModel } from './cache/cached-models.js';
import { readGguf } from './gguf/gguf.js';
import { commitOf, scanHub } from './cache/hub-scan.js';
import type { CachedRepo } from './cache/hub-scan.js';
import { quantizationOf } from './gguf/model-file.js';
import { isQuantization, sameQuantization, stemOf } from './names/model-names.js';
import { nearest } from './names/nearest.js';
import { findPlaces } from './places.js';
import type { Places } from './places.js';
import { isHubName, tryRepositoryName } from './names/repository-name.js';
import type { RepositoryName } from './names/repository-name.js';
import { shellWord } from './names/shell-word.js';
import { SharedReading } from '../system/shared-reading.js';

/** Names in the error for one that means several models. */
const mostNamed = 20;

/** The cache at one moment. */
export interface Inventory {
  places: Places;
  repos: readonly CachedRepo[];
  models: readonly CachedModel[];
  aliases: Aliases;
  /** How many whole models a repository has, and how many of each quantization. */
  whole: ReadonlyMap<string, number>;
  /** The models that a name of a file means, by the name in lower case. */
  byName: ReadonlyMap<string, readonly CachedModel[]>;
  /** The aliases of each file, sorted. */
  aliasesOfFiles: ReadonlyMap<string, readonly string[]>;
}

export interface Found {
  /** What matched; undefined if the name means nothing here. */
  by: 'alias' | 'repo' | 'quantization' | 'file' | undefined;
  models: readonly CachedModel[];
  /** The parsed name, if it is a repository name. */
  repoName: RepositoryName | undefined;
}

/** @throws RecuaError `file_unreadable`, unless the readers do not */
export async function readInventory(
  places: Places,
  aliasesOf = readAliases,
  reposOf: (hub: string) => Promise<CachedRepo[]> = scanHub,
): Promise<Inventory> {
  const [repos, aliases] = await Promise.all([reposOf(places.hub), aliasesOf(places)]);
  const models = modelsOf(repos);
  return { places, repos, models, aliases, whole: countWhole(models), byName: indexNames(models), aliasesOfFiles: byFile(aliases) };
}

const shared = new SharedReading(() => readInventory(findPlaces()));

/**
 * The same, read once for all who ask at about the same time: a server's clients may ask hundreds
 * of times at once, and thousands of models take seconds to read.
 * @throws RecuaError `file_unreadable`
 */
export async function sharedInventory(): Promise<Inventory> {
  return await shared.get();
}

/** Counted once, since comparing each of thousands of models with all others takes seconds. */
function countWhole(models: readonly CachedModel[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const model of models.filter(isWhole)) {
    for (const key of [model.repo, withLabel(model)]) counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  return counts;
}

/** A server that was started with hundreds of names looks each of them up. */
function indexNames(models: readonly CachedModel[]): Map<string, CachedModel[]> {
  const byName = new Map<string, CachedModel[]>();
  for (const model of models) {
    for (const key of new Set(fileNamesOf(model).map((name) => name.toLowerCase()))) {
      const same = byName.get(key);
      if (same) same.push(model);
      else byName.set(key, [model]);
    }
  }
  return byName;
}

/**
 * The name of a partial download or of a file, or a file name without folder, part and extension.
 */
function fileNamesOf(model: CachedModel): string[] {
  return [model.name, model.file, `${model.repo}/${model.file}`, ...namesOfFiles(model)];
}

function withLabel({ repo, quantization }: CachedModel): string {
  return `${repo}:${quantization}`;
}

function byFile(aliases: Aliases): Map<string, string[]> {
  const names = new Map<string, string[]>();
  for (const [alias, { repo, file }] of aliases) {
    const own = names.get(`${repo}/${file}`);
    if (own) own.push(alias);
    else names.set(`${repo}/${file}`, [alias]);
  }
  for (const own of names.values()) own.sort();
  return names;
}

export async function lookUp(inventory: Inventory, name: string): Promise<Found> {
  const { models, aliases } = inventory;
  const repoName = tryRepositoryName(name);
  const target = aliases.get(name);
  if (target) return { by: 'alias', repoName, models: models.filter((model) => model.repo === target.repo && model.file === target.file) };
  if (repoName) {
    const found = await lookUpRepo(inventory, repoName);
    if (found.models.length > 0) return { ...found, repoName };
  }
  // Case counts only to break ties.
  const named = inventory.byName.get(name.toLowerCase()) ?? [];
  const exact = named.filter((model) => fileNamesOf(model).includes(name));
  if (named.length > 0) return { by: 'file', models: exact.length > 0 ? exact : named, repoName };
  return { by: undefined, models: [], repoName };
}

async function lookUpRepo({ repos, models }: Inventory, { repo: name, revision, word, file }: RepositoryName): Promise<Omit<Found, 'repoName'>> {
  const repo = repos.find((one) => one.repo === name) ?? repos.find((one) => one.repo.toLowerCase() === name.toLowerCase());
  if (!repo) return { by: undefined, models: [] };
  const ofRepo = revision === undefined ? models.filter((model) => model.repo === repo.repo) : modelsAt(repo, revision);
  if (file !== undefined) {
    return { by: 'file', models: ofRepo.filter((model) => model.file === file || [...model.parts, ...model.copies, ...model.partials].some((part) => part.file === file)) };
  }
  if (word === undefined) return { by: 'repo', models: ofRepo };
  const exactly = ofRepo.filter((model) => isQuantization(word, model.quantization));
  if (exactly.length > 0) return { by: 'quantization', models: exactly };
  const stated: CachedModel[] = [];
  for (const model of ofRepo) {
    if (sameQuantization(word, model.quantization) || sameQuantization(word, await headerQuantization(model))) stated.push(model);
  }
  if (stated.length > 0) return { by: 'quantization', models: stated };
  // As with pull, this place may hold the name of a file or model.
  return { by: 'file', models: ofRepo.filter((model) => [model.file, ...namesOfFiles(model)].some((one) => one.toLowerCase() === word.toLowerCase())) };
}

/** What headers said, by path: clients of a server may ask for an unknown name again and again. */
const headers = new Map<string, { sizeBytes: number; changedMs: number; quantization: string }>();

/** The quantization in the file's header; '' if it cannot be read. */
export async function headerQuantization(model: CachedModel): Promise<string> {
  const [first] = model.parts;
  if (first === undefined || first.dangling) return '';
  const { path, sizeBytes, changedMs } = first;
  const known = headers.get(path);
  if (known?.sizeBytes === sizeBytes && known.changedMs === changedMs) return known.quantization;
  const quantization = await readGguf(path).then((file) => quantizationOf([file]), () => undefined);
  if (quantization !== undefined) headers.set(path, { sizeBytes, changedMs, quantization });
  return quantization ?? '';
}

/**
 * Every name by which requests may mean this model. Another repository may have a file of the same
 * name; what is an alias of another model means that one.
 */
export function namesOf(model: CachedModel, inventory: Inventory): string[] {
  const count = (key: string): number => inventory.whole.get(key) ?? 0;
  return [...new Set([
    ...aliasesOf(model, inventory),
    ...(count(model.repo) <= 1 ? [model.repo] : []),
    ...(model.quantization !== '' && count(withLabel(model)) <= 1 ? [withLabel(model)] : []),
    `${model.repo}/${model.file}`,
    ...namesOfFiles(model).filter((name) => !inventory.aliases.has(name)),
  ])];
}

export function aliasesOf({ repo, file }: CachedModel, { aliasesOfFiles }: Inventory): readonly string[] {
  return aliasesOfFiles.get(`${repo}/${file}`) ?? [];
}

function namesOfFiles(model: CachedModel): string[] {
  return model.file === '' ? [] : [...new Set([basename(model.file), ...model.parts.map((part) => basename(part.file)), stemOf(model.file)])];
}

/**
 * Picks the one model that a name means. Throws `ambiguous_model`, or `model_not_found` for an
 * incomplete model.
 */
export function chooseOne(name: string, models: readonly CachedModel[]): CachedModel {
  const whole = models.filter(isWhole);
  const [model] = whole.length > 0 ? whole : models;
  if (whole.length > 1 || (whole.length === 0 && models.length > 1)) throw ambiguous(name, whole.length > 0 ? whole : models);
  if (model === undefined) throw new Error(`no model to choose for ${name}`);
  if (!isWhole(model)) throw notWhole(model);
  return model;
}

export function ambiguous(name: string, models: readonly CachedModel[]): RecuaError {
  return new RecuaError('ambiguous_model', `${name} means ${models.length} models of the store; give one of them: ${someOf(models.map((model) => model.name))}.`);
}

/** The names, unless there are very many. */
export function someOf(names: readonly string[]): string {
  const left = names.length - mostNamed;
  return left > 1 ? `${names.slice(0, mostNamed).join(', ')} and ${left} others` : names.join(', ');
}

function notWhole(model: CachedModel): RecuaError {
  const again = model.repo.startsWith('local/') ? 'Import it again, or remove it with recua rm.' : `Pull it again to go on: recua pull ${model.repo}${model.file === '' ? '' : ` --file ${shellWord(model.file)}`}${model.revision === undefined ? '' : ` --revision ${shellWord(model.revision)}`}`;
  if (model.partials.length > 0) {
    const percent = percentOf(model);
    const done = percent === undefined ? '' : ` (${percent} %)`;
    if (model.partials.some((partial) => partial.puller)) return new RecuaError('model_not_found', `${model.name} is being pulled now${done}. Try again when that is done; recua list shows how far it is.`);
    if (model.partials.some((partial) => partial.foreign)) return new RecuaError('model_not_found', `${model.name} was only partly downloaded, by Python's huggingface_hub. Pull the file you want: recua pull ${model.repo}`);
    return new RecuaError('model_not_found', `${model.name} is only partly downloaded${done}. ${again}`);
  }
  // Clients of a server read this, too, so the path is only in `recua list`.
  if (model.parts.some((part) => part.dangling)) return new RecuaError('model_not_found', `${model.name} is in the store, but the file behind it is gone; recua list says which. ${again}`);
  return new RecuaError('model_not_found', `${model.name} comes in ${model.totalParts} parts, of which ${numbers(model.missingParts)} missing. ${again}`);
}

function numbers(parts: readonly number[]): string {
  return parts.length === 1 ? `part ${parts[0]} is` : `parts ${parts.join(', ')} are`;
}

/**
 * `takesPaths`: a path would have been a name, too; `takesBuiltin`: the built-in model is among
 * those that can be named.
 */
export function notFound(
  name: string,
  found: Found,
  { models, repos, aliases }: Inventory,
  { takesPaths = true, takesBuiltin = true } = {},
): RecuaError {
  const { repoName } = found;
  if (found.by === 'alias') {
    const target = aliases.get(name);
    return new RecuaError(
      'model_not_found',
      `The alias ${name} names ${target?.repo}/${target?.file}, which is no longer in the store. Remove the alias with recua rm ${name}, or get the model again.`,
    );
  }
  const ofRepo = repoName === undefined ? [] : models.filter((model) => model.repo === repoName.repo);
  const sidecar =
    repoName?.file !== undefined &&
    repos.some((repo) => repo.repo === repoName.repo && repo.files.some((file) => file.file === repoName.file));
  if (sidecar)
    return new RecuaError(
      'model_not_found',
      `${name} goes with a model and cannot be run by itself.${ofRepo.length > 0 ? ` Its repository has ${ofRepo.map((model) => model.name).join(', ')}.` : ''}`,
    );
  const known = [
    ...aliases.keys(),
    ...(takesBuiltin ? ['builtin'] : []),
    ...models.flatMap((model) => [model.name, model.repo, `${model.repo}/${model.file}`, ...namesOfFiles(model)]),
  ];
  const near = ofRepo.length > 0 ? undefined : nearestName(name, [...new Set(known)]);
  const there =
    revisionsOf(repoName, repos) ?? (ofRepo.length > 0 ? ` The store has ${ofRepo.map((model) => model.name).join(', ')}.` : '');
  const wholeRepo = repoName?.word === undefined && repoName?.file === undefined;
  const pull = isHubName(repoName)
    ? ` To ${wholeRepo ? 'see its files and download one' : 'download it'}: recua pull ${pullName(repoName)}`
    : '';
  const suggestion = `${there}${near === undefined ? '' : ` Did you mean ${near}?`}${pull}`;
  if (!takesPaths) return new RecuaError('model_not_found', `There is no model ${name} in the store.${suggestion}`);
  const expected = takesBuiltin
    ? 'the path of a GGUF file, a model of the store (recua list), or builtin for the built-in model'
    : 'a model of the store (recua list), or the path of its file';
  const hint = suggestion === '' ? ` Expected ${expected}.${nextStep(name)}` : suggestion;
  // Short, because the advice follows.
  return new RecuaError('model_not_found', `There is no model ${name}, neither as a file nor in the store.${hint}`);
}

/** For a prompt without a model, and for a name as in Ollama. */
function nextStep(name: string): string {
  if (/[/\\]|\.gguf$/i.test(name)) return '';
  if (/\s/.test(name)) return ' The model comes first: recua run <model> "<prompt>"';
  return /^[a-z][\w.:-]*$/i.test(name) ? ` To find one to download: recua search ${name.split(':')[0]}` : '';
}

function pullName({ repo, revision, word, file }: RepositoryName): string {
  const at = revision === undefined ? repo : `${repo}@${revision}`;
  return file !== undefined ? `${shellWord(at)} --file ${shellWord(file)}` : shellWord(word !== undefined ? `${at}:${word}` : at);
}

/** Lists the revisions in the store, if another revision was requested. */
function revisionsOf(repoName: RepositoryName | undefined, repos: readonly CachedRepo[]): string | undefined {
  const repo = repoName?.revision === undefined ? undefined : repos.find((one) => one.repo === repoName.repo);
  if (!repo || commitOf(repo, repoName!.revision!) !== undefined) return undefined;
  const named = new Set(repo.refs.values());
  const known = [...repo.refs.keys(), ...new Set(repo.files.map((file) => file.commit).filter((commit) => !named.has(commit)))];
  return ` Of ${repo.repo} the store has no revision ${repoName!.revision!}, only ${known.join(', ')}.`;
}

/** Other case, or `:latest` as Ollama's users write, is the same name; a part of one is near it. */
function nearestName(name: string, known: readonly string[]): string | undefined {
  const wanted = name.toLowerCase().replace(/:latest$/, '');
  const same = known.find((other) => other.toLowerCase() === wanted);
  if (same !== undefined || wanted.length < 3) return same ?? nearest(name, known);
  return nearest(wanted, known) ?? known.find((other) => other.toLowerCase().includes(wanted));
}
