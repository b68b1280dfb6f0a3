// A model: one GGUF file or the parts of a split model, on disk or on the hub, checked as a whole
// and summarized.
import { createHash } from 'node:crypto';
import { basename, dirname, sep } from 'node:path';
import { RecuaError } from '../../errors.js';
import { fileSource, readMark, writtenPart } from './byte-source.js';
import type { ByteSource } from './byte-source.js';
import { readGguf } from './gguf.js';
import type { Gguf, LongText, MetadataValue } from './gguf.js';
import { fileTypes } from './tensor-types.js';

export interface ModelFile {
  /** The parts in order; one if the model is not split. */
  parts: readonly [Gguf, ...Gguf[]];
  sizeBytes: number;
  tensorCount: number;
  architecture: string;
  /** '' if the file names none. */
  name: string;
  /** Elements of all tensors. */
  parameters: number;
  quantization: string;
  contextTrain: number;
  embeddingSize: number;
  layers: number;
  vocabSize: number;
  /**
   * Bytes of the longest token as written in the file; at least the length of the text that it
   * stands for. 0 if the file has no tokens.
   */
  longestTokenBytes: number;
  chatTemplate: string;
  hasChatTemplate: boolean;
  /** When the file last changed, in seconds since 1970; 0 if it is not on disk. */
  createdSeconds: number;
}

/** A model whose parts are opened by name: for models that are not on disk. */
export interface PartOpener {
  /** The model's file, or the first part of a split model. */
  file: string;
  /** Throws `model_not_found` for a missing part. */
  open(file: string): Promise<ByteSource>;
}

/** LLAMA_MAX_LAYERS of llama.cpp. */
const mostLayers = 512;
/** LLAMA_MAX_EXPERTS. */
const mostExperts = 1024;
const ropeScalings = ['none', 'linear', 'yarn', 'longrope'];

const partName = /^(.*)-(\d{5})-of-(\d{5})\.gguf$/i;

/** Reads and checks a model, given the path of its file or of its first part. */
export async function readModelFile(model: string | PartOpener): Promise<ModelFile> {
  const opener = typeof model === 'string' ? { file: model, open: fileSource } : model;
  const first = await readPart(opener, opener.file);
  const parts: [Gguf, ...Gguf[]] = [first, ...await readOtherParts(opener, first)];
  const tensors = parts.flatMap((part) => part.tensors);
  const metadata = first.metadata;
  const architecture = architectureOf(first);
  const ofArchitecture = (key: string) => count(metadata.get(`${architecture}.${key}`));
  const template = metadata.get('tokenizer.chat_template');
  checkValues(first, architecture);
  return {
    parts,
    sizeBytes: parts.reduce((sum, part) => sum + part.sizeBytes, 0),
    tensorCount: tensors.length,
    architecture,
    name: text(metadata.get('general.name')),
    parameters: tensors.reduce((sum, tensor) => sum + tensor.elements, 0),
    quantization: quantizationOf(parts),
    contextTrain: ofArchitecture('context_length'),
    embeddingSize: ofArchitecture('embedding_length'),
    layers: ofArchitecture('block_count'),
    vocabSize: lengthOf(metadata.get('tokenizer.ggml.tokens')) || ofArchitecture('vocab_size'),
    longestTokenBytes: longestOf(metadata.get('tokenizer.ggml.tokens')),
    chatTemplate: text(template),
    hasChatTemplate: template !== undefined && template !== '',
    createdSeconds: first.modifiedSeconds ?? 0,
  };
}

/**
 * '' if the file names none. The checks below look for this architecture's keys, so llama.cpp must
 * read the same name: it reads up to a NUL, and texts of any length.
 */
function architectureOf({ path, metadata }: Gguf): string {
  const value = metadata.get('general.architecture') ?? '';
  if (typeof value === 'string' && !value.includes('\0')) return value;
  throw new RecuaError('invalid_gguf', `${path} cannot be used: expected general.architecture to be a short text without a NUL.`);
}

