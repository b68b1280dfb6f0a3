// Which models a repository's listing holds: joins the parts of split files, reads the quantization
// from the name, and separates files that are not models themselves (projectors, draft heads,
// importance matrices). Pure; used by pull and remote-model.ts.
import { RecuaError } from '../../errors.js';
import type { HubFile } from './hub.js';
import { isGgufFile, kindsAmong, modelKey, partOf, pathStemOf, quantizationOfName } from '../names/model-names.js';
import type { GgufKind } from '../names/model-names.js';
import { nearest } from '../names/nearest.js';

/** 'other' is any file that is not GGUF. */
export type FileKind = GgufKind | 'other';

export interface RemoteModel {
  /** Path of its file without extension and part count. */
  name: string;
  kind: FileKind;
  /** Uppercase; '' if the name states none. */
  quantization: string;
  /** The parts in order; one if the file is not split. */
  files: [HubFile, ...HubFile[]];
  /** How many parts there should be. */
  parts: number;
  sizeBytes: number;
}

/** The GGUF files of a listing as models, smallest first within each kind. */
export function groupModels(files: readonly HubFile[]): RemoteModel[] {
  const groups = new Map<string, HubFile[]>();
  for (const file of files) {
    if (!isGgufFile(file.path)) continue;
    const key = modelKey(file.path);
    const group = groups.get(key);
    if (group) group.push(file);
    else groups.set(key, [file]);
  }
  const kind = kindsAmong(groups.keys());
  const models = [...groups.values()].map((parts) => makeModel(parts, kind));
  const order: FileKind[] = ['model', 'mtp', 'projector', 'imatrix', 'other'];
  return models.sort((a, b) => order.indexOf(a.kind) - order.indexOf(b.kind) || a.sizeBytes - b.sizeBytes || (a.name < b.name ? -1 : 1));
}

function makeModel(files: HubFile[], kindOf: (file: string) => GgufKind): RemoteModel {
  files.sort((a, b) => (a.path < b.path ? -1 : 1));
  const [first] = files as [HubFile];
  return {
    name: pathStemOf(first.path), kind: kindOf(first.path), quantization: quantizationOfName(first.path),
    files: files as [HubFile, ...HubFile[]], parts: partOf(first.path).total,
    sizeBytes: files.reduce((sum, file) => sum + file.sizeBytes, 0),
  };
}

/**
 * The one model of a repository, with all its parts, that a word selects: a file's path or name, a
 * model's name or a quantization. Throws with the candidates if there are none or several.
 */
export function chooseModel(repo: string, files: readonly HubFile[], word: string): RemoteModel {
  const models = groupModels(files);
  const found = candidates(models, files, word);
  const [model] = found;
  if (!model) throw noSuchFile(repo, models, files, word);
  if (found.length > 1) {
    throw new RecuaError('ambiguous_model',
      `Expected one file of ${repo}, but ${word} fits ${found.length}: ${found.slice(0, 40).map((one) => one.files[0].path).join(', ')}${found.length > 40 ? ' and more' : ''}. Name one with --file.`);
  }
  const missing = model.parts - model.files.length;
  if (missing !== 0) {
    throw new RecuaError('repository_file_not_found', `${model.name} of ${repo} should have ${model.parts} parts, but the repository has ${model.files.length} of them, so it cannot be run. Choose another: recua pull ${repo}`);
  }
  const empty = model.files.find((file) => isGgufFile(file.path) && file.sizeBytes < leastGgufBytes);
  if (empty) {
    throw new RecuaError('download_wrong_content', `Expected a GGUF file for ${repo}/${empty.path}, but it has ${empty.sizeBytes} bytes at the hub. Nothing was downloaded; choose another: recua pull ${repo}`);
  }
  return model;
}

function candidates(models: readonly RemoteModel[], files: readonly HubFile[], word: string): RemoteModel[] {
  const lower = word.toLowerCase();
  const nameOf = (path: string) => path.slice(path.lastIndexOf('/') + 1).toLowerCase();
  const rules: ((model: RemoteModel) => boolean)[] = [
    (model) => model.files.some((file) => file.path === word),
    (model) => model.files.some((file) => nameOf(file.path) === lower),
    (model) => model.name === word || model.name.toLowerCase() === lower,
    (model) => nameOf(model.name) === lower,
    (model) => model.kind === 'model' && model.quantization.toLowerCase() === lower.replace(/^fp(?=16|32)/, 'f'),
  ];
  for (const rule of rules) {
    const found = models.filter(rule);
    if (found.length > 0) return found;
  }
  const other = files.find((file) => file.path === word);
  return other ? [{ name: other.path, kind: 'other', quantization: '', files: [other], parts: 1, sizeBytes: other.sizeBytes }] : [];
}

/** The magic number, version and two counts at the start of every GGUF file. */
const leastGgufBytes = 24;
/** Edit distance is slow to compute. */
const mostCompared = 2000;

function noSuchFile(repo: string, models: readonly RemoteModel[], files: readonly HubFile[], word: string): RecuaError {
  const quantizations = [...new Set(models.filter((model) => model.kind === 'model' && model.quantization !== '').map((model) => model.quantization))];
  const near = nearest(word, [...quantizations, ...files.slice(0, mostCompared).map((file) => file.path)]);
  const shown = quantizations.length > 0 ? quantizations : models.map((model) => model.files[0].path);
  const has = models.length === 0
    ? 'It has no GGUF files at all; look for a repository with GGUF in its name.'
    : `It has ${shown.slice(0, 40).join(', ')}${shown.length > 40 ? ' and more' : ''}; all of them: recua pull ${repo}`;
  return new RecuaError('repository_file_not_found', `${repo} has no file or quantization ${word}.${near === undefined ? '' : ` Did you mean ${near}?`} ${has}`);
}
