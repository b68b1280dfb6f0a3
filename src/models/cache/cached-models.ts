// Groups the cache's files into models: the parts of a split model together, one version of a file
// that several snapshots hold, and what of each is still to be downloaded. Pure, except for what
// hub-scan.ts has read. Used by the store and by removals.
import { commitOf, etagOf } from './hub-scan.js';
import type { CachedRepo, PartialDownload, SnapshotFile } from './hub-scan.js';
import { isGgufFile, isSidecar, modelKey, partOf, partName, quantizationOfName } from '../names/model-names.js';

export interface CachedModel {
  repo: string;
  /** Path inside the repository; for a split model, of its first part. */
  file: string;
  /** The shortest name that means this model and no other in the cache. */
  name: string;
  /** The requested revision; undefined if all copies are meant. */
  revision: string | undefined;
  /** The parts that are present, in order, all from one snapshot. */
  parts: readonly SnapshotFile[];
  totalParts: number;
  /** Numbers of the parts that are not present even partly. */
  missingParts: readonly number[];
  partials: readonly PartialDownload[];
  /** Total size: contents of the parts, plus what has arrived of others. */
  sizeBytes: number;
  /** From its name; '' if the name states none. */
  quantization: string;
  /** All files of that name in all snapshots: what removing the model deletes. */
  copies: readonly SnapshotFile[];
  /** Bytes of its other versions in older snapshots. */
  olderBytes: number;
  changedMs: number;
}

const collator = new Intl.Collator('en', { numeric: true });

/** Whether the model is runnable: all parts are present and no link is broken. */
export function isWhole(model: CachedModel): boolean {
  return model.parts.length === model.totalParts && model.parts.every((part) => !part.dangling);
}

/**
 * How much of a model is present, in percent; undefined if unknown. 100 only for a complete model.
 */
export function percentOf(model: CachedModel): number | undefined {
  if (isWhole(model)) return 100;
  let share = model.parts.filter((part) => !part.dangling).length;
  for (const { sizeBytes, doneBytes } of model.partials) {
    if (sizeBytes === undefined || sizeBytes === 0) return undefined;
    share += doneBytes / sizeBytes;
  }
  return Math.min(99, Math.floor(share / model.totalParts * 100));
}

/** The models of all repositories, by name, without sidecars. */
export function modelsOf(repos: readonly CachedRepo[]): CachedModel[] {
  const models = repos.flatMap((one) => modelsOfRepo(one));
  return models.sort((a, b) => collator.compare(a.name, b.name) || (a.name < b.name ? -1 : 1));
}

/** The models of one revision of a repository, as if the cache held nothing else of it. */
export function modelsAt(repo: CachedRepo, revision: string): CachedModel[] {
  const commit = commitOf(repo, revision);
  const partials = repo.partials.filter((partial) => partial.revision !== undefined && [revision, commit].includes(partial.revision));
  return modelsOfRepo({ ...repo, files: repo.files.filter((file) => file.commit === commit), partials })
    .map((model) => ({ ...model, revision, name: `${repo.repo}@${revision}${model.name.slice(repo.repo.length)}` }));
}

/** The files that accompany a repository's models. */
export function sidecarsOf(repo: CachedRepo): SnapshotFile[] {
  return repo.files.filter((file) => isGgufFile(file.file) && isSidecar(file.file));
}

function modelsOfRepo(repo: CachedRepo): CachedModel[] {
  const groups = new Map<string, { files: SnapshotFile[]; partials: PartialDownload[] }>();
  const groupOf = (key: string) => {
    const group = groups.get(key) ?? { files: [], partials: [] };
    groups.set(key, group);
    return group;
  };
  for (const file of repo.files) {
    if (isGgufFile(file.file) && !isSidecar(file.file)) groupOf(modelKey(file.file)).files.push(file);
  }
  for (const partial of repo.partials) {
    if (partial.file === undefined) groupOf(`\0${partial.etag}`).partials.push(partial);
    else if (isGgufFile(partial.file) && !isSidecar(partial.file)) groupOf(modelKey(partial.file)).partials.push(partial);
  }
  const order = snapshotOrder(repo);
  const models = [...groups.values()].map(({ files, partials }) => makeModel(repo.repo, files, partials, order));
  const times = new Map<string, number>();
  for (const { quantization } of models) times.set(quantization, (times.get(quantization) ?? 0) + 1);
  return models.map((model) => ({ ...model, name: shortestName(model, models.length, times.get(model.quantization)!) }));
}

