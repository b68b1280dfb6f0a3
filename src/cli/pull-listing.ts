// What pull shows of a repository: its models, with what is cached and what fits this machine, and
// the plan of a download. As tables for people and as JSON.
import { sizeText } from '../models/byte-size.js';
import type { DownloadPlan } from '../models/download/download-plan.js';
import type { RemoteModel } from '../models/hub/gguf-files.js';
import { memoryBytesOf } from '../models/hub/recommendation.js';
import { machineMemory } from '../system/machine-memory.js';
import { toJson } from './terminal/output.js';

/** Where a listing comes from. */
export interface HubOrigin {
  repo: string;
  revision: string;
  commit: string;
}

export interface HubModel {
  model: RemoteModel;
  /** Bytes of the model in the cache, complete or not. */
  storedBytes: number;
}

function fitsMemory(model: RemoteModel): boolean {
  return memoryBytesOf(model) <= machineMemory().totalBytes;
}

export async function listingText(listed: readonly HubModel[]): Promise<string> {
  const { rows } = await import('./terminal/rows.js');
  return rows([['FILE', 'QUANTIZATION', 'SIZE', 'PARTS', 'CACHED', 'FITS MEMORY'], ...listed.map(({ model, storedBytes }) => [
    model.files[0].path,
    [model.quantization || '-', ...(model.kind === 'model' ? [] : [`(${model.kind})`])].join(' '),
    sizeText(model.sizeBytes),
    model.files.length === model.parts ? String(model.parts) : `${model.files.length} of ${model.parts}`,
    cachedText(storedBytes, model.sizeBytes),
    model.kind === 'model' ? (fitsMemory(model) ? 'yes' : 'no') : '-',
  ])]);
}

function cachedText(stored: number, total: number): string {
  if (stored === total) return 'yes';
  return stored === 0 ? 'no' : `${Math.floor(stored / total * 100)} %`;
}

export function listingJson({ repo, revision, commit }: HubOrigin, listed: readonly HubModel[], refused: readonly string[]): string {
  return toJson({
    repository: repo,
    revision,
    commit,
    models: listed.map(({ model, storedBytes }) => ({
      name: model.name,
      kind: model.kind,
      quantization: model.quantization,
      size_bytes: model.sizeBytes,
      parts: model.parts,
      files: model.files.map((file) => ({ file: file.path, size_bytes: file.sizeBytes, [file.hash.replace('-', '_')]: file.etag })),
      cached: storedBytes === model.sizeBytes && model.files.length === model.parts,
      cached_bytes: storedBytes,
      fits_memory: fitsMemory(model),
    })),
    refused_names: refused,
  });
}

export async function planText({ repo, revision, commit }: HubOrigin, plan: DownloadPlan): Promise<string> {
  const { rows } = await import('./terminal/rows.js');
  const files = plan.files.map(({ file, haveBytes, needBytes }) => [
    file.path,
    sizeText(file.sizeBytes),
    sizeText(haveBytes),
    sizeText(needBytes),
  ]);
  return `${repo} at ${revision} (${commit.slice(0, 7)})\n\n${rows([['FILE', 'SIZE', 'HAVE', 'NEED'], ...files])}\n`
    + `To download: ${sizeText(plan.needBytes)} of ${sizeText(plan.totalBytes)}. Free on the disk: ${sizeText(plan.freeBytes)}.\n`;
}

export function planJson({ repo, revision, commit }: HubOrigin, plan: DownloadPlan): string {
  return toJson({
    repository: repo,
    revision,
    commit,
    files: plan.files.map(({ file, haveBytes, needBytes }) => ({
      file: file.path,
      size_bytes: file.sizeBytes,
      have_bytes: haveBytes,
      need_bytes: needBytes,
    })),
    total_bytes: plan.totalBytes,
    have_bytes: plan.haveBytes,
    need_bytes: plan.needBytes,
    free_bytes: plan.freeBytes,
  });
}