/** llama.cpp ends the process on such values, or never ends, while it loads or later. */
function checkValues({ path, metadata }: Gguf, architecture: string): void {
  const refuse = (key: string, what: string): never => {
    const value = metadata.get(key);
    throw new RecuaError('invalid_gguf', `${path} cannot be used: expected ${key} to be ${what}, got ${value === undefined ? 'none' : isText(value) ? 'another text' : largest(value)}.`);
  };
  for (const [key, value] of metadata) {
    if (key === `${architecture}.block_count` && !(largest(value) >= 1 && largest(value) <= mostLayers)) refuse(key, `from 1 to ${mostLayers}`);
    if (/norm(_rms)?_epsilon$/.test(key) && !(largest(value) >= 0 && largest(value) < Infinity)) refuse(key, 'a number from 0');
  }
  const check = (name: string, sound: boolean, what: string): void => {
    if (!sound) refuse(`${architecture}.${name}`, what);
  };
  const numberOf = (name: string): number => {
    const value = metadata.get(`${architecture}.${name}`);
    return typeof value === 'number' || typeof value === 'bigint' ? Number(value) : NaN; // or a list
  };
  const listOf = (name: string): number[] => {
    const value = metadata.get(`${architecture}.${name}`);
    return value === undefined || isText(value) ? [] : typeof value === 'object' ? value.items.map(Number) : [Number(value)];
  };
  const heads = listOf('attention.head_count');
  const cached = listOf('attention.head_count_kv');
  // Each is one number for all layers, or a list with one per layer.
  const layers = Math.max(heads.length, cached.length);
  const at = (numbers: readonly number[], layer: number): number => numbers[numbers.length === 1 ? 0 : layer] ?? NaN;
  const isDivisor = Array.from({ length: layers }, (_, layer) => !(at(heads, layer) % at(cached, layer) > 0)).every(Boolean);
  check('attention.head_count_kv', isDivisor, heads.length === 1 ? `a divisor of ${heads[0]} heads` : 'divisors of the heads of their layers');
  const head = numberOf('attention.key_length') || Math.floor(numberOf('embedding_length') / heads[0]!);
  const sizes = { 'rope.dimension_count': head, 'rope.dimension_count_swa': numberOf('attention.key_length_swa') || head };
  for (const [name, size] of Object.entries(sizes)) {
    const rotated = numberOf(name);
    // With 0, ggml's rotation on the CPU never ends.
    check(name, !heads.some((count) => count > 0) || Number.isNaN(rotated) || (rotated >= 2 && rotated % 2 === 0), 'an even number from 2');
    // A GPU would write beyond the head.
    check(name, !(rotated > size), `at most ${size}, the size of a head`);
  }
  check('attention.key_length', !heads.some((count) => count > 0) || numberOf('attention.key_length') !== 0, 'at least 1');
  const scaling = metadata.get(`${architecture}.rope.scaling.type`);
  check('rope.scaling.type', !isText(scaling) || ropeScalings.some((one) => one === scaling), `one of ${ropeScalings.join(', ')}`);
  check('nextn_predict_layers', !(numberOf('nextn_predict_layers') > numberOf('block_count')), `at most ${numberOf('block_count')}`);
  const experts = numberOf('expert_count') || 0;
  check('expert_count', experts <= mostExperts, `at most ${mostExperts}`);
  const used = largest(metadata.get(`${architecture}.expert_used_count`) ?? 0);
  const dense = experts <= 1 && /^hunyuan(_vl|-dense)$/.test(architecture); // llama.cpp then ignores how many are used
  if (experts > 0) check('expert_used_count', dense || (used >= 1 && used <= experts), `from 1 to ${experts}`);
  else check('expert_used_count', dense || used === 0, '0, without experts');
  const groups = numberOf('expert_group_count') || 0;
  check('expert_group_count', groups === 0 || (groups < experts && experts % groups === 0), `0, or a part of ${experts} experts`);
  const groupsUsed = numberOf('expert_group_used_count') || 0;
  check('expert_group_used_count', groups <= 1 || (groupsUsed >= 1 && groupsUsed < groups), `from 1 to ${groups - 1}`);
}

const isText = (value: MetadataValue | undefined): value is string | LongText => typeof value === 'string' || (typeof value === 'object' && 'lengthBytes' in value);

/** A number, or the largest of a list of them, one per layer. */
function largest(value: MetadataValue): number {
  return typeof value === 'object' && 'items' in value ? Math.max(...value.items.map(Number)) : Number(value);
}

/** Files of a model that were checked, as they were then. */
export interface CheckedFile {
  path: string;
  mark: string;
}

export function checkedFiles({ parts }: ModelFile): CheckedFile[] {
  return parts.flatMap(({ path, mark }) => (mark === undefined ? [] : [{ path, mark }]));
}

/**
 * Checks a model before it is loaded, unless its files are still the `checked` ones. Resolves to
 * the current files. Throws what readModelFile throws.
 */
export async function ensureChecked(path: string, checked: readonly CheckedFile[]): Promise<readonly CheckedFile[]> {
  const marks = checked[0]?.path === path ? await Promise.all(checked.map((file) => readMark(file.path))) : [];
  if (marks.length > 0 && marks.every((mark, i) => mark === checked[i]!.mark)) return checked;
  return checkedFiles(await readModelFile(path));
}