/** Rank of a snapshot: first the one that `main` names, then those of other refs, then the rest. */
function snapshotOrder(repo: CachedRepo): (commit: string) => number {
  const ranked = [repo.refs.get('main'), ...repo.refs.values()].filter((commit) => commit !== undefined);
  return (commit) => {
    const rank = ranked.indexOf(commit);
    return rank < 0 ? ranked.length : rank;
  };
}

function makeModel(
  repo: string,
  files: readonly SnapshotFile[],
  partials: readonly PartialDownload[],
  order: (commit: string) => number,
): CachedModel {
  const parts = chooseSnapshot(files, order);
  const chosen = new Set(parts.map((part) => contentsOf(part)));
  const known = parts[0]?.file ?? partials.find((partial) => partial.file !== undefined)?.file;
  const { total } = partOf(known ?? '');
  const file = known === undefined ? '' : total > 1 ? partName(known, 1) : known;
  // Downloading a complete file again (with --force) does not make the model incomplete.
  const open = partials.filter(
    (partial) =>
      partial.file === undefined || !parts.some((part) => part.file === partial.file && !part.dangling) || partial.puller !== undefined,
  );
  const there = new Set(
    [...parts.filter((part) => !part.dangling).map((part) => part.file), ...open.map((partial) => partial.file)].map(
      (name) => partOf(name ?? '').part,
    ),
  );
  const older = new Map(
    files.filter((one) => !chosen.has(contentsOf(one))).map((one) => [contentsOf(one), one.kind === 'link' ? 0 : one.sizeBytes]),
  );
  return {
    repo,
    file,
    parts,
    totalParts: total,
    partials: open,
    copies: files,
    name: '',
    revision: undefined,
    missingParts: known === undefined ? [] : Array.from({ length: total }, (_, i) => i + 1).filter((part) => !there.has(part)),
    sizeBytes: [...parts.map((part) => part.sizeBytes), ...open.map((partial) => partial.doneBytes)].reduce((sum, bytes) => sum + bytes, 0),
    quantization: quantizationOfName(file),
    olderBytes: [...older.values()].reduce((sum, bytes) => sum + bytes, 0),
    changedMs: Math.max(0, ...parts.map((part) => part.changedMs), ...open.map((partial) => partial.changedMs)),
  };
}

/** The snapshot with the most parts; on a tie, the better rank, then the newest. */
function chooseSnapshot(files: readonly SnapshotFile[], order: (commit: string) => number): SnapshotFile[] {
  const byCommit = new Map<string, SnapshotFile[]>();
  for (const file of files) byCommit.set(file.commit, [...byCommit.get(file.commit) ?? [], file]);
  const ranked = [...byCommit]
    .map(([commit, parts]) => ({
      parts,
      rank: order(commit),
      there: parts.filter((part) => !part.dangling).length,
      changedMs: Math.max(...parts.map((part) => part.changedMs)),
    }))
    .sort((a, b) => b.there - a.there || a.rank - b.rank || b.changedMs - a.changedMs);
  return [...ranked[0]?.parts ?? []].sort((a, b) => partOf(a.file).part - partOf(b.file).part);
}

function contentsOf(file: SnapshotFile): string {
  return etagOf(file) ?? file.target;
}

/** `inRepo` models are in the repository, `alike` of them of this quantization. */
function shortestName(model: Omit<CachedModel, 'name'>, inRepo: number, alike: number): string {
  const { repo, file, quantization } = model;
  if (file === '') return `${repo} (${model.partials[0]?.etag.slice(0, 12) ?? '?'}…)`;
  if (inRepo === 1) return repo;
  return quantization !== '' && alike === 1 ? `${repo}:${quantization}` : `${repo}/${file}`;
}