/** What an error says about a model's files, without the folders of this machine, for clients. */
export function withoutFolders(thrown: unknown, ...paths: string[]): string {
  return paths.reduce((text, path) => text.replaceAll(dirname(path) + sep, ''), RecuaError.from(thrown).message);
}

/**
 * Two models have the same fingerprint if they were read from the same files of this machine, not
 * written to since then. It does not reveal paths, so anybody may see it.
 */
export function fingerprintOf(files: readonly CheckedFile[]): string {
  return createHash('sha256').update(files.map(({ mark }) => writtenPart(mark)).join('\n')).digest('hex').slice(0, 32);
}

/** What happened to a model's files since they were checked; undefined if nobody wrote to them. */
export async function changeOf(checked: readonly CheckedFile[]): Promise<'changed' | 'gone' | undefined> {
  const marks = await Promise.all(checked.map((file) => readMark(file.path)));
  if (marks.includes(undefined)) return 'gone';
  return marks.every((mark, i) => writtenPart(mark!) === writtenPart(checked[i]!.mark)) ? undefined : 'changed';
}

/** The quantization that the file states, or the type of most of its bytes. */
export function quantizationOf(parts: readonly [Gguf, ...Gguf[]]): string {
  return fileTypes.get(count(parts[0].metadata.get('general.file_type'), -1)) ?? commonType(parts);
}

async function readPart(opener: PartOpener, file: string): Promise<Gguf> {
  const source = await opener.open(file);
  try {
    return await readGguf(source);
  } finally {
    await source.close();
  }
}

/**
 * Checks the parts after the first: each must be present and valid, and together they must hold as
 * many tensors as the first part says.
 */
async function readOtherParts(opener: PartOpener, first: Gguf): Promise<Gguf[]> {
  const total = count(first.metadata.get('split.count'), 1);
  if (total <= 1) return [];
  const invalid = (what: string) => new RecuaError('invalid_gguf', `${first.path} is one of ${total} parts of a model, but ${what}.`);
  const named = partName.exec(basename(opener.file));
  if (!named) throw invalid(`its name does not end in -00001-of-${pad(total)}.gguf, which llama.cpp needs to find the others; give the files their names back`);
  const [, stem, number, of] = named;
  if (Number(of) !== total) throw invalid(`its name says ${Number(of)}; give the file its name back`);
  const folder = opener.file.slice(0, -basename(opener.file).length);
  const nameOf = (part: number) => `${folder}${stem}-${pad(part)}-of-${of}.gguf`;
  if (Number(number) !== 1 || count(first.metadata.get('split.no')) !== 0) throw invalid(`not the first; name that: ${nameOf(1)}`);
  if (total > 9999) throw invalid('that many parts cannot be');
  const others: Gguf[] = [];
  for (let part = 2; part <= total; part++) {
    const path = nameOf(part);
    const other = await readPart(opener, path).catch((cause: unknown) => {
      if (!(cause instanceof RecuaError) || (cause.code !== 'model_not_found' && cause.code !== 'repository_file_not_found')) throw cause;
      throw new RecuaError('invalid_gguf', `${first.path} is one of ${total} parts of a model, but part ${part} is missing: there is no ${path}. Download it too.`, { cause });
    });
    const at = count(other.metadata.get('split.no'), -1);
    if (at !== part - 1) throw new RecuaError('invalid_gguf', `${path} does not hold part ${part}, as its name says, but part ${at + 1}.`);
    others.push(other);
  }
  const expected = count(first.metadata.get('split.tensors.count'));
  const found = [first, ...others].reduce((sum, part) => sum + part.tensors.length, 0);
  if (expected !== 0 && expected !== found) throw invalid(`the parts hold ${found} tensors instead of ${expected}, so one of them belongs to another model`);
  return others;
}

function pad(part: number): string {
  return String(part).padStart(5, '0');
}

/** The type of most of the bytes, for files that state none. */
function commonType(parts: readonly Gguf[]): string {
  const bytes = new Map<string, number>();
  for (const part of parts) {
    for (const tensor of part.tensors) bytes.set(tensor.type, (bytes.get(tensor.type) ?? 0) + tensor.sizeBytes);
  }
  return [...bytes].sort((a, b) => b[1] - a[1])[0]?.[0] ?? 'none';
}

function text(value: MetadataValue | undefined): string {
  return typeof value === 'string' ? value : '';
}

function count(value: MetadataValue | undefined, otherwise = 0): number {
  if (typeof value !== 'number' && typeof value !== 'bigint') return otherwise;
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : otherwise;
}

function lengthOf(value: MetadataValue | undefined): number {
  return typeof value === 'object' && 'itemType' in value ? value.length : 0;
}

function longestOf(value: MetadataValue | undefined): number {
  return typeof value === 'object' && 'itemType' in value ? value.longestBytes ?? 0 : 0;
}
